"""The *when* of a schedule: a pure function from an instant to the next fire time.

A trigger is a frozen value. It holds no clock and does no I/O, so every replica that reads the
same row computes the same fire times, from whichever instant it starts to look.
"""

from __future__ import annotations

import abc
import re
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import Literal

from celery_dbbeat.errors import TriggerError

KINDS = ("cron", "crontab", "interval", "rrule", "solar", "once")

#: What the clocks did at a fire time: see `celery_dbbeat.rules.zone`.
DstCase = Literal["none", "gap", "fold"]

# As many characters as the column holds.
_LONGEST = 10_000
_ANCHORED = frozenset({"interval", "rrule"})
# An H of a cron expression that is not part of a word.
_SPREAD = re.compile(r"(?<![A-Za-z@])[Hh](?![A-Za-z])")


@dataclass(frozen=True, slots=True)
class Walk:
    """How many fire times lie in a stretch of time, the last of them, and the one after it."""

    count: int
    last: datetime
    following: datetime | None


class Trigger(abc.ABC):
    """Instants go in and come out as aware datetimes in UTC."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def canonical(self) -> str:
        """The expression in the one form that all ways to write the same are brought to."""

    @abc.abstractmethod
    def next(self, after: datetime) -> datetime | None:
        """Return the first fire time strictly after the instant; None when there is none."""

    def dst_case(self, instant: datetime) -> DstCase:  # noqa: ARG002 - others look
        """Say what the clocks did at a fire time; `none` for kinds that do not follow them."""
        return "none"

    def walk(self, first: datetime, until: datetime, limit: int) -> Walk:
        """Count fire times from `first`, itself one, up to and with `until`, at most `limit`."""
        count, last = 1, first.astimezone(timezone.utc)
        following = self.next(last)
        while following is not None and following <= until and count < limit:
            count, last = count + 1, following
            following = self.next(last)
        return Walk(count, last, following)


def parse_trigger(
    kind: str,
    expression: str,
    timezone: str = "UTC",
    start_at: datetime | None = None,
    name: str | None = None,
) -> Trigger:
    """Read a trigger as it is written in a schedule; raise TriggerError when it cannot be used.

    `start_at` anchors the kinds that count from somewhere; the others fire by the calendar. The
    schedule's `name` is what an H in a cron expression is spread by.
    """
    for what, value in (("kind", kind), ("expression", expression), ("timezone", timezone)):
        if not isinstance(value, str):
            raise TriggerError(f"{what} {value!r} is not allowed: it has to be text")
    if len(expression) > _LONGEST:
        raise TriggerError(
            f"expression {expression[:60]!r}... has {len(expression)} characters: "
            f"at most {_LONGEST} are allowed"
        )
    # Without anchor and name in the key, all schedules of one cron expression share one trigger.
    anchor = start_at if kind in _ANCHORED else None
    spread_by = name if kind == "cron" and _SPREAD.search(expression) else None
    return _parse(kind, expression, timezone, anchor, spread_by)


@lru_cache(maxsize=65536)
def _parse(
    kind: str, expression: str, zone_name: str, start_at: datetime | None, name: str | None
) -> Trigger:
    # Each kind builds on this module, so it can only be imported once this one stands.
    # ruff: noqa: PLC0415
    from celery_dbbeat.rules.cron import parse_cron
    from celery_dbbeat.rules.crontab import parse_crontab
    from celery_dbbeat.rules.interval import parse_interval
    from celery_dbbeat.rules.once import parse_once
    from celery_dbbeat.rules.rrule import parse_rrule
    from celery_dbbeat.rules.solar import parse_solar
    from celery_dbbeat.rules.zone import find_zone

    zone = find_zone(zone_name)
    if kind == "cron":
        return parse_cron(expression, zone_name, zone, name)
    if kind == "crontab":
        return parse_crontab(expression, zone_name, zone)
    if kind == "interval":
        return parse_interval(expression, zone_name, zone, _in_utc(start_at))
    if kind == "rrule":
        return parse_rrule(expression, zone_name, zone, _in_utc(start_at))
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
