"""What a worker's main process serves on `dbbeat_worker_http`, for itself and for its pool."""

import os

from celery_dbbeat.observe import worker as observe
from celery_dbbeat.observe.metrics import metrics_route
from celery_dbbeat.observe.server import Answer, Server, said
from celery_dbbeat.worker.announcer import Announcer


class Monitor:
    """Serves from when it was made; a wrong address is refused there."""

    def __init__(self, address: str) -> None:
        """Count from now on; not connected to anything yet."""
        self._process = os.getpid()
        self._connected = False
        self._announcer: Announcer | None = None
        metrics = metrics_route(observe.enable())
        routes = {"/live": self._live, "/ready": self._ready, "/metrics": metrics}
        self._server = Server("dbbeat_worker_http", address, routes)

    def in_pool_process(self) -> None:
        """Count apart from the other processes, and leave it to the main one to serve.

        Pools without processes of their own call this in the main process: nothing to be done.
        """
        if os.getpid() == self._process:
            return
        observe.in_pool_process()
        self._server.abandon()

    def connected(self, announcer: Announcer) -> None:
        """The worker takes messages; the announcer knows whether the database hears of it."""
        self._announcer, self._connected = announcer, True

    def disconnected(self) -> None:
        """The connection to the broker is gone, or the worker stops."""
        self._connected = False

    def close(self) -> None:
        """Serve no longer."""
        self._server.close()
        observe.disable()

    def _live(self, _: str) -> Answer:
        return said(yes=True, live=True)

    def _ready(self, _: str) -> Answer:
        heard = self._announcer is not None and self._announcer.heard
        reasons = [] if self._connected else ["the broker cannot be reached"]
        reasons += [] if heard else ["the database cannot be reached"]
        return said(not reasons, ready=not reasons, reason="; ".join(reasons))
