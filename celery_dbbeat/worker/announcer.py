"""What a worker's main process tells the database.

That it has the guard, and from which queues it reads: beat sends a tick again that nobody took
only where it knows of a worker that would have taken it. So workers without the guard, which never
take anything, are left in peace.

And which ticks somebody revoked: their pool process was killed, or never saw them, and without a
word they would be taken for lost and sent again.
"""

import logging
import queue
import threading
from collections.abc import Callable

from celery_dbbeat.errors import DbbeatError
from celery_dbbeat.release import __version__
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import runs, workers
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.runs import Run

logger = logging.getLogger(__name__)

_TRY_AGAIN_AFTER = 1.0


class Announcer:
    """A thread of its own, so that the worker's event loop never waits for Postgres."""

    def __init__(self, settings: Settings, worker: str, queues: Callable[[], list[str]]) -> None:
        """Say nothing yet."""
        self._settings = settings
        self._worker = worker
        self._queues = queues
        self._stopping = False
        # What was revoked; None only wakes the thread.
        self._revoked: queue.SimpleQueue[tuple[Run, bool] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._work, name="celery-dbbeat announcer", daemon=True
        )

    def start(self) -> None:
        """Announce from now on."""
        self._thread.start()

    def revoked(self, run: Run, *, terminated: bool) -> None:
        """Somebody revoked this tick."""
        self._revoked.put((run, terminated))

    def stop(self) -> None:
        """Take the announcement back, without waiting long for that."""
        self._stopping = True
        self._revoked.put(None)
        self._thread.join(2.0)

    def _work(self) -> None:
        settings = self._settings
        with Database(settings.url, settings.schema, settings.database_timeout) as database:
            while not self._stopping:
                self._rest(database, self._announce(database))
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

    def _rest(self, database: Database, announced: bool) -> None:  # noqa: FBT001 - the only thing it is about
        """Until it is time to announce again, or something was revoked."""
        database.close()  # one connection less for the time between
        seconds = workers.ANNOUNCE_EVERY.total_seconds() if announced else _TRY_AGAIN_AFTER
        try:
            told = self._revoked.get(timeout=seconds)
        except queue.Empty:
            return
        if told is None:
            return
        try:
            runs.revoke(database, told[0], terminated=told[1])
        except DbbeatError as error:
            logger.warning("that %s was revoked is told later: %s", told[0].task_id, error)
            self._revoked.put(told)
