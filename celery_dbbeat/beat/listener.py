"""Hears of changes as they are committed.

LISTEN needs a connection of its own that no pooler shares out. Whether notifications really
arrive is not assumed: after opening, the replica says its own name on the channel, by its other
connection, and the listener counts as working only when it has heard that. Until then, and
wherever they do not arrive, beat looks every second instead; that costs queries, not correctness.
"""

import logging
import select

import psycopg

from celery_dbbeat.clock import monotonic
from celery_dbbeat.store.database import DeadlineConnection, connect, connect_arguments

logger = logging.getLogger(__name__)

_PATIENCE = 5.0
_RETRY_EVERY = 5.0


class Listener:
    """One LISTEN connection."""

    def __init__(self, url: str, timeout: float, greeting: str) -> None:
        """Connect at first use; `greeting` is what proves that notifications arrive."""
        self._arguments = connect_arguments(url)
        self._timeout = timeout
        self._greeting = greeting
        self._connection: DeadlineConnection | None = None
        self._server_pid: int | None = None
        self._heard: set[str] = set()
        self._works = False
        self._opened_at = float("-inf")
        self._complained = False

    @property
    def works(self) -> bool:
        """Whether notifications are known to arrive."""
        return self._works

    @property
    def server_pid(self) -> int | None:
        """The server process of the connection, once it is known to be this connection's alone."""
        return self._server_pid if self._works else None

    def open(self, channel: str) -> bool:
        """Listen, unless it does already or was tried just now; says whether it just began to."""
        if self._connection is not None or monotonic() < self._opened_at + _RETRY_EVERY:
            return False
        self._opened_at = monotonic()
        try:
            connection = self._connection = connect(self._arguments, self._timeout)
            # The driver takes notifications in with the answers to statements, too.
            connection.add_notify_handler(lambda notify: self._heard.add(notify.payload))
            connection.execute(f'LISTEN "{channel}"')
            # Asked, not taken from the driver: a pooler in between makes up a number of its own.
            row = connection.execute("SELECT pg_backend_pid() AS pid").fetchone()
            self._server_pid = row["pid"] if row else None
        except psycopg.Error as error:
            logger.warning("cannot listen for changes, looking every second instead: %s", error)
            self.close()
            return False
        return True

    def wait(self, seconds: float) -> set[str]:
        """Sleep until something is heard or the time is over; returns what was heard."""
        connection = self._connection
        poll = select.poll()
        if connection is not None:
            poll.register(connection.fileno(), select.POLLIN)
        poll.poll(max(0.0, seconds) * 1000)
        return self._take_in(connection) if connection is not None else set()

    def _take_in(self, connection: DeadlineConnection) -> set[str]:
        heard, self._heard = self._heard, set()
        try:
            connection.pgconn.consume_input()
            while notification := connection.pgconn.notifies():
                heard.add(notification.extra.decode())
        except psycopg.Error as error:
            logger.warning("the listening connection broke, opening it again: %s", error)
            self.close()
            self._opened_at = float("-inf")
            return {"lost"}
        if self._greeting in heard:
            self._works = True
        elif not self._works and not self._complained and monotonic() > self._opened_at + _PATIENCE:
            self._complained = True
            logger.warning(
                "notifications do not arrive, probably because of a pooler; looking every "
                "second instead. Set dbbeat_listen_url to a direct URL to hear of changes at once"
            )
        return heard

    def close(self) -> None:
        """Drop the connection."""
        connection, self._connection = self._connection, None
        self._works = False
        self._server_pid = None
        self._heard.clear()
        if connection is not None:
            connection.close()
