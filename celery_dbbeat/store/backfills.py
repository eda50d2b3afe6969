"""Backfills change state only here: ordered and stopped by people, worked off in slices by beat."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
class Wish:
    """What somebody orders; `start` None: the time for which the schedule is held, until now."""

    start: datetime | None
    end: datetime | None
    reprocess: str = "none"
    max_concurrent: int = 1
    rate: float | None = None
    overlap: str = "allow"
    note: str | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Backfill:
    """An order to send the fire times of a stretch of time past, and how far it has come.

    `total` is None where they were too many to count at once; `position`: all fire times before
    are decided; `passed` of them. `sent` were to be sent: `open` of these are on their way or
    running, `done` and `failed` are known to have ended; without the guard, nothing is.
    """

    id: int
    schedule: str
    start: datetime
    end: datetime
    reprocess: str
    max_concurrent: int
    rate: float | None
    overlap: str
    note: str | None
    ordered_by: str
    ordered: datetime
    state: str
    #: Why it was stopped, or what it waits for.
    reason: str | None
    total: int | None
    position: datetime | None
    passed: int
    sent: int
    open: int
    done: int
    failed: int
    ended: datetime | None

    @property
    def share(self) -> float:
        """How much of it is decided, from 0 to 1: by number, or else by time."""
        if self.state == "finished":
            return 1.0
        if self.total is not None:
            return min(1.0, self.passed / self.total) if self.total else 1.0
        whole = (self.end - self.start).total_seconds()
        gone = ((self.position or self.start) - self.start).total_seconds()
        return min(1.0, gone / whole) if whole else 1.0


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


def order(transaction: Transaction, schedule_id: UUID, wish: Wish) -> int | None:
    """Write the order down; returns its number, or None where nothing lies in that stretch."""
    rows = transaction.run(
        "order_backfill",
        schedule_id=schedule_id,
        start_at=wish.start,
        end_at=wish.end,
        reprocess=wish.reprocess,
        max_concurrent=wish.max_concurrent,
        rate=wish.rate,
        overlap=wish.overlap,
        note=None if wish.note is None else plain(wish.note),
        total=wish.total,
    ).all
    return rows[0]["id"] if rows else None


def listed(
    database: Database | Transaction,
    *,
    number: int | None = None,
    schedule_id: UUID | None = None,
    limit: int = 100,
) -> list[Backfill]:
    """Backfills, the newest first."""
    rows = database.run("list_backfills", id=number, schedule_id=schedule_id, limit=limit).all
    return [_backfill(row) for row in rows]


def turn(transaction: Transaction, number: int, wanted: str, only_from: str) -> bool:
    """Stop a running one, or let a stopped one go on; says whether that changed anything."""
    reason = "somebody stopped it" if wanted == "stopped" else None
    rows = transaction.run(
        "turn_backfill", id=number, state=wanted, from_state=only_from, reason=reason
    ).all
    return bool(rows)


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
    where = utc(cursor["nominal_at"]), utc(cursor["due_at"]), cursor["replan_from"] is not None
    return Stand(stands.schedule, stands.state, stands.reason, *where), True


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


def _backfill(row: dict[str, Any]) -> Backfill:
    state, reason = row["state"], row["reason"]
    if state == "running" and row["schedule_state"] == "paused":
        reason = "waits: the schedule is paused"
    same = ("id", "schedule", "note", "ordered_by")
    how = ("reprocess", "max_concurrent", "rate", "overlap")
    counts = ("total", "passed", "sent", "open", "done", "failed")
    return Backfill(
        **{name: row[name] for name in same + how + counts},
        start=row["start_at"].astimezone(UTC),
        end=row["end_at"].astimezone(UTC),
        ordered=row["ordered_at"].astimezone(UTC),
        state=state,
        reason=reason,
        position=utc(row["next_at"]),
        ended=utc(row["ended_at"]),
    )
