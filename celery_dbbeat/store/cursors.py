"""Claim what is due, and record what was decided of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery_dbbeat.rules.plan import NotSent, Plan
from celery_dbbeat.rules.schedule import Cursor, Schedule
from celery_dbbeat.rules.tick import Tick, task_id
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.rows import schedule_of, tick_keys, utc

SHARDS = 256


@dataclass(frozen=True, slots=True)
class Holding:
    """The shards on which a replica goes first, each with the epoch of its lease."""

    epochs: Mapping[int, int]

    @property
    def everything(self) -> bool:
        """Whether no shard is somebody else's."""
        return len(self.epochs) == SHARDS

    def parameters(self) -> dict[str, object]:
        """As the statements take it."""
        shards = [] if self.everything else list(self.epochs)
        return {"all_shards": self.everything, "shards": shards}


@dataclass(frozen=True, slots=True)
class Due:
    """One schedule whose cursor is due and claimed."""

    schedule: Schedule
    cursor: Cursor
    epoch: int | None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One tick to publish, with the schedule that says what."""

    schedule: Schedule
    tick: Tick


@dataclass(frozen=True, slots=True)
class Outlook:
    """When there is something to do next, by the database's clock."""

    now: datetime
    held_due: datetime | None
    any_due: datetime | None
    unsent_since: datetime | None
    #: When the next late tick may go; None: there is none.
    late_at: datetime | None = None
    #: Whether a schedule waits for a run to end.
    waiting: bool = False


def claim(
    transaction: Transaction, holding: Holding, hedge: timedelta, limit: int
) -> tuple[datetime | None, list[Due]]:
    """Take due cursors for this transaction; the time is the database's."""
    rows = transaction.run(
        "claim_due",
        at_least=timedelta(0) if holding.epochs else hedge,
        hedge=hedge,
        limit=limit,
        **holding.parameters(),
    ).all
    return (utc(rows[0]["now"]) if rows else None), _claimed(transaction, rows, holding)


def claim_late(transaction: Transaction, holding: Holding, limit: int) -> list[Due]:
    """Take late ones whose turn has come, whatever their shards."""
    rows = transaction.run("claim_late", limit=limit).all
    return _claimed(transaction, rows, holding)


def unsent_of(transaction: Transaction, schedule_ids: Sequence[UUID]) -> set[UUID]:
    """Of these schedules, those that have ticks which are not known to be sent."""
    rows = transaction.run("unsent_of", schedule_ids=list(schedule_ids)).all
    return {row["schedule_id"] for row in rows}


def postpone(transaction: Transaction, schedule_ids: Sequence[UUID]) -> None:
    """Look at these schedules again a little later."""
    transaction.run("postpone", schedule_ids=list(schedule_ids))


def _claimed(
    transaction: Transaction, rows: Sequence[dict[str, Any]], holding: Holding
) -> list[Due]:
    stale = [row["schedule_id"] for row in rows if row["stale"]]
    if stale:
        transaction.run("mend_cursors", schedule_ids=stale)
    return [
        Due(schedule_of(row), _cursor_of(row), holding.epochs.get(row["shard"]))
        for row in rows
        if not row["stale"]
    ]


def _cursor_of(row: dict[str, Any]) -> Cursor:
    return Cursor(
        utc(row["nominal_at"]),
        utc(row["due_at"]),
        utc(row["replan_from"]),
        utc(row["held_at"]),
        row["runs"],
        row["waits_for"],
        utc(row["waits_since"]),
        utc(row["range_at"]),
        utc(row["range_until"]),
        row["range_state"],
        row["before"],
    )


def record(
    transaction: Transaction, planned: Sequence[tuple[Due, Plan]], replica: str
) -> list[Outgoing]:
    """Move the cursors and insert ticks and reasons; returns the ticks that are ours to send."""
    ticks = [(due, tick) for due, plan in planned for tick in plan.ticks]
    # Nearly all remember nothing, and pay nothing for it.
    others = [one for one in planned if not _is_plain(*one)]
    plain = [one for one in planned if _is_plain(*one)] if others else planned
    new = transaction.run(
        "record",
        **_places(plain),
        tick_schedules=[due.schedule.id for due, _ in ticks],
        tick_nominals=[tick.nominal_at for _, tick in ticks],
        task_ids=[tick.task_id for _, tick in ticks],
        tick_kinds=[tick.kind for _, tick in ticks],
        tick_dues=[tick.due_at for _, tick in ticks],
        tick_epochs=[due.epoch for due, _ in ticks],
        replica=replica,
    ).all
    if others:
        transaction.run(
            "remember",
            **_places(others),
            waits=[plan.cursor.waits_for for _, plan in others],
            waits_since=[plan.cursor.waits_since for _, plan in others],
            range_ats=[plan.cursor.range_at for _, plan in others],
            range_untils=[plan.cursor.range_until for _, plan in others],
            range_states=[plan.cursor.range_state for _, plan in others],
            befores=[plan.cursor.before for _, plan in others],
        )
    _record_not_sent(transaction, planned, replica)
    ours = {row["task_id"] for row in new}
    return [Outgoing(due.schedule, tick) for due, tick in ticks if tick.task_id in ours]


def _is_plain(due: Due, plan: Plan) -> bool:
    return due.cursor.plain and plan.cursor.plain


def _places(planned: Sequence[tuple[Due, Plan]]) -> dict[str, object]:
    return {
        "schedule_ids": [due.schedule.id for due, _ in planned],
        "next_nominals": [plan.cursor.nominal_at for _, plan in planned],
        "next_dues": [plan.cursor.due_at for _, plan in planned],
        "replans": [plan.cursor.replan_from for _, plan in planned],
        "helds": [plan.cursor.held_at for _, plan in planned],
        "runs": [plan.cursor.runs for _, plan in planned],
    }


def _record_not_sent(
    transaction: Transaction, planned: Sequence[tuple[Due, Plan]], replica: str
) -> None:
    ranges = [(due, one) for due, plan in planned for one in plan.not_sent]
    longer = _lengthen(transaction, [(due, one) for due, one in ranges if one.goes_on])
    ranges = [(due, one) for due, one in ranges if not one.goes_on or due.schedule.id not in longer]
    if not ranges:
        return
    transaction.run(
        "record_not_sent",
        schedule_ids=[due.schedule.id for due, _ in ranges],
        first_ats=[one.first_at for _, one in ranges],
        task_ids=[task_id(due.schedule.id, one.first_at) for due, one in ranges],
        states=[one.state for _, one in ranges],
        epochs=[due.epoch for due, _ in ranges],
        last_ats=[one.last_at for _, one in ranges],
        counts=[one.count for _, one in ranges],
        reasons=[one.reason for _, one in ranges],
        replica=replica,
    )


def _lengthen(transaction: Transaction, ranges: Sequence[tuple[Due, NotSent]]) -> set[UUID]:
    """Make rows longer that are there already; returns the schedules of which there was one."""
    there = [(due, one, one.goes_on) for due, one in ranges if one.goes_on is not None]
    if not there:
        return set()
    keys = [
        {
            "schedule_id": due.schedule.id,
            "nominal_at": row.first_at,
            "task_id": task_id(due.schedule.id, row.first_at),
        }
        for due, _, row in there
    ]
    rows = transaction.run(
        "lengthen",
        untils=[row.last_at for _, _, row in there],
        states=[one.state for _, one, _ in there],
        last_ats=[one.last_at for _, one, _ in there],
        counts=[one.count for _, one, _ in there],
        reasons=[one.reason for _, one, _ in there],
        **tick_keys(keys),
    ).all
    return {row["schedule_id"] for row in rows}


def revisit(transaction: Transaction, schedule_ids: Sequence[UUID]) -> None:
    """Make these schedules due again in a second."""
    transaction.run("revisit", schedule_ids=list(schedule_ids))


def outlook(
    database: Database | Transaction, holding: Holding, replica: str, lease_ttl: timedelta
) -> Outlook:
    """Look when there is something to do next."""
    row = database.run(
        "next_due",
        replica=replica,
        lease_ttl=lease_ttl,
        any_shards=bool(holding.epochs),
        **holding.parameters(),
    ).one()
    return Outlook(**row)
