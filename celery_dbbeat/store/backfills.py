"""Backfills as people know them: ordered, listed, stopped and let go on."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.rows import UTC, plain, utc


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
