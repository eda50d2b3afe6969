"""Slices of backfills: what beat reads, records and writes down in one transaction of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from celery_dbbeat.rules.backfill import Carved, FireTime, Order, Past, Reprocess
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.tick import Tick, task_id
from celery_dbbeat.store.cursors import Outgoing
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.rows import UTC, plain, schedule_of, utc


@dataclass(frozen=True, slots=True)
class Locked:
    """A backfill that is this transaction's alone, with the ticks of it that have not ended."""

    order: Order
    now: datetime
    start_at: datetime
    end_at: datetime
    max_concurrent: int
    rate: float | None
    overlap: str
    state: str
    next_at: datetime
    fresh: bool
    paced_at: datetime | None
    open: tuple[tuple[datetime, UUID], ...]


@dataclass(frozen=True, slots=True)
class Stand:
    """The schedule of a backfill, and up to where it has decided itself."""

    schedule: Schedule
    state: str
    reason: str | None
    nominal_at: datetime | None = None
    due_at: datetime | None = None
    replans: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a backfill stands after a slice, and what the slice added."""

    next_at: datetime
    paced_at: datetime | None
    open: Sequence[tuple[datetime, UUID]]
    passed: int = 0
    sent: int = 0
    done: int = 0
    failed: int = 0


def under_way(database: Database) -> list[int]:
    """The numbers of those with something left to do, the oldest first."""
    return [row["id"] for row in database.run("backfills_under_way").all]


def lock(transaction: Transaction, number: int) -> Locked | None:
    """Have one for this transaction alone; None: another has it, or there is nothing left."""
    rows = transaction.run("lock_backfill", id=number).all
    if not rows:
        return None
    (row,) = rows
    reprocess: Reprocess = row["reprocess"]
    times = ("now", "start_at", "end_at", "next_at")
    same = ("max_concurrent", "rate", "overlap", "state", "fresh")
    return Locked(
        order=Order(row["schedule_id"], row["id"], reprocess),
        paced_at=utc(row["paced_at"]),
        open=tuple(zip(row["open_nominals"], row["open_ids"], strict=True)),
        **{name: row[name].astimezone(UTC) for name in times},
        **{name: row[name] for name in same},
    )


def stand(transaction: Transaction, schedule_id: UUID) -> tuple[Stand | None, bool]:
    """The schedule, and whether its cursor is locked for this transaction; None: it was deleted."""
    cursors = transaction.run("lock_cursor", schedule_id=schedule_id).all
    rows = transaction.run("backfilled_schedule", schedule_id=schedule_id).all
    if not rows:
        return None, False
    stands = Stand(schedule_of(rows[0]), rows[0]["state"], rows[0]["reason"])
    if not cursors:
        return stands, False
    (cursor,) = cursors
    return replace(
        stands,
        nominal_at=utc(cursor["nominal_at"]),
        due_at=utc(cursor["due_at"]),
        replans=cursor["replan_from"] is not None,
    ), True


def known(
    transaction: Transaction, schedule_id: UUID, keys: Sequence[tuple[datetime, UUID]]
) -> dict[UUID, Past]:
    """What is known of these fire times and ids, by id."""
    if not keys:
        return {}
    nominals = [nominal for nominal, _ in keys]
    rows = transaction.run(
        "known_ticks",
        schedule_id=schedule_id,
        nominals=nominals,
        task_ids=[identity for _, identity in keys],
        first=min(nominals),
    ).all
    return {row["task_id"]: _past(row) for row in rows}


def range_before(transaction: Transaction, schedule_id: UUID, instant: datetime) -> Past | None:
    """The range of fire times not sent that begins before this instant and reaches it."""
    rows = transaction.run("range_before", schedule_id=schedule_id, instant=instant).all
    return _past(rows[0]) if rows else None


def own_under_way(transaction: Transaction, locked: Locked) -> bool:
    """Whether a tick of the schedule itself is on its way or running."""
    but = [identity for _, identity in locked.open]
    row = transaction.run("own_under_way", schedule_id=locked.order.schedule_id, but=but).one()
    return bool(row["busy"])


def record(
    transaction: Transaction,
    schedule: Schedule,
    chosen: Sequence[FireTime],
    rows: Mapping[UUID, Past],
    replica: str,
) -> list[Outgoing]:
    """Record the ticks to be sent, each as a new row or in the row that is there."""
    there = [one for one in chosen if one.task_id in rows]
    new = [one for one in chosen if one.task_id not in rows]
    recorded = []
    if new:
        recorded += transaction.run("backfill_send", **_to_send(schedule, new, rows, replica)).all
    if there:
        pasts = [rows[one.task_id] for one in there]
        recorded += transaction.run(
            "backfill_again",
            **_to_send(schedule, there, rows, replica),
            schedule_ids=[schedule.id] * len(there),
            claims=[past.claimed_at for past in pasts],
            states=[past.state for past in pasts],
            run_attempts=[past.run_attempt for past in pasts],
            first=min(past.nominal_at for past in pasts),
        ).all
    return sorted((_outgoing(schedule, row) for row in recorded), key=_by_fire_time)


def leave_rest(transaction: Transaction, carved: Carved, replica: str, schedule_id: UUID) -> None:
    """Write what is left of a range beside what was taken out of it."""
    whole = carved.whole
    if carved.front is not None:
        transaction.run(
            "shorten_range",
            **_key(schedule_id, whole),
            last_at=carved.front.last,
            count=carved.front.count,
        )
    if carved.rest_at is not None:
        transaction.run(
            "record_not_sent",
            schedule_ids=[schedule_id],
            first_ats=[carved.rest_at],
            task_ids=[task_id(schedule_id, carved.rest_at)],
            states=[whole.state],
            epochs=[None],
            last_ats=[whole.last_at],
            counts=[carved.rest],
            reasons=[whole.reason],
            replica=replica,
        )


def set_aside(transaction: Transaction, whole: Past, schedule_id: UUID) -> None:
    """Let a range that stays whole make room for the tick of its first fire time."""
    transaction.run("set_range_aside", **_key(schedule_id, whole))


def move(transaction: Transaction, number: int, progress: Progress) -> None:
    """Write down how far a backfill has come."""
    transaction.run(
        "move_backfill",
        id=number,
        next_at=progress.next_at,
        paced_at=progress.paced_at,
        open_nominals=[nominal for nominal, _ in progress.open],
        open_ids=[identity for _, identity in progress.open],
        passed=progress.passed,
        sent=progress.sent,
        done=progress.done,
        failed=progress.failed,
    )


def end(transaction: Transaction, number: int, state: str, reason: str | None = None) -> None:
    """It is finished, or stopped with the reason."""
    told = None if reason is None else plain(reason)
    transaction.run("end_backfill", id=number, state=state, reason=told)


def _to_send(
    schedule: Schedule, chosen: Sequence[FireTime], rows: Mapping[UUID, Past], replica: str
) -> dict[str, object]:
    return {
        "schedule_id": schedule.id,
        "nominals": [one.nominal for one in chosen],
        "task_ids": [one.task_id for one in chosen],
        "reasons": [_what_it_was(one, rows.get(one.task_id)) for one in chosen],
        "replica": replica,
    }


def _what_it_was(one: FireTime, past: Past | None) -> str | None:
    if one.standing == "unsent":
        return None
    return f"was {one.standing}" + (f": {past.reason}" if past and past.reason else "")


def _key(schedule_id: UUID, past: Past) -> dict[str, object]:
    return {
        "schedule_id": schedule_id,
        "nominal_at": past.nominal_at,
        "task_id": past.task_id,
        "state": past.state,
    }


def _outgoing(schedule: Schedule, row: dict[str, Any]) -> Outgoing:
    nominal, due = row["nominal_at"].astimezone(UTC), row["due_at"].astimezone(UTC)
    return Outgoing(schedule, Tick(row["task_id"], nominal, due, "backfill", row["attempt"]))


def _by_fire_time(one: Outgoing) -> datetime:
    return one.tick.nominal_at


def _past(row: dict[str, Any]) -> Past:
    times = {"nominal_at": row["nominal_at"].astimezone(UTC), "last_at": utc(row["last_at"])}
    return Past(**{**row, **times})
