"""The only place that asks for the time.

Postgres' clock decides everything: what is due, what is late, whose lease ran out. A replica's own
wall clock is never read. To sleep until an instant of the database, a replica remembers how far its
monotonic clock was from the database's when it last asked, so a wall clock set an hour off, or
stepped while beat runs, changes nothing.
"""

import time
from datetime import datetime, timedelta, timezone

monotonic = time.monotonic


def worker_now() -> datetime:
    """What a worker's own clock shows: to tell how far off an instant is that it made itself."""
    return datetime.now(timezone.utc)


class DatabaseClock:
    """What the database's clock shows, between two answers of the database."""

    def __init__(self) -> None:
        """Know nothing yet: the first answer of the database sets it."""
        self._seen: tuple[datetime, float] | None = None

    def observe(self, database_now: datetime) -> None:
        """Take the database's own time, just read."""
        self._seen = (database_now, monotonic())

    def now(self) -> datetime | None:
        """What it shows just now; None before the first answer."""
        if self._seen is None:
            return None
        seen, at = self._seen
        return seen + timedelta(seconds=monotonic() - at)

    def seconds_until(self, instant: datetime) -> float:
        """How long until the database's clock shows this instant; never below zero."""
        now = self.now()
        return 0.0 if now is None else max(0.0, (instant - now).total_seconds())
