"""Where a tick's message goes and when it may be taken, read from options as they are routed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery.utils.time import maybe_iso8601, maybe_make_aware
from kombu import Queue
from kombu.common import Broadcast


@dataclass(frozen=True, slots=True)
class Delivery:
    """Where a tick's message goes and when it may be taken; None: not known, or no limit.

    A span counts from the sending, an instant stands by itself.
    """

    queue: str | None = None
    expires: timedelta | datetime | None = None
    delay: timedelta | datetime | None = None


def read_delivery(options: Mapping[str, Any], timezone: Any) -> Delivery:
    """What routed options say; times without a zone are read in this one, as Celery does."""
    return Delivery(
        _queue_name(options),
        _limit(options.get("expires"), timezone),
        _limit(options.get("countdown") or options.get("eta"), timezone),
    )


def _queue_name(options: Mapping[str, Any]) -> str | None:
    """The name of the one queue that the message goes to; None where an exchange decides."""
    queue, exchange, key = (options.get(name) for name in ("queue", "exchange", "routing_key"))
    # Each worker has a queue of its own for what is broadcast.
    if not isinstance(queue, Queue) or isinstance(queue, Broadcast):
        return None
    elsewhere = exchange and getattr(exchange, "name", exchange) != queue.exchange.name
    if elsewhere or (key and key != queue.routing_key):
        return None
    name: str = queue.name
    return name


def _limit(given: Any, timezone: Any) -> timedelta | datetime | None:
    if given is None or isinstance(given, int | float):
        return None if given is None else timedelta(seconds=given)
    instant: datetime = maybe_make_aware(maybe_iso8601(given), timezone)
    return instant
