"""What docs/switching.md says is run."""

import re
import shlex
from datetime import datetime, timezone
from pathlib import Path

import pytest

from celery_dbbeat.contrib.importers.transfer import OUTCOMES
from tests.cli.conftest import Run
from tests.importers.kit import django_project
from tests.store.kit import Person

UTC = timezone.utc
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
PAGE = (Path(__file__).parents[2] / "docs/switching.md").read_text()
COMMANDS = re.findall(r"^ *\$ celery -A shop dbbeat (import .*)$", PAGE, re.MULTILINE)


def test_the_outcomes_are_those_of_the_code() -> None:
    table = re.search(r"^\| outcome \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert table is not None
    assert re.findall(r"^\| `(\w+)`", table[1], re.MULTILINE) == list(OUTCOMES)


@pytest.mark.parametrize("command", sorted({line.partition(" --url")[0] for line in COMMANDS}))
def test_each_command_is_understood(celery: Run, database_url: str, command: str) -> None:
    done = celery(*shlex.split(command), SHOP_URL=database_url)
    # There is nothing to import here, and that is what it says.
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")


def test_going_back(celery: Run, person: Person, database_url: str) -> None:
    django_project(database_url, NOON, 5)
    celery("import", "django-celery-beat", "--url", database_url, SHOP_URL=database_url)
    person.do(
        "INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica)"
        " SELECT id, '2026-06-02 12:00Z', id, 'sent', now(), 'a' FROM dbbeat_schedule"
    )
    (update,) = re.findall(r"^```postgresql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    person.connection.execute(update.encode())
    last_runs = person.do("SELECT last_run_at FROM django_celery_beat_periodictask WHERE enabled")
    assert {row["last_run_at"] for row in last_runs} == {datetime(2026, 6, 2, 12, tzinfo=UTC)}
