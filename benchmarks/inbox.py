"""What has reached the broker, looked at from outside."""

import json
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import amqp
import redis
from sqlalchemy import make_url

QUEUE = "celery"


@dataclass(frozen=True)
class Message:
    """One message, and when it was found."""

    headers: dict[str, Any]
    arrived_at: float

    @property
    def number(self) -> str:
        """Which schedule it is of: its only argument, as Celery writes it for people."""
        return str(self.headers["argsrepr"]).strip("()[], ")

    @property
    def nominal_at(self) -> float:
        return datetime.fromisoformat(self.headers["dbbeat"]["nominal"]).timestamp()

    @property
    def late(self) -> float:
        """Seconds from the fire time to the arrival."""
        return self.arrived_at - self.nominal_at


class Inbox(ABC):
    """Counting costs the broker next to nothing; messages are taken out when all is over."""

    @abstractmethod
    def count(self) -> int:
        """How many messages wait."""

    @abstractmethod
    def drain(self) -> list[Message]:
        """Take out all that wait."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the broker."""


class RedisInbox(Inbox):
    def __init__(self, url: str) -> None:
        self._client = redis.Redis.from_url(url, socket_timeout=10)

    def count(self) -> int:
        return int(self._client.llen(QUEUE))

    def drain(self) -> list[Message]:
        found = []
        while raw := self._client.rpop(QUEUE, 1000):
            now = time.time()
            found += [Message(json.loads(one)["headers"], now) for one in raw]
        return found

    def next(self, timeout: float) -> Message | None:
        """Wait for one message."""
        raw = self._client.brpop([QUEUE], timeout)
        return Message(json.loads(raw[1])["headers"], time.time()) if raw else None

    def collect(self, until: float) -> list[Message]:
        """Each message with its own time of arrival, up to a time of the wall clock."""
        found = []
        while (left := until - time.time()) > 0:
            message = self.next(max(0.01, left))
            if message is not None:
                found.append(message)
        return found

    def close(self) -> None:
        self._client.close()


class RabbitMQInbox(Inbox):
    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self._connection = amqp.Connection(
            f"{parsed.host}:{parsed.port}",
            userid=parsed.username,
            password=parsed.password,
            virtual_host=(parsed.database or "/").replace("%2F", "/"),
            read_timeout=30,
        )
        self._connection.connect()
        self._channel = self._connection.channel()
        self._channel.queue_declare(QUEUE, durable=True, auto_delete=False)

    def count(self) -> int:
        found = self._channel.queue_declare(QUEUE, passive=True)
        return int(found.message_count)

    def drain(self) -> list[Message]:
        found: list[Message] = []
        expected = self.count()

        def take(message: Any) -> None:  # noqa: ANN401 - py-amqp has no types
            found.append(Message(message.headers, time.time()))

        tag = self._channel.basic_consume(QUEUE, callback=take, no_ack=True)
        while len(found) < expected:
            self._connection.drain_events(timeout=10)
        self._channel.basic_cancel(tag)
        return found

    def close(self) -> None:
        self._connection.close()


def inbox(url: str) -> Inbox:
    """The inbox of the broker behind a URL."""
    return RedisInbox(url) if url.startswith("redis") else RabbitMQInbox(url)
