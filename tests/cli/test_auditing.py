"""Changes, explain, diff and check from the command line."""

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.api.kit import Clerk
from tests.cli.conftest import Run
from tests.cli.test_commands import failed
from tests.cli.test_history import answered
from tests.support.services import free_port


@pytest.fixture
def clerk(database_url: str) -> Iterator[Clerk]:
    with closing(Clerk(database_url)) as somebody:
        yield somebody


def test_changes(celery: Run, clerk: Clerk, database_url: str) -> None:
    clerk.add()
    clerk.do("UPDATE dbbeat_schedule SET expression = '60'")
    head, first, second = answered(celery("changes", "nightly", SHOP_URL=database_url)).splitlines()
    assert head.split() == ["WHEN", "WHO", "BY", "ACTION", "NAME", "WHAT"]
    assert first.endswith("expression: 86400 → 60")
    assert "insert" in second
    assert "None" not in second
    assert "{}" not in second
    done = celery("changes", "nightly", "-n", "1", "--json", SHOP_URL=database_url)
    (change,) = json.loads(answered(done))
    assert (change["who"], change["after"]) == ("postgres", {"expression": "60"})
    assert "no schedule 'x'" in failed(celery("changes", "x", SHOP_URL=database_url), 1)


def test_explain(celery: Run, clerk: Clerk, database_url: str) -> None:
    clerk.add(expression="3600")
    done = celery("explain", "nightly", "2099-01-01T00:00", SHOP_URL=database_url)
    assert answered(done).endswith("It is still to come.\n")
    done = celery("explain", "nightly", "2099-01-01T00:30Z", "--json", SHOP_URL=database_url)
    found = json.loads(answered(done))
    assert (found["verdict"], found["previous"]) == (
        "not_a_fire_time",
        "2099-01-01T00:00:00+00:00",
    )
    assert "is not a fire time" in found["text"]
    done = celery("explain", "nightly", "noon", SHOP_URL=database_url)
    assert "at is 'noon'" in failed(done, 1)


def test_diff(celery: Run, clerk: Clerk, database_url: str) -> None:
    clerk.add(expression="3600")
    done = celery("diff", "nightly", "--interval", "2h", "-n", "4", SHOP_URL=database_url)
    lines = answered(done).splitlines()
    assert len(lines) == 1 + 8
    assert sum("removed" in line for line in lines) == 4
    done = celery(*("diff", "nightly", "--cron", "0 * * * *", "-j"), SHOP_URL=database_url)
    assert len(json.loads(answered(done))["kept"]) == 20
    assert celery("diff", "nightly").returncode == 2
    assert "interval 'x' is not allowed" in failed(
        celery("diff", "nightly", "--interval", "x", SHOP_URL=database_url), 1
    )


def test_check(celery: Run, clerk: Clerk, database_url: str) -> None:
    identity = clerk.add(expression="3600")
    done = celery("check", "--since", "1d12h", SHOP_URL=database_url)
    assert answered(done).endswith("complete.\n")
    clerk.do("UPDATE dbbeat_audit SET changed_at = now() - interval '2 hours'")
    clerk.do(
        "UPDATE dbbeat_cursor SET nominal_at = now() + interval '1 hour', replan_from = NULL"
        " WHERE schedule_id = %s",
        identity,
    )
    done = celery("check", "--since", "1d", SHOP_URL=database_url)
    assert done.returncode == 1
    assert "2 with neither tick nor reason" in done.stdout
    done = celery("check", "--since", "1d", "--limit", "1", "--json", SHOP_URL=database_url)
    found = json.loads(done.stdout)
    assert (done.returncode, found["complete"], found["missing"]) == (1, False, 2)
    assert [gap["state"] for gap in found["gaps"]] == ["lost"]
    assert "since is 'soon'" in failed(celery("check", "--since", "soon", SHOP_URL=database_url), 1)
    assert celery("check").returncode == 2


def test_without_a_database_check_is_69(celery: Run) -> None:
    nowhere = f"postgresql+psycopg://127.0.0.1:{free_port()}/none"
    assert celery("check", "--since", "1h", SHOP_URL=nowhere).returncode == 69
