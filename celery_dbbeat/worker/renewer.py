"""One thread a process that keeps what its tasks have taken.

While a task runs its lease is renewed, so that a task may take as long as it likes. A process that
is frozen, killed or cut off renews nothing, and its ticks go to others.

It also writes down later how a run ended, where the database could not be reached when it did:
until that has worked the lease is renewed, so that a task that ended is not run again.
"""

import logging
import threading
from datetime import timedelta

from celery_dbbeat.errors import DbbeatError
from celery_dbbeat.store import runs
from celery_dbbeat.store.runs import Ending, Run
from celery_dbbeat.worker.connections import Connections

logger = logging.getLogger(__name__)

_TRY_AGAIN_EVERY = 1.0


class Renewer:
    """Starts its thread with the first run."""

    def __init__(self, connections: Connections, lease: timedelta) -> None:
        """Nothing is kept yet."""
        self._connections = connections
        self._lease = lease
        self._every = lease.total_seconds() / 3
        self._kept: set[Run] = set()
        self._ended: dict[Run, Ending] = {}
        self._failed = False
        self._hurry = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None

    def keep(self, run: Run) -> None:
        """Renew this run's lease from now on."""
        self._kept.add(run)
        if self._thread is None:
            with self._starting:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._work, name="celery-dbbeat renewer", daemon=True
                    )
                    self._thread.start()

    def let_go(self, run: Run) -> None:
        """Renew this run's lease no longer."""
        self._kept.discard(run)

    def finish_later(self, run: Run, ending: Ending) -> None:
        """Write down how this run ended, as soon as that is possible, and keep it until then."""
        self._ended[run] = ending
        self._hurry.set()

    def flush(self) -> None:
        """Try once more to write down what ended: this process is about to end."""
        try:
            self._finish_ended()
        except DbbeatError as error:
            logger.error("how %d runs ended is not written down: %s", len(self._ended), error)  # noqa: TRY400 - no fault of ours

    def _work(self) -> None:
        while True:
            soon = self._failed or bool(self._ended)
            self._hurry.wait(min(_TRY_AGAIN_EVERY, self._every) if soon else self._every)
            self._hurry.clear()
            try:
                self._renew()
                self._finish_ended()
            except Exception as error:  # noqa: BLE001 - whatever it is, leases must go on
                logger.warning("cannot renew leases of %d runs: %s", len(self._kept), error)
                self._failed = True
            else:
                self._failed = False

    def _renew(self) -> None:
        kept = list(self._kept)
        if kept:
            with self._connections.one() as database:
                runs.renew(database, kept, self._lease)

    def _finish_ended(self) -> None:
        for run, ending in list(self._ended.items()):
            with self._connections.one() as database:
                if not runs.finish(database, run, ending):
                    runs.note_stale(database, run)
            self._ended.pop(run, None)
            self.let_go(run)
