"""RabbitMQ's word on each message, awaited a window at a time.

Awaiting each confirm by itself costs a round trip a message. Here the whole window goes out
first. Every message is sent as `mandatory`, so that one that no queue takes comes back instead of
vanishing; the broker still acknowledges it, after having returned it.
"""

from typing import Any

from kombu import Connection

from celery_dbbeat.clock import monotonic


class Confirms:
    """Counts what is published on one channel, and what the broker says of it."""

    def __init__(self, connection: Connection, channel: Any, timeout: float) -> None:
        """Put the channel into confirm mode."""
        self._connection = connection
        self._timeout = timeout
        self._sequence = 0
        self._awaited: dict[int, str | None] = {}
        self._refused: dict[str, str] = {}
        self._publish = channel.basic_publish
        channel.basic_publish = self._counted
        channel.confirm_select()
        channel.events["basic_ack"].add(self._on_ack)
        channel.events["basic_nack"].add(self._on_nack)
        channel.events["basic_return"].add(self._on_return)

    def begin(self) -> None:
        """Start a new window."""
        self._refused = {}

    def await_all(self) -> dict[str, str]:
        """Wait for the word on every message; returns the refused, each with the reason."""
        deadline = monotonic() + self._timeout
        while self._awaited:
            left = deadline - monotonic()
            if left <= 0:
                raise TimeoutError(f"{len(self._awaited)} messages were not confirmed in time")
            self._connection.drain_events(timeout=left)
        return self._refused

    def forget_declared(self) -> None:
        """Let queues and exchanges be declared again."""
        self._connection.declared_entities.clear()

    def probe(self) -> None:
        """Take in what the broker sent meanwhile; raises when it has hung up."""
        try:
            while True:
                self._connection.drain_events(timeout=0.001)
        except TimeoutError:
            return

    def _counted(self, message: Any, *args: Any, **kwargs: Any) -> Any:
        task_id = _task_id(message)
        if task_id is not None:
            kwargs["mandatory"] = True
        result = self._publish(message, *args, **kwargs)
        self._sequence += 1
        self._awaited[self._sequence] = task_id
        return result

    def _on_ack(self, delivery_tag: int, multiple: bool) -> None:  # noqa: FBT001 - py-amqp's callback
        self._settle(delivery_tag, multiple=multiple)

    def _on_nack(self, delivery_tag: int, multiple: bool) -> None:  # noqa: FBT001 - py-amqp's callback
        for task_id in self._settle(delivery_tag, multiple=multiple):
            if task_id is not None:
                self._refused[task_id] = "the broker did not accept it (nack)"

    def _on_return(self, error: Exception, _exchange: str, _key: str, message: Any) -> None:
        task_id = _task_id(message)
        if task_id is not None:
            self._refused[task_id] = f"no queue takes it: {error}"

    def _settle(self, delivery_tag: int, *, multiple: bool) -> list[str | None]:
        if not multiple:
            return [self._awaited.pop(delivery_tag, None)]
        tags = [tag for tag in self._awaited if tag <= delivery_tag]
        return [self._awaited.pop(tag) for tag in tags]


def _task_id(message: Any) -> str | None:
    """The id in Celery's own header: what a schedule's options cannot change. Events have none."""
    headers = message.properties.get("application_headers") or {}
    found: str | None = headers.get("id")
    return found
