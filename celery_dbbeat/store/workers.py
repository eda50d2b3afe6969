"""Which workers have the guard, and which queues they read."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from celery_dbbeat.store.database import Database

ANNOUNCE_EVERY = timedelta(seconds=30)
#: A worker that was not heard of for so long is taken for gone.
ALIVE = 3 * ANNOUNCE_EVERY


@dataclass(frozen=True, slots=True)
class Reading:
    """The queues that a worker reads, and how many messages it holds and has not begun with."""

    queues: Sequence[str]
    holding: int = 0


def announce(database: Database, worker: str, reading: Reading, release: str) -> None:
    """Say that this worker has the guard and reads these queues."""
    database.run(
        "announce_worker",
        worker=worker,
        queues=list(reading.queues),
        holding=reading.holding,
        release=release,
    )


def forget(database: Database, worker: str) -> None:
    """Say that this worker stops."""
    database.run("forget_worker", worker=worker)
