"""Which workers have the guard, and which queues they read."""

from collections.abc import Sequence
from datetime import timedelta

from celery_dbbeat.store.database import Database

ANNOUNCE_EVERY = timedelta(seconds=30)
#: A worker that was not heard of for so long is taken for gone.
ALIVE = 3 * ANNOUNCE_EVERY


def announce(database: Database, worker: str, queues: Sequence[str], release: str) -> None:
    """Say that this worker has the guard and reads these queues."""
    database.run("announce_worker", worker=worker, queues=list(queues), release=release)


def forget(database: Database, worker: str) -> None:
    """Say that this worker stops."""
    database.run("forget_worker", worker=worker)


def guarded_queues(database: Database) -> frozenset[str]:
    """The queues that a live worker with the guard reads."""
    rows = database.run("guarded_queues", alive=ALIVE).all
    return frozenset(row["queue"] for row in rows)
