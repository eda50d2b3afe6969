"""Claim what is due, and record what was decided of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from celery_dbbeat.rules.plan import Plan
from celery_dbbeat.rules.schedule import Cursor, Schedule
from celery_dbbeat.rules.tick import Tick, task_id
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.rows import schedule_of, utc

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
    stale = [row["schedule_id"] for row in rows if row["stale"]]
    if stale:
        transaction.run("mend_cursors", schedule_ids=stale)
    due = [
        Due(
            schedule_of(row),
            Cursor(
                utc(row["nominal_at"]),
                utc(row["due_at"]),
                utc(row["replan_from"]),
                utc(row["held_at"]),
                row["runs"],
            ),
            holding.epochs.get(row["shard"]),
        )
        for row in rows
        if not row["stale"]
    ]
    return (utc(rows[0]["now"]) if rows else None), due


def record(
    transaction: Transaction, planned: Sequence[tuple[Due, Plan]], replica: str
) -> list[Outgoing]:
    """Move the cursors and insert ticks and reasons; returns the ticks that are ours to send."""
    ticks = [(due, tick) for due, plan in planned for tick in plan.ticks]
    new = transaction.run(
        "record",
        schedule_ids=[due.schedule.id for due, _ in planned],
        next_nominals=[plan.cursor.nominal_at for _, plan in planned],
        next_dues=[plan.cursor.due_at for _, plan in planned],
        replans=[plan.cursor.replan_from for _, plan in planned],
        helds=[plan.cursor.held_at for _, plan in planned],
        runs=[plan.cursor.runs for _, plan in planned],
        tick_schedules=[due.schedule.id for due, _ in ticks],
        tick_nominals=[tick.nominal_at for _, tick in ticks],
        task_ids=[tick.task_id for _, tick in ticks],
        tick_kinds=[tick.kind for _, tick in ticks],
        tick_dues=[tick.due_at for _, tick in ticks],
        tick_epochs=[due.epoch for due, _ in ticks],
        replica=replica,
    ).all
    _record_not_sent(transaction, planned, replica)
    ours = {row["task_id"] for row in new}
    return [Outgoing(due.schedule, tick) for due, tick in ticks if tick.task_id in ours]


def _record_not_sent(
    transaction: Transaction, planned: Sequence[tuple[Due, Plan]], replica: str
) -> None:
    ranges = [(due, one) for due, plan in planned for one in plan.not_sent]
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
