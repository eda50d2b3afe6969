"""What a replica serves on `dbbeat_http`: whether it lives, whether it is ready, its metrics.

A standby is as ready as the leader: both reach Postgres and the broker. What is counted in the
tables the leader alone shows, on a connection of this thread's own, when somebody asks for it, and
not more often than every 15 s: nothing is counted for nobody, and no pass waits for a count.
"""

import logging
import threading
from collections.abc import Iterable

from celery_dbbeat.beat.replica import Replica
from celery_dbbeat.clock import monotonic
from celery_dbbeat.errors import DbbeatError
from celery_dbbeat.observe import beat as observe
from celery_dbbeat.observe.board import Reading
from celery_dbbeat.observe.metrics import metrics_route
from celery_dbbeat.observe.server import Answer, Server, said
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import gauges
from celery_dbbeat.store.database import Database

logger = logging.getLogger(__name__)

_COUNT_EVERY = 15.0
_LONGEST_COUNT = 2.0


class Monitor:
    """Serves from when it was made; a wrong address is refused there."""

    def __init__(self, settings: Settings, address: str, replica: Replica) -> None:
        """Serve on this address what is known of this replica."""
        self._replica = replica
        self._tables = Tables(settings)
        metrics = metrics_route(observe.enable(), self._of_tables)
        routes = {"/live": self._live, "/ready": self._ready, "/metrics": metrics}
        self._server = Server("dbbeat_http", address, routes)

    def close(self) -> None:
        """Serve no longer."""
        self._server.close()
        observe.disable()

    def _live(self, _: str) -> Answer:
        pulse = self._replica.pulse
        return said(pulse.lives, live=pulse.lives, replica=self._replica.id)

    def _ready(self, _: str) -> Answer:
        pulse = self._replica.pulse
        ready = pulse.ready
        return said(
            ready,
            ready=ready,
            reason="" if ready else pulse.reason,
            leads=pulse.condition.leads,
            replica=self._replica.id,
        )

    def _of_tables(self) -> Iterable[Reading]:
        return self._tables.readings() if self._replica.pulse.condition.leads else ()


class Tables:
    """What is counted in the tables, not more often than it should be."""

    def __init__(self, settings: Settings) -> None:
        """Count nothing yet."""
        self._settings = settings
        self._counting = threading.Lock()
        self._counted_at = float("-inf")
        self._readings: list[Reading] = []

    def readings(self) -> list[Reading]:
        """As they were counted last; nothing where the database does not answer."""
        with self._counting:
            if monotonic() >= self._counted_at + _COUNT_EVERY:
                self._readings = self._count()
                self._counted_at = monotonic()
            return self._readings

    def _count(self) -> list[Reading]:
        settings = self._settings
        timeout = min(settings.database_timeout, _LONGEST_COUNT)
        try:
            with Database(settings.url, settings.schema, timeout) as database:
                return gauges.read(database, settings)
        except DbbeatError as error:
            logger.warning("what is in the tables cannot be counted: %s", error)
            return []
