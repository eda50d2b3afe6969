"""Ticks that were sent to guarded workers, until it is known how they ended.

They are looked at in slices by the time of their claim, so that one look is short however many
there are. Whatever is decided of one is written only if it still stands as it was seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

from celery_dbbeat.rules.recovery import Open
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.tick import Tick
from celery_dbbeat.store.cursors import Outgoing
from celery_dbbeat.store.database import Database, Transaction, in_transaction
from celery_dbbeat.store.rows import plain, schedule_of, tick_keys, utc
from celery_dbbeat.store.workers import ALIVE


@dataclass(frozen=True, slots=True)
class Place:
    """Where a slice ends, in the order of the claims."""

    claimed_at: datetime
    task_id: UUID


_LONG_AGO = datetime(1, 1, 2, tzinfo=timezone.utc)

BEGINNING = Place(_LONG_AGO, UUID(int=0))


@dataclass(frozen=True, slots=True)
class Unsettled:
    """An awaited tick that is not done, and what its worker said last."""

    schedule_id: UUID
    nominal_at: datetime
    task_id: UUID
    claimed_at: datetime
    status: str | None
    lease_until: datetime | None


@dataclass(frozen=True, slots=True)
class Slice:
    """What one look found; `now` is None where all that it found is done."""

    number: int
    end: Place
    now: datetime | None = None
    unsettled: tuple[Unsettled, ...] = ()


@dataclass(frozen=True, slots=True)
class Suspect:
    """An awaited tick with all that a decision about it rests on.

    `schedule` is None when it was deleted. What the schedule does not say itself is None.
    """

    schedule_id: UUID
    nominal_at: datetime
    task_id: UUID
    open: Open
    schedule: Schedule | None
    kind: str = "scheduled"
    max_attempts: int | None = None
    on_failure: str | None = None
    resend_after: timedelta | None = None
    pause_after: int | None = None

    @property
    def name(self) -> str:
        """For people: the schedule's name, or its id where it was deleted."""
        return str(self.schedule_id) if self.schedule is None else self.schedule.name


@dataclass(frozen=True, slots=True)
class Closing:
    """That nothing more is awaited of a tick: the state it gets, and why."""

    state: str
    reason: str | None = None
    outcome: str | None = None


@dataclass(frozen=True, slots=True)
class Readers:
    """Whether a guarded worker that reads a queue is alive, and holds messages for later."""

    live: bool
    holding: bool = False


def settle(database: Database, after: Place, limit: int) -> Slice:
    """Look at the next slice: what is done is marked so, the others come back."""
    found = database.run(
        "awaited_slice", claimed_at=after.claimed_at, task_id=after.task_id, limit=limit
    ).all
    if not found:
        return Slice(0, after)
    end = Place(found[-1]["claimed_at"], found[-1]["task_id"])
    claims = [row["claimed_at"] for row in found]
    with database.transaction() as transaction:
        rows = transaction.run("settle", claims=claims, **tick_keys(found)).all
    now = utc(rows[0]["now"]) if rows else None
    unsettled = ({name: value for name, value in row.items() if name != "now"} for row in rows)
    return Slice(len(found), end, now, tuple(Unsettled(**row) for row in unsettled))


def suspects(
    database: Database, unsettled: Sequence[Unsettled]
) -> tuple[datetime | None, list[Suspect]]:
    """What a decision about these rests on, at the database's time; None: there is none left."""
    with database.transaction() as transaction:
        rows = transaction.run("suspects", **_keys(unsettled)).all
    return (utc(rows[0]["now"]) if rows else None), [_suspect(row) for row in rows]


def overtaken(database: Database, waiting: Sequence[Suspect]) -> set[UUID]:
    """The task ids of which a later tick of the same schedule was taken."""
    # A task's own retry got in line later than the tick itself.
    since = [max(one.open.claimed_at, one.open.lease_until or _LONG_AGO) for one in waiting]
    with database.transaction() as transaction:
        rows = transaction.run("overtaken", claims=since, **_keys(waiting)).all
    return {row["task_id"] for row in rows}


def resend(
    database: Database | Transaction, lost: Sequence[Suspect], replica: str
) -> list[Outgoing]:
    """Put back what is to be sent again; returns what is this replica's to send."""
    attempts = [one.open.run_attempt for one in lost]
    with in_transaction(database) as transaction:
        rows = transaction.run(
            "resend", replica=replica, claims=_claims(lost), run_attempts=attempts, **_keys(lost)
        ).all
    won = {row["task_id"]: row for row in rows}
    return [
        Outgoing(one.schedule, _tick(one, won[one.task_id]))
        for one in lost
        if one.schedule is not None and one.task_id in won
    ]


def close(
    database: Database | Transaction, closings: Sequence[tuple[Suspect, Closing]]
) -> set[UUID]:
    """Await nothing more of these; returns the task ids that it won."""
    ones = [one for one, _ in closings]
    reasons = [one.reason for _, one in closings]
    with in_transaction(database) as transaction:
        rows = transaction.run(
            "close_awaited",
            claims=_claims(ones),
            states=[closing.state for _, closing in closings],
            outcomes=[closing.outcome for _, closing in closings],
            reasons=[None if reason is None else plain(reason) for reason in reasons],
            **_keys(ones),
        ).all
    return {row["task_id"] for row in rows}


def revive(database: Database) -> int:
    """Let ticks that were given up and are done after all be done; returns how many."""
    with database.transaction() as transaction:
        return transaction.run("revive").count


def queue_readers(database: Database) -> Mapping[str, Readers]:
    """The queues that guarded workers have read within a day, and what is known of these."""
    rows = database.run("queue_readers", alive=ALIVE).all
    return {row["queue"]: Readers(row["live"], row["holding"]) for row in rows}


def _suspect(row: dict[str, Any]) -> Suspect:
    names = ("attempt", "losses", "status", "run_attempt", "error")
    times = ("claimed_at", "sent_at", "lease_until", "ended_at")
    known = {name: row[name] for name in names} | {name: utc(row[name]) for name in times}
    return Suspect(
        row["schedule_id"],
        row["tick_nominal_at"],
        row["task_id"],
        Open(due_at=row["tick_due_at"], **known),
        None if row["deleted"] else schedule_of(row),
        row["tick_kind"],
        row["max_attempts"],
        row["on_failure"],
        row["resend_after"],
        row["pause_after"],
    )


def _tick(one: Suspect, won: Mapping[str, Any]) -> Tick:
    nominal, due = one.nominal_at.astimezone(timezone.utc), one.open.due_at
    return Tick(
        one.task_id,
        nominal,
        due.astimezone(timezone.utc),
        won["kind"],
        won["attempt"],
        won["waited"],
    )


def _claims(ones: Sequence[Suspect]) -> list[datetime]:
    return [one.open.claimed_at for one in ones]


def _keys(ones: Sequence[Unsettled] | Sequence[Suspect]) -> dict[str, object]:
    return tick_keys(
        [
            {"schedule_id": one.schedule_id, "nominal_at": one.nominal_at, "task_id": one.task_id}
            for one in ones
        ]
    )
