"""Pause, resume, trigger and backfill from the command line."""

import json
from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest

from tests.api.kit import Clerk
from tests.cli.conftest import Run
from tests.cli.test_commands import failed
from tests.cli.test_history import answered
from tests.support.waiting import wait_until

DAYS = ["2026-01-10", "2026-01-12"]


@pytest.fixture
def clerk(database_url: str) -> Iterator[Clerk]:
    with closing(Clerk(database_url)) as somebody:
        yield somebody


@pytest.fixture
def dbbeat(celery: Run, clerk: Clerk, database_url: str) -> Run:
    """A command of the app, beside one daily schedule."""
    clerk.add()

    def run(*arguments: str) -> object:
        return celery(*arguments, SHOP_URL=database_url)

    return run  # type: ignore[return-value]


def test_pause_and_resume(dbbeat: Run, clerk: Clerk) -> None:
    done = dbbeat("pause", "nightly", "--note", "the printer is broken")
    assert answered(done) == "The schedule 'nightly' is paused.\n"
    assert clerk.value("SELECT note FROM dbbeat_schedule") == "the printer is broken"
    done = dbbeat("resume", "nightly", "--catch-up", "--json")
    assert json.loads(answered(done)) == {"name": "nightly", "state": "active", "backfill": 1}


def test_trigger(dbbeat: Run, clerk: Clerk) -> None:
    done = dbbeat("trigger", "nightly", "--args", "[1]", "--kwargs", '{"a": 2}', "--json")
    (tick,) = clerk.do("SELECT task_id, arguments FROM dbbeat_tick")
    assert json.loads(answered(done)) == {"task_id": str(tick["task_id"])}
    assert tick["arguments"] == {"args": [1], "kwargs": {"a": 2}}
    wrong = dbbeat("trigger", "nightly", "--args", "[1")
    assert (wrong.returncode, "'[1' is not JSON" in wrong.stderr) == (2, True)


def test_a_dry_run(dbbeat: Run, clerk: Clerk) -> None:
    done = dbbeat("backfill", "nightly", *DAYS, "--dry-run", "-n", "2")
    head, first, _, last = answered(done).splitlines()
    assert head.split() == ["FIRE", "TIME", "IS", "BECOMES", "TASK", "ID"]
    assert first.startswith("2026-01-10 00:00:00  unsent  sent ")
    assert last == "3 fire times; 2 of the first 2 would be sent."
    done = dbbeat("backfill", "nightly", *DAYS, "--dry-run", "--json")
    plan = json.loads(answered(done))
    assert (plan["count"], plan["complete"], plan["to_send"]) == (3, True, 3)
    assert plan["fire_times"][0]["nominal"] == "2026-01-10T00:00:00+00:00"
    assert clerk.value("SELECT count(*) FROM dbbeat_backfill") == 0


def test_an_order_its_progress_and_its_end(dbbeat: Run, clerk: Clerk) -> None:
    done = dbbeat("backfill", "nightly", *DAYS, "--yes", "--rate", "2", "--note", "an outage")
    assert answered(done) == "Backfill 1 is ordered: 3 fire times.\n"
    line = answered(dbbeat("backfills", "nightly")).splitlines()[1]
    assert "running  0%" in line
    assert line.endswith("an outage")
    (facts,) = json.loads(answered(dbbeat("backfills", "--json")))
    assert (facts["id"], facts["rate"], facts["total"], facts["share"]) == (1, 2.0, 3, 0.0)
    assert answered(dbbeat("backfill-stop", "1")).startswith("Backfill 1 is stopped: somebody")


def test_waiting_for_its_end(dbbeat: Run, clerk: Clerk) -> None:
    def end() -> None:
        wait_until(lambda: clerk.value("SELECT count(*) FROM dbbeat_backfill"), 30)
        clerk.do("UPDATE dbbeat_backfill SET state = 'stopped', reason = 'why'")

    ender = Thread(target=end)
    ender.start()
    done = dbbeat("backfill", "nightly", *DAYS, "--yes", "--wait")
    ender.join()
    assert done.returncode == 1
    assert done.stdout.startswith("Backfill 1 is stopped: why. 0 fire times decided of 3")


def test_a_wrong_use_is_2(celery: Run) -> None:
    assert celery("backfill", "nightly", *DAYS, "--dry-run", "--wait").returncode == 2


def test_what_cannot_be_done_is_1(dbbeat: Run) -> None:
    assert "older than dbbeat_retention" in failed(
        dbbeat("backfill", "nightly", "2020-01-01", "2020-01-02"), 1
    )
