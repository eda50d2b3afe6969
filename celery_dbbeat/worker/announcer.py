"""What a worker's main process tells the database.

That it has the guard, and from which queues it reads: beat sends a tick again that nobody took
only where it knows of a worker that would have taken it. So workers without the guard, which never
take anything, are left in peace.

And which messages it gave up, and why: somebody revoked them, or it does not know their task. Their
pool process was killed, or never saw them, and without a word they would be taken for lost.
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
from celery_dbbeat.store.runs import Ending, Run
from celery_dbbeat.store.workers import Reading

logger = logging.getLogger(__name__)

_TRY_AGAIN_AFTER = 1.0
_Discarded = tuple[Run, Ending, bool]


class Announcer:
    """A thread of its own, so that the worker's event loop never waits for Postgres."""

    def __init__(self, settings: Settings, worker: str, reading: Callable[[], Reading]) -> None:
        """Say nothing yet."""
        self._settings = settings
        self._worker = worker
        self._reading = reading
        self._stopped = threading.Event()
        self._failures = 0
        #: Whether the last word of this worker reached the database.
        self.heard = False
        # None only wakes the thread.
        self._discarded: queue.SimpleQueue[_Discarded | None] = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=self._work, name="celery-dbbeat announcer", daemon=True
        )

    def start(self) -> None:
        """Announce from now on."""
        self._thread.start()

    def discarded(self, run: Run, ending: Ending, *, terminated: bool = False) -> None:
        """Tell that a message was given up, and why."""
        self._discarded.put((run, ending, terminated))

    def stop(self) -> None:
        """Take the announcement back, without waiting long for that."""
        self._stopped.set()
        self._discarded.put(None)
        self._thread.join(2.0)

    def _work(self) -> None:
        settings = self._settings
        with Database(settings.url, settings.schema, settings.database_timeout) as database:
            while not self._stopped.is_set():
                self._rest(database, self._announce(database))
            try:
                workers.forget(database, self._worker)
            except DbbeatError as error:
                logger.debug("could not say goodbye: %s", error)

    def _announce(self, database: Database) -> bool:
        try:
            workers.announce(database, self._worker, self._reading(), __version__)
        except DbbeatError as error:
            self.heard = False
            self._failures += 1
            logger.error("cannot announce this worker to beat: %s", error)  # noqa: TRY400 - no fault of ours
            return False
        self._failures = 0
        self.heard = True
        return True

    def _rest(self, database: Database, announced: bool) -> None:  # noqa: FBT001 - the only thing it is about
        """Until it is time to announce again, or a message was given up."""
        database.close()  # one connection less for the time between
        usual = workers.ANNOUNCE_EVERY.total_seconds()
        wait = usual if announced else min(usual, _TRY_AGAIN_AFTER * 2.0 ** (self._failures - 1))
        try:
            told = self._discarded.get(timeout=wait)
        except queue.Empty:
            return
        if told is None:
            return
        run, ending, terminated = told
        try:
            runs.discard(database, run, ending, terminated=terminated)
        except DbbeatError as error:
            logger.warning("why %s was given up is told later: %s", run.task_id, error)
            self._discarded.put(told)
            self._stopped.wait(_TRY_AGAIN_AFTER)
