"""Who changed which schedule, and which *when* it had at any time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from celery_dbbeat.errors import NotFound
from celery_dbbeat.rules.schedule import Cursor, Schedule
from celery_dbbeat.rules.story import Stretch, Turn, stretches
from celery_dbbeat.store.database import Database, Transaction, in_transaction
from celery_dbbeat.store.rows import UTC, utc


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a schedule: by whom, when, by which way, and how it was before and after.

    `action` is insert, update, delete or truncate; `found` means that the schedule was there when
    the audit began. Of an update `before` and `after` hold what changed, else all; None: nothing.
    """

    schedule_id: UUID
    name: str
    at: datetime
    action: str
    who: str
    source: str
    database_user: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Story:
    """The stretches of one schedule, each with its *when*, and how it stands now."""

    schedule_id: UUID
    name: str
    stretches: tuple[Stretch, ...]
    turns: tuple[Turn, ...]
    cursor: Cursor | None


def bearers(transaction: Transaction, name: str) -> list[UUID]:
    """The ids of the schedules that have this name or had it; there is at least one."""
    ids = [row["schedule_id"] for row in transaction.run("bearers", name=name).all]
    if not ids:
        raise NotFound(f"there is no schedule {name!r}, and as far as is known there never was")
    return ids


def changes(transaction: Transaction, name: str, limit: int) -> list[Change]:
    """What was changed of the schedules that have or had this name, the newest first."""
    ids = bearers(transaction, name)
    return [_change(row) for row in transaction.run("changes", schedule_ids=ids, limit=limit).all]


def stories(database: Database | Transaction, schedule_ids: Sequence[UUID]) -> list[Story]:
    """What is known of the *when* of these schedules, in the order of their ids."""
    with in_transaction(database) as transaction:
        rows = transaction.run("turns", schedule_ids=list(schedule_ids)).all
    return [_story(list(group)) for _, group in groupby(rows, itemgetter("schedule_id"))]


def _story(rows: Sequence[dict[str, Any]]) -> Story:
    last = rows[-1]
    turns = tuple(_turn(row) for row in rows)
    cursor = _cursor(last) if last["has_cursor"] else None
    name = last["called"] if last["deleted"] else last["name"]
    return Story(last["schedule_id"], name, tuple(stretches(turns, cursor)), turns, cursor)


def _turn(row: dict[str, Any]) -> Turn:
    change = _change({**row, "name": row["called"]})
    if row["deleted"]:
        return Turn(change.at, change.action, None, None, utc(row["stood_at"]), change)
    schedule = Schedule(
        id=row["schedule_id"],
        version=0,
        name=row["name"],
        task="",
        kind=row["kind"],
        expression=row["expression"],
        timezone=row["timezone"],
        jitter=row["jitter"],
        start_at=utc(row["start_at"]),
        end_at=utc(row["end_at"]),
        max_runs=row["max_runs"],
        exclude=row["exclude"],
    )
    return Turn(change.at, change.action, schedule, row["state"], utc(row["stood_at"]), change)


def _cursor(row: dict[str, Any]) -> Cursor:
    return Cursor(
        utc(row["nominal_at"]),
        utc(row["due_at"]),
        utc(row["replan_from"]),
        utc(row["held_at"]),
        row["runs"],
        row["waits_for"],
        utc(row["waits_since"]),
    )


def _change(row: dict[str, Any]) -> Change:
    return Change(
        schedule_id=row["schedule_id"],
        name=row["name"],
        at=row["changed_at"].astimezone(UTC),
        action=row["action"],
        who=row["who"],
        source=row["source"],
        database_user=row["database_user"],
        before=row["before"],
        after=row["after"],
    )
