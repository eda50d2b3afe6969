"""A few connections to Postgres for one process."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from celery_dbbeat.settings import Settings
from celery_dbbeat.store.database import Database

#: Threads and greenlets of one process wait for each other beyond this.
_MOST = 4


class Connections:
    """Made when needed, kept, and never shared with a process forked from this one."""

    def __init__(self, settings: Settings) -> None:
        """Connect at first use, not here."""
        self._settings = settings
        self._start_afresh()

    @contextmanager
    def one(self) -> Iterator[Database]:
        """A connection that is nobody else's for the block."""
        if os.getpid() != self._process:
            # Those of the parent stay open there; closing them here would end them there.
            self._parents = self._idle
            self._start_afresh()
        with self._free:
            database = self._idle.pop() if self._idle else self._make()
            try:
                yield database
            finally:
                self._idle.append(database)

    def close(self) -> None:
        """Close what is idle; the next use connects again."""
        while self._idle:
            self._idle.pop().close()

    def _start_afresh(self) -> None:
        self._process = os.getpid()
        self._idle: list[Database] = []
        self._free = threading.BoundedSemaphore(_MOST)

    def _make(self) -> Database:
        settings = self._settings
        return Database(settings.url, settings.schema, settings.database_timeout)
