"""The *when* of a schedule: a pure function from an instant to the next fire time.

A trigger is a frozen value. It holds no clock and does no I/O, so every replica that reads the
same row computes the same fire times, from whichever instant it starts to look.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache

from celery_dbbeat.errors import TriggerError

KINDS = ("cron", "crontab", "interval", "solar", "once")

_ANCHORED = frozenset({"interval"})


@dataclass(frozen=True, slots=True)
class Walk:
    """How many fire times lie in a stretch of time, the last of them, and the one after it."""

    count: int
    last: datetime
    following: datetime | None


class Trigger(abc.ABC):
    """Instants go in and come out as aware datetimes in UTC."""

    __slots__ = ()

    @abc.abstractmethod
    def next(self, after: datetime) -> datetime | None:
        """Return the first fire time strictly after the instant; None when there is none."""

    def walk(self, first: datetime, until: datetime, limit: int) -> Walk:
        """Count fire times from `first`, itself one, up to and with `until`, at most `limit`."""
        count, last = 1, first.astimezone(timezone.utc)
        following = self.next(last)
        while following is not None and following <= until and count < limit:
            count, last = count + 1, following
            following = self.next(last)
        return Walk(count, last, following)


def parse_trigger(
    kind: str, expression: str, timezone: str = "UTC", start_at: datetime | None = None
) -> Trigger:
    """Read a trigger as it is written in a schedule; raise TriggerError when it cannot be used.

    `start_at` anchors the kinds that count from somewhere; the others fire by the calendar.
    """
    for name, value in (("kind", kind), ("expression", expression), ("timezone", timezone)):
        if not isinstance(value, str):
            raise TriggerError(f"{name} {value!r} is not allowed: it has to be text")
    # Without the anchor in the key, all schedules of one cron expression share one trigger.
    return _parse(kind, expression, timezone, start_at if kind in _ANCHORED else None)


@lru_cache(maxsize=65536)
def _parse(kind: str, expression: str, zone_name: str, start_at: datetime | None) -> Trigger:
    # Each kind builds on this module, so it can only be imported once this one stands.
    # ruff: noqa: PLC0415
    from celery_dbbeat.rules.cron import parse_cron
    from celery_dbbeat.rules.crontab import parse_crontab
    from celery_dbbeat.rules.interval import parse_interval
    from celery_dbbeat.rules.once import parse_once
    from celery_dbbeat.rules.solar import parse_solar
    from celery_dbbeat.rules.zone import find_zone

    zone = find_zone(zone_name)
    if kind == "cron":
        return parse_cron(expression, zone_name, zone)
    if kind == "crontab":
        return parse_crontab(expression, zone_name, zone)
    if kind == "interval":
        return parse_interval(expression, _in_utc(start_at))
    if kind == "solar":
        return parse_solar(expression)
    if kind == "once":
        return parse_once(expression, zone)
    raise TriggerError(f"kind {kind!r} is not known: allowed are {', '.join(KINDS)}")


def _in_utc(start_at: datetime | None) -> datetime | None:
    if start_at is None:
        return None
    if start_at.utcoffset() is None:
        raise TriggerError(f"start_at {start_at.isoformat()} has no UTC offset: it needs one")
    return start_at.astimezone(timezone.utc)
