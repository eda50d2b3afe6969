"""What somebody has to do from time to time: partitions ahead, and what is long gone."""

from datetime import timedelta

from psycopg.errors import LockNotAvailable

from celery_dbbeat.clock import monotonic
from celery_dbbeat.errors import DatabaseUnavailable
from celery_dbbeat.store.database import Database

DAYS_AHEAD = 7

#: How long ticks and runs are retired at a time: dispatching waits for it.
RETIRE_FOR = 0.2


def keep(database: Database, retention: timedelta) -> bool:
    """Make the partitions of the coming days, and forget what is long gone.

    Returns whether that is all for now; else there is more to forget, and it is to be called again.
    """
    database.run("make_partitions", days=DAYS_AHEAD)
    database.run("forget_replicas")
    database.run("forget_workers")
    database.run("forget_cancelled", keep=retention)
    database.run("forget_open")
    return _retire(database, retention)


def _retire(database: Database, retention: timedelta) -> bool:
    """Forget old ticks, runs and deleted schedules, each step a transaction of its own."""
    stop_at = monotonic() + RETIRE_FOR
    while monotonic() < stop_at:
        try:
            step = database.run("retire", keep=retention).one()["step"]
        except DatabaseUnavailable as error:
            if isinstance(error.__cause__, LockNotAvailable):
                return True  # somebody reads what is to go: another time
            raise
        if step is None and not database.run("retire_audit", keep=retention).one()["deleted"]:
            return True
    return False
