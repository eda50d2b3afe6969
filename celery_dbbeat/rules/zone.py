"""From wall-clock times to instants: what a schedule means when the clocks change.

People write *local* times; the world runs on *instants*. Between two changes of a zone's offset
the two go hand in hand. At a change they part:

    gap    clocks jump ahead: the wall times 02:00-03:00 never happen
    fold   clocks fall back:  the wall times 01:00-02:00 happen twice

What should fire then depends on what the writer meant, and the hour field tells:

*Fixed* (``30 2 * * *``, ``0 9-17 * * *``): "once, at this time". Each local time L stands for
exactly one instant f(L): in a fold the earlier one; in a gap the first instant after the gap, as
a late start is better than none. f never goes back, so the fire times are f of the matching local
times, in order; several times of one gap are one fire time.

*Running through* (the hour field starts with ``*``, or names all 24 hours): "evenly, as time goes
by". Every instant fires whose wall time matches: both passes of a fold, nothing in a gap. So
``*/30 * * * *`` keeps its 30 minutes through every change.

Both define a *set of instants*; the search below only looks for the first member after a given
instant, so the answer cannot depend on where the search began. Two facts carry it:

- f(L) <= f(wall(u)) <= u for every L up to wall(u), so a fixed search need not look back, and in
  the second pass of a fold it may go straight to the fold's end.
- A change can only bring back wall times that have been seen if it comes within a day, the most
  an offset ever moved. Beyond `_NEAR`, a running-through search may trust f again.

No zone ever had two changes within `_NEAR`, so equal offsets at both ends mean no change between.
All changes since 1970 fall on whole seconds. Only fixed local times may be finer than that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from typing import Protocol
from zoneinfo import ZoneInfo

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import DstCase, Trigger

UTC = timezone.utc
# Triggers look no further than this, so that no offset can carry a time over the year 9999.
LAST_YEAR = 9998
_BEGIN = datetime(1, 1, 3, tzinfo=UTC)
END = datetime(LAST_YEAR, 12, 1, tzinfo=UTC)

_SECOND = timedelta(seconds=1)
_INSTANT = timedelta(microseconds=1)
_NEAR = timedelta(hours=26)
# An expression that meets nothing but gaps this many times in a row has no fire time to wait for.
_GAPS = 400

_LONGEST = 64
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,3}")
# The machine's own zone differs between replicas; posix/ and right/ are copies, the latter with
# leap seconds in it.
_NOT_ZONES = ("localtime", "posixrules", "Factory", "posix/", "right/")


class LocalTimes(Protocol):
    """The wall-clock times of a trigger, as naive datetimes in whole seconds."""

    def first_after(self, wall: datetime) -> datetime | None:
        """Return the first one strictly after that wall time, whatever zone it carries."""


@dataclass(frozen=True, slots=True)
class WallClock(Trigger):
    """A trigger that people write in local times. `runs_through` is told in the docstring above."""

    expression: str
    timezone: str
    times: LocalTimes = field(repr=False)
    zone: tzinfo = field(compare=False, repr=False)
    runs_through: bool

    @property
    def canonical(self) -> str:
        """The expression, in one form."""
        return self.expression

    def next(self, after: datetime) -> datetime | None:
        """Return the first fire time strictly after the instant."""
        if after >= END:
            return None
        # Within one zone Python reckons in wall time: from here on it has to be UTC.
        after = _BEGIN if after < _BEGIN else after.astimezone(UTC)
        if self.zone is UTC:
            local = self.times.first_after(after)
            return None if local is None else local.replace(tzinfo=UTC)
        if self.runs_through:
            return _next_through(self.times, self.zone, after)
        return _next_fixed(self.times, self.zone, after)

    def dst_case(self, instant: datetime) -> DstCase:
        """Say whether a fire time stands for skipped wall times, or has one that comes twice."""
        wall = instant.astimezone(self.zone)
        before = (instant.astimezone(UTC) - _SECOND).astimezone(self.zone)
        jump = _offset(wall) - _offset(before)
        if jump > timedelta(0) and not self.runs_through and not instant.microsecond:
            end = wall.replace(tzinfo=None)
            skipped = self.times.first_after(end - jump - _INSTANT)
            return "gap" if skipped is not None and skipped < end else "none"
        comes_twice = _offset(wall.replace(fold=0)) > _offset(wall.replace(fold=1))
        return "fold" if comes_twice else "none"


@lru_cache(maxsize=1024)
def find_zone(name: str) -> tzinfo:
    """Return the IANA zone of that name; raise TriggerError when there is none."""
    if name == "UTC":
        return UTC
    if len(name) <= _LONGEST and _NAME.fullmatch(name) and not name.startswith(_NOT_ZONES):
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError):
            pass
    raise TriggerError(
        f"timezone {name[:_LONGEST]!r} is not known: "
        "it has to be an IANA name such as 'UTC' or 'Europe/Berlin'"
    )


def to_instant(local: datetime, zone: tzinfo) -> datetime:
    """Return f(local): the one instant a fixed local time stands for."""
    instant = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if instant.astimezone(zone).replace(tzinfo=None) == local:
        return instant
    # In a gap fold=0 reckons with the offset before it and lands after; fold=1 the other way round.
    before = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    return _change_between(zone, before, instant)


def is_in_range(instant: datetime) -> bool:
    """Whether triggers look that far."""
    return _BEGIN <= instant < END


def wall_time(start_at: datetime, zone: tzinfo) -> datetime:
    """Return what the clocks of the zone show at a schedule's start, naive."""
    if not is_in_range(start_at):
        raise TriggerError(
            f"start_at {start_at.isoformat()} is out of range: years 1 to {LAST_YEAR}"
        )
    return start_at.astimezone(zone).replace(tzinfo=None, fold=0)


def instants_of(local: datetime, zone: tzinfo) -> frozenset[datetime]:
    """Return f(local) and, where the clocks show that time twice, the later instant as well."""
    later = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    shown = later.astimezone(zone).replace(tzinfo=None) == local
    return frozenset({to_instant(local, zone), *([later] if shown else [])})


def _next_fixed(times: LocalTimes, zone: tzinfo, after: datetime) -> datetime | None:
    local = after.astimezone(zone)
    if local.fold:
        local = _last_of_fold(local, zone, after)
    found = times.first_after(local)
    return None if found is None else to_instant(found, zone)


def _next_through(times: LocalTimes, zone: tzinfo, after: datetime) -> datetime | None:
    start = after.replace(microsecond=0) + _SECOND
    for _ in range(_GAPS):
        wall = start.astimezone(zone)
        offset = _offset(wall)
        local = times.first_after(wall - _SECOND)
        instant = None if local is None else (local - offset).replace(tzinfo=UTC)
        horizon = start + _NEAR
        if instant is not None and instant < horizon:
            horizon = instant
        if horizon.astimezone(zone).utcoffset() != offset:
            change = _change_between(zone, start, horizon)
            if instant is not None and instant < change:
                return instant
            start = change
        elif local is None or horizon is instant:
            return instant
        else:
            instant = to_instant(local, zone)
            if instant.astimezone(zone).replace(tzinfo=None) == local:
                return instant
            start = instant
    return None


def _last_of_fold(local: datetime, zone: tzinfo, instant: datetime) -> datetime:
    """Return the last wall time of the fold of which `local` is in the second pass."""
    first_pass = _offset(local.replace(fold=0))
    before = instant - (first_pass - _offset(local))
    change = _change_between(zone, before, instant)
    return (change + first_pass - _INSTANT).replace(tzinfo=None)


def _offset(aware: datetime) -> timedelta:
    return aware.utcoffset() or timedelta(0)


def _change_between(zone: tzinfo, low: datetime, high: datetime) -> datetime:
    """Return the first instant in (low, high] with another offset than `low` has."""
    low = low.replace(microsecond=0)
    offset = low.astimezone(zone).utcoffset()
    below, at_or_above = 0, int((high - low).total_seconds())
    while at_or_above - below > 1:
        middle = (below + at_or_above) // 2
        if (low + timedelta(seconds=middle)).astimezone(zone).utcoffset() == offset:
            below = middle
        else:
            at_or_above = middle
    return low + timedelta(seconds=at_or_above)
