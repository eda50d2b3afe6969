"""What is in a broker, read without Celery."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import kombu
import redis

#: Between the parts of a binding, in kombu's Redis transport.
SEPARATOR = "\x06\x16"


@contextmanager
def redis_client(url: str) -> Iterator["redis.Redis"]:
    """A plain client."""
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        yield client


def redis_lists(url: str) -> dict[str, list[dict[str, Any]]]:
    """Every message in every queue, the oldest first; the body is still encoded."""
    with redis_client(url) as client:
        keys = [key for key in cast(list[bytes], client.keys("*")) if client.type(key) == b"list"]
        return {key.decode(): _messages(client, key) for key in sorted(keys)}


def redis_bindings(url: str) -> dict[str, list[str]]:
    """What was declared: the queues bound to each exchange."""
    with redis_client(url) as client:
        keys = cast(list[bytes], client.keys("_kombu.binding.*"))
        members = {key: cast(set[bytes], client.smembers(key)) for key in keys}
    return {key.decode(): sorted(map(bytes.decode, found)) for key, found in members.items()}


def bind_in_redis(url: str, exchange: str, routing_key: str, queue: str) -> None:
    """Bind a queue as kombu does."""
    with redis_client(url) as client:
        binding = SEPARATOR.join([routing_key, "", queue])
        client.sadd(f"_kombu.binding.{exchange}", binding)


def redis_ids(url: str, queue: str = "celery") -> list[str]:
    """The ids of the tasks in a queue, the oldest first."""
    return [message["headers"]["id"] for message in redis_lists(url).get(queue, [])]


def _messages(client: "redis.Redis", key: bytes) -> list[dict[str, Any]]:
    newest_first = cast(list[bytes], client.lrange(key.decode(), 0, -1))
    return [_message(json.loads(text)) for text in reversed(newest_first)]


def _message(envelope: dict[str, Any]) -> dict[str, Any]:
    """Without the tag, which is random; the body as bytes."""
    properties = envelope["properties"]
    properties.pop("delivery_tag")
    if properties.pop("body_encoding") == "base64":
        envelope["body"] = base64.b64decode(envelope["body"])
    return envelope


def amqp_messages(url: str, queue: str = "celery") -> list[dict[str, Any]]:
    """Take every message from a queue, the oldest first."""
    with kombu.Connection(url) as connection:
        channel = connection.default_channel
        count = channel.queue_declare(queue, passive=True).message_count
        taken: list[dict[str, Any]] = []
        channel.basic_consume(
            queue, no_ack=True, callback=lambda message: taken.append(_plain(message))
        )
        while len(taken) < count:
            connection.drain_events(timeout=5)
        return taken


def _plain(message: Any) -> dict[str, Any]:  # noqa: ANN401 - py-amqp has no types
    delivery = message.delivery_info
    return {
        "body": message.body,
        "headers": message.headers,
        "properties": {k: v for k, v in message.properties.items() if k != "application_headers"},
        "exchange": delivery["exchange"],
        "routing_key": delivery["routing_key"],
    }


def amqp_ids(url: str, queue: str = "celery") -> list[str]:
    """Take every message from a queue, and return the ids of the tasks, the oldest first."""
    return [message["headers"]["id"] for message in amqp_messages(url, queue)]
