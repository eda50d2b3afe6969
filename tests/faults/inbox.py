"""What has really arrived at the broker, read raw: no worker, no result."""

import threading
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from types import TracebackType
from typing import Any
from uuid import UUID

from kombu import Connection, Exchange, Queue
from typing_extensions import Self

#: Celery's own default queue.
QUEUE = "celery"
_LOOK_EVERY = 0.02


@dataclass(frozen=True, slots=True)
class Received:
    """One message."""

    task_id: UUID
    task: str
    schedule: str
    nominal_at: datetime
    kind: str
    arrived_at: datetime


class Inbox:
    """Takes messages out of one queue, when asked to or all the time in a thread of its own.

    A message that is on its way to a live reader is lost when the broker dies, so tests that stop
    a broker only `collect` at the end.
    """

    def __init__(self, url: str, queue: str = QUEUE) -> None:
        self.received: list[Received] = []
        self._url = url
        self._queue = Queue(queue, Exchange(queue), routing_key=queue)
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def collect(self) -> list[Received]:
        """Take all there is now, and return all there ever was."""
        with Connection(self._url, connect_timeout=5) as connection:
            self._take_all(self._queue(connection.default_channel))
        return self.received

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join(10)

    def _watch(self) -> None:
        with Connection(self._url, connect_timeout=5) as connection:
            queue = self._queue(connection.default_channel)
            queue.declare()
            while not self._stopping.is_set():
                self._take_all(queue)
                time.sleep(_LOOK_EVERY)

    def _take_all(self, queue: Queue) -> None:
        queue.declare()
        with self._lock:
            while (message := queue.get(no_ack=True)) is not None:
                self.received.append(_read(message.headers, datetime.now(timezone.utc)))


def _read(headers: dict[str, Any], now: datetime) -> Received:
    tick = headers["dbbeat"]
    return Received(
        UUID(headers["id"]),
        headers["task"],
        tick["schedule"],
        datetime.fromisoformat(tick["nominal"]),
        tick["kind"],
        now,
    )
