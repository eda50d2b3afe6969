"""A worker says that it has the guard, and from which queues it reads.

Beat sends a tick again that nobody took only where it knows of a worker that would have taken it.
So workers without the guard, which never take anything, are left in peace.
"""

import logging
import threading
from collections.abc import Callable

from celery_dbbeat.errors import DbbeatError
from celery_dbbeat.release import __version__
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import workers
from celery_dbbeat.store.database import Database

logger = logging.getLogger(__name__)


class Announcer:
    """A thread of the worker's main process, so that its event loop never waits for Postgres."""

    def __init__(self, settings: Settings, worker: str, queues: Callable[[], list[str]]) -> None:
        """Say nothing yet."""
        self._settings = settings
        self._worker = worker
        self._queues = queues
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._work, name="celery-dbbeat announcer", daemon=True
        )

    def start(self) -> None:
        """Announce from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Take it back, without waiting long for that."""
        self._stopping.set()
        self._thread.join(2.0)

    def _work(self) -> None:
        settings = self._settings
        with Database(settings.url, settings.schema, settings.database_timeout) as database:
            while not self._stopping.is_set():
                wait = workers.ANNOUNCE_EVERY.total_seconds() if self._announce(database) else 1.0
                database.close()  # one connection less for the time between
                self._stopping.wait(wait)
            try:
                workers.forget(database, self._worker)
            except DbbeatError as error:
                logger.debug("could not say goodbye: %s", error)

    def _announce(self, database: Database) -> bool:
        try:
            workers.announce(database, self._worker, self._queues(), __version__)
        except DbbeatError as error:
            logger.error("cannot announce this worker to beat: %s", error)  # noqa: TRY400 - no fault of ours
            return False
        return True
