"""How fast late ticks go, all replicas together."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.rows import UTC


@dataclass(frozen=True, slots=True)
class Pace:
    """The right to send late ticks; `usual`: how many ticks a second there are in calm weather."""

    now: datetime
    free_at: datetime
    usual: float


def take(transaction: Transaction, at_least: timedelta) -> Pace | None:
    """Take the right for this transaction, if it is free, and has been for so long."""
    rows = transaction.run("take_pace", at_least=at_least).all
    if not rows:
        return None
    row = rows[0]
    return Pace(row["now"].astimezone(UTC), row["free_at"].astimezone(UTC), row["usual"])


def charge(transaction: Transaction, free_at: datetime) -> None:
    """Say when the next late tick may go."""
    transaction.run("charge_pace", free_at=free_at)


def note_usual(database: Database, sent: int) -> bool:
    """Count ticks that were sent on time; says whether they are counted."""
    return bool(database.run("note_usual", sent=sent).all)
