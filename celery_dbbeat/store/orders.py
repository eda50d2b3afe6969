"""What people order of one schedule: pause, resume, a tick now; and its pause when it fails."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any
from uuid import UUID

from celery_dbbeat.errors import NotFound, ScheduleError
from celery_dbbeat.rules.failures import Ended
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.rows import plain


@dataclass(frozen=True, slots=True)
class Failing:
    """A schedule that is to be paused when too many fail, and how its newest ticks ended."""

    schedule_id: UUID
    name: str
    version: int
    pause_after: int
    newest: tuple[Ended, ...]


def pause(transaction: Transaction, name: str, note: str | None) -> None:
    """Pause it; a claim under way has ended by then."""
    told = None if note is None else plain(note)
    if not transaction.run("pause_schedule", name=name, note=told).all:
        _refuse(transaction, name)


def resume(transaction: Transaction, name: str) -> bool:
    """Resume it; says whether it was paused."""
    if transaction.run("resume_schedule", name=name).all:
        return True
    _refuse(transaction, name, unless="active")
    return False


def trigger(
    transaction: Transaction,
    name: str,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
) -> UUID:
    """Record a tick to be sent now; returns its task id."""
    given = {"args": _as_json(args), "kwargs": _as_json(kwargs)}
    found = transaction.run("state_of", name=name).all
    if found and found[0]["state"] == "invalid":
        raise ScheduleError(f"the schedule {name!r} is invalid: {found[0]['reason']}")
    identity: UUID | None = transaction.run("trigger", name=name, **given).one()["task_id"]
    if identity is None:
        raise NotFound(f"there is no schedule {name!r}")
    return identity


def failing(database: Database, schedule_ids: Sequence[UUID]) -> list[Failing]:
    """How the newest ticks ended of those schedules that are to be paused when too many fail."""
    with database.transaction() as transaction:
        rows = transaction.run("newest_endings", schedule_ids=list(schedule_ids)).all
    return [
        Failing(*key, tuple(Ended(row["failed"], row["reason"]) for row in group))
        for key, group in groupby(
            rows,
            lambda row: (row["schedule_id"], row["name"], row["version"], row["pause_after"]),
        )
    ]


def pause_failing(database: Database, one: Failing, note: str, replica: str) -> bool:
    """Pause it, unless it changed or somebody holds it; says whether it did."""
    with database.transaction() as transaction:
        transaction.act_as(replica, "beat")
        rows = transaction.run(
            "pause_failing", schedule_id=one.schedule_id, version=one.version, note=plain(note)
        ).all
    return bool(rows)


def _refuse(transaction: Transaction, name: str, unless: str | None = None) -> None:
    """Say why nothing was done, unless there was nothing to do."""
    rows = transaction.run("state_of", name=name).all
    if not rows:
        raise NotFound(f"there is no schedule {name!r}")
    state, reason = rows[0]["state"], rows[0]["reason"]
    if state != unless:
        raise ScheduleError(
            f"the schedule {name!r} is {state}: {reason}; allowed is active or paused"
        )


def _as_json(value: object) -> str | None:
    return None if value is None else json.dumps(value)
