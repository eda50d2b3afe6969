"""History, dead ticks, replay and roles from the command line."""

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import psycopg
import pytest

from celery_dbbeat.store.migrate import head
from tests.api.kit import NOON, SECOND, Clerk
from tests.cli.conftest import Done, Run
from tests.cli.test_commands import failed
from tests.support.services import free_port, psycopg_url

HOUR = timedelta(hours=1)


@pytest.fixture
def clerk(database_url: str) -> Iterator[Clerk]:
    with closing(Clerk(database_url)) as somebody:
        yield somebody


def answered(done: Done) -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


class TestHistory:
    def test_a_table(self, celery: Run, clerk: Clerk, database_url: str) -> None:
        nightly = clerk.add()
        task_id = clerk.tick(nightly)
        clerk.run(task_id)
        late = {"sent_at": None, "count": 3, "reason": "too\nlate \x1b[31m"}
        clerk.tick(nightly, NOON - HOUR, "missed", **late)
        done = celery("history", "nightly", SHOP_URL=database_url)
        names, first, second = answered(done).splitlines()
        assert names.startswith("FIRE TIME ")
        assert names.index("TASK ID") == first.index(str(task_id))
        assert first.startswith("2026-01-10 12:00:00  sent ")
        assert "0.500 s" in first
        assert "2.000 s" in first
        assert second.startswith("2026-01-10 11:00:00  missed × 3")
        assert second.endswith("too late ?[31m")

    def test_in_json_up_to_a_limit(self, celery: Run, clerk: Clerk, database_url: str) -> None:
        nightly = clerk.add()
        task_id = clerk.tick(nightly)
        clerk.run(task_id)
        clerk.tick(nightly, NOON - HOUR)
        done = celery("history", "nightly", "--limit", "1", "--json", SHOP_URL=database_url)
        (entry,) = json.loads(answered(done))
        assert entry["task_id"] == str(task_id)
        assert entry["nominal"] == "2026-01-10T12:00:00+00:00"
        assert (entry["lateness"], entry["duration"]) == (0.5, 2.0)

    def test_nothing_yet(self, celery: Run, clerk: Clerk, database_url: str) -> None:
        clerk.add()
        done = celery("history", "nightly", SHOP_URL=database_url)
        assert (done.returncode, done.stdout) == (0, "")
        assert done.stderr == "The schedule 'nightly' has no history yet.\n"
        done = celery("history", "nightly", "-j", SHOP_URL=database_url)
        assert answered(done) == "[]\n"

    def test_an_unknown_name_is_1(self, celery: Run, database_url: str) -> None:
        done = celery("history", "nightly", SHOP_URL=database_url)
        assert "no schedule 'nightly'" in failed(done, 1)

    def test_no_limit_below_1(self, celery: Run) -> None:
        assert celery("history", "nightly", "-n", "0").returncode == 2


class TestDead:
    def test_a_table(self, celery: Run, clerk: Clerk, database_url: str) -> None:
        task_id = clerk.dead(clerk.add())
        clerk.dead(clerk.add("other"))
        done = celery("dead", "--schedule", "nightly", SHOP_URL=database_url)
        _, line = answered(done).splitlines()
        assert line.startswith(f"{task_id}  nightly ")
        assert line.endswith("the task failed")

    def test_in_json(self, celery: Run, clerk: Clerk, database_url: str) -> None:
        task_id = clerk.dead(clerk.add())
        (letter,) = json.loads(answered(celery("dead", "-j", SHOP_URL=database_url)))
        assert (letter["task_id"], letter["traceback"]) == (str(task_id), "Trace")
        assert letter["ended"] == (NOON + 3 * SECOND).isoformat()

    def test_none(self, celery: Run, database_url: str) -> None:
        done = celery("dead", SHOP_URL=database_url)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "No tick is dead.\n")


def states(clerk: Clerk) -> list[str]:
    return [row["state"] for row in clerk.do("SELECT state FROM dbbeat_tick ORDER BY nominal_at")]


class TestReplay:
    def test_by_task_ids(self, celery: Run, clerk: Clerk, database_url: str) -> None:
        nightly = clerk.add()
        ids = [str(clerk.dead(nightly, NOON + hour * HOUR)) for hour in range(3)]
        done = celery("replay", *ids[:2], SHOP_URL=database_url)
        assert answered(done) == "To be sent again by beat: 2.\n"
        assert states(clerk) == ["recorded", "recorded", "dead"]

    def test_all_of_a_schedule(self, celery: Run, clerk: Clerk, database_url: str) -> None:
        clerk.dead(clerk.add(), NOON)
        clerk.dead(clerk.add("other"), NOON + HOUR)
        done = celery("replay", "--all", "-s", "other", "--yes", "--json", SHOP_URL=database_url)
        assert answered(done) == '{"sent_again": 1}\n'
        assert states(clerk) == ["dead", "recorded"]

    def test_all_asks_and_no_answer_is_no(
        self, celery: Run, clerk: Clerk, database_url: str
    ) -> None:
        clerk.dead(clerk.add())
        done = celery("replay", "--all", SHOP_URL=database_url)
        assert (done.returncode, done.stdout) == (1, "")
        assert "all dead ticks of every schedule" in done.stderr
        assert states(clerk) == ["dead"]

    def test_an_unknown_id_is_1(self, celery: Run, database_url: str) -> None:
        done = celery("replay", str(uuid4()), SHOP_URL=database_url)
        assert "is not that of a dead tick" in failed(done, 1)

    @pytest.mark.parametrize(
        "arguments", [[], ["--all", "an-id"], ["an-id", "--yes"], ["an-id", "--schedule", "a"]]
    )
    def test_a_wrong_use_is_2(self, celery: Run, arguments: list[str]) -> None:
        done = celery("replay", *arguments)
        assert (done.returncode, done.stdout) == (2, "")


class TestDedupOnly:
    def test_only_the_table_of_runs_in_the_database_named(
        self, celery: Run, empty_database_url: str
    ) -> None:
        """Whatever the app's own database is."""
        other = f"postgresql://127.0.0.1:{free_port()}/none"
        arguments = ["migrate", "--dedup-only", "--url", empty_database_url]
        done = celery(*arguments, SHOP_URL=other, DBBEAT_URL=other)
        assert answered(done) == f"The table of runs is at version {head()}.\n"
        with psycopg.connect(psycopg_url(empty_database_url)) as connection:
            found = connection.execute(
                "SELECT to_regclass('dbbeat_dedup') IS NOT NULL,"
                " to_regclass('dbbeat_schedule') IS NULL"
            )
            assert found.fetchone() == (True, True)

    @pytest.mark.parametrize("arguments", [["--dedup-only"], ["--url", "postgresql:///none"]])
    def test_a_wrong_use_is_2(self, celery: Run, arguments: list[str]) -> None:
        assert celery("migrate", *arguments).returncode == 2

    def test_a_wrong_url_is_1_without_the_password(self, celery: Run) -> None:
        done = celery("migrate", "--dedup-only", "--url", "mysql://me:s3cret@host/name")
        assert "s3cret" not in failed(done, 1)


class TestRoles:
    def test_the_sql_is_printed_for_the_schema_that_is_set(
        self, celery: Run, database_url: str
    ) -> None:
        text = answered(celery("roles", SHOP_URL=database_url, DBBEAT_SCHEMA="elsewhere"))
        assert text.startswith('SET search_path = "elsewhere";\n')
        assert "TO dbbeat_manager;" in text

    def test_without_one_nothing_is_set(self, celery: Run, database_url: str) -> None:
        assert "SET search_path" not in answered(celery("roles", SHOP_URL=database_url))
