"""What a change of a schedule would do, before anybody makes it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_dbbeat.rules.difference import difference, overlaps, typical
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.tick import UTC
from celery_dbbeat.store import history
from celery_dbbeat.store.database import Transaction

#: So many of the last entries of the history tell how long runs take.
_RUNS = 50


@dataclass(frozen=True, slots=True)
class Diff:
    """What a change would make of the last and the next fire times; nothing is written.

    `added` and `removed` are those that would come and go, `kept` those that stay. `overlapping`
    are fire times of the changed schedule at which the run before would not have ended, by the real
    durations of the last runs; where a fire time had none, by `typical_run`, their median.
    """

    schedule: str
    now: datetime
    added: tuple[datetime, ...]
    removed: tuple[datetime, ...]
    kept: tuple[datetime, ...]
    overlapping: tuple[datetime, ...]
    typical_run: timedelta | None
    longest_run: timedelta | None


def diff(transaction: Transaction, old: Schedule, new: Schedule, count: int) -> Diff:
    """Hold the two against each other."""
    now = transaction.run("database_now").one()["now"].astimezone(UTC)
    found = difference(old, new, now, count)
    entries = history.history(transaction, old.name, _RUNS, None)
    took = {one.nominal: one.duration for one in entries if one.duration is not None}
    return Diff(
        old.name,
        now,
        found.added,
        found.removed,
        found.kept,
        overlaps(found.new, took),
        typical(took.values()),
        max(took.values(), default=None),
    )
