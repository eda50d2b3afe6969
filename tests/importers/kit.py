"""What the tests of importers share: fire times as beat would plan them, and the other side."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from celery_dbbeat.contrib.importers.entry import Entry, Refused
from celery_dbbeat.contrib.importers.transfer import Outcome, decide
from celery_dbbeat.rules.plan import plan
from celery_dbbeat.rules.schedule import Cursor, Schedule
from celery_dbbeat.store import imports
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.rows import schedule_of, utc
from tests.store.kit import Person

UTC = timezone.utc
TIMES = 20
HERE = Path(__file__).parent

_ROWS = """
SELECT s.*, s.id AS schedule_id, s.args::text AS args, s.kwargs::text AS kwargs,
       s.options::text AS options, s.exclude::text AS exclude,
       c.nominal_at, c.due_at, c.replan_from, c.held_at, c.runs
FROM dbbeat_schedule s JOIN dbbeat_cursor c ON c.schedule_id = s.id
"""


def django_project(url: str, now: datetime, count: int, seed: int = 1) -> dict[str, list[datetime]]:
    """Make mixed tasks of django-celery-beat there; returns when it would send each."""
    arguments = [url, now.isoformat(), str(count), str(seed)]
    done = subprocess.run(
        [sys.executable, str(HERE / "django_side.py"), *arguments],
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {
        name: [datetime.fromisoformat(time) for time in times]
        for name, times in json.loads(done.stdout).items()
    }


def bring_in(
    store: Database, source: str, entries: Sequence[Entry | Refused], now: datetime
) -> dict[str, Outcome]:
    """Decide as of an instant, and write; returns the outcomes by name."""
    names = [one.schedule.name for one in entries if isinstance(one, Entry)]
    outcomes = decide(source, entries, imports.earlier(store, source, names), now)
    writes = [one.write for one in outcomes if one.write is not None]
    with store.transaction() as transaction:
        assert imports.write(transaction, source, writes) == {one.schedule.name for one in writes}
    return {one.name: one for one in outcomes}


def planned(person: Person, now: datetime) -> dict[str, list[datetime]]:
    """The next 20 fire times of each active schedule, planned from its cursor at an instant on."""
    rows = person.do(f"{_ROWS} WHERE s.state = 'active' ORDER BY s.name")
    return {row["name"]: _planned(schedule_of(row), _cursor(row), now) for row in rows}


def _cursor(row: dict[str, Any]) -> Cursor:
    return Cursor(
        utc(row["nominal_at"]),
        utc(row["due_at"]),
        utc(row["replan_from"]),
        utc(row["held_at"]),
        row["runs"],
    )


def _planned(schedule: Schedule, cursor: Cursor, now: datetime) -> list[datetime]:
    times: list[datetime] = []
    while len(times) < TIMES:
        decided = plan(schedule, cursor, now)
        assert decided.ends != "invalid", decided.reason
        times += [tick.nominal_at for tick in decided.ticks]
        if decided.ends is not None or decided.cursor.due_at is None:
            break
        cursor, now = decided.cursor, max(now, decided.cursor.due_at)
    return times[:TIMES]


def same(ours: Sequence[datetime], theirs: Sequence[datetime], within: timedelta) -> bool:
    """Whether they fire at the same times."""
    return len(ours) == len(theirs) and all(
        abs(one - other) <= within for one, other in zip(ours, theirs, strict=True)
    )
