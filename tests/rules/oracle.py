"""The fire times of a cron expression, the slow and plain way.

`Spec` says what an expression means as sets and a question asked of each date, made apart from the
parser. `fire_times` walks every minute (or second) of a stretch of time, asks the zone what the
clocks show, and keeps what the policy of `celery_dbbeat.rules.zone` asks for.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

UTC = timezone.utc
ZONES = (
    "UTC",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Europe/London",
    "Africa/Casablanca",
    "Africa/Cairo",
    "Asia/Kathmandu",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "Pacific/Apia",
)
_FIRST, _LAST = datetime(2011, 1, 1, tzinfo=UTC), datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Spec:
    text: str
    seconds: frozenset[int]
    minutes: frozenset[int]
    hours: frozenset[int]
    months: frozenset[int]
    on_day: Callable[[date], bool]
    runs_through: bool

    def matches(self, day: date) -> bool:
        return day.month in self.months and self.on_day(day)


@cache
def changes(zone_name: str) -> tuple[datetime, ...]:
    """The instants, to the minute, at which the zone's offset changes."""
    zone, found, day = ZoneInfo(zone_name), [], _FIRST
    while day < _LAST:
        after = day + timedelta(days=1)
        if day.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            minutes = (day + timedelta(minutes=n) for n in range(1, 1441))
            offset = day.astimezone(zone).utcoffset()
            found.append(next(m for m in minutes if m.astimezone(zone).utcoffset() != offset))
        day = after
    return tuple(found)


@dataclass(frozen=True)
class Clocks:
    """What the clocks show at each step of a stretch of time: instant, date, seconds into it."""

    shown: list[tuple[datetime, date, int]]
    gaps: list[tuple[datetime, datetime, datetime]]  # first and last skipped wall time, and when


@lru_cache(maxsize=64)
def clocks(zone_name: str, start: datetime, end: datetime, step: int) -> Clocks:
    zone, tick = ZoneInfo(zone_name), timedelta(seconds=step)
    shown, gaps, before, instant = [], [], None, start
    while instant <= end:
        wall = instant.astimezone(zone).replace(tzinfo=None)
        seconds = wall.hour * 3600 + wall.minute * 60 + wall.second
        shown.append((instant, wall.date(), seconds))
        if before is not None and wall - before > tick:
            gaps.append((before + tick, wall - tick, instant))
        before, instant = wall, instant + tick
    return Clocks(shown, gaps)


def fire_times(
    spec: Spec, zone_name: str, start: datetime, end: datetime, step: int = 60
) -> list[datetime]:
    """All fire times from `start` to `end`, which are both whole minutes."""
    found = clocks(zone_name, start, end, step)
    times = {
        hour * 3600 + minute * 60 + second
        for hour in spec.hours
        for minute in spec.minutes
        for second in spec.seconds
    }
    days = {day for day in {day for _, day, _ in found.shown} if spec.matches(day)}
    hits = [entry for entry in found.shown if entry[2] in times and entry[1] in days]
    late = {instant for low, high, instant in found.gaps if _any(spec, times, low, high, step)}
    return _by_policy(hits, late, runs_through=spec.runs_through)


def fire_times_of(
    times: Collection[datetime], zone_name: str, start: datetime, end: datetime, *, through: bool
) -> list[datetime]:
    """The same for local times, on whole minutes, of which all in that stretch are given."""
    found = clocks(zone_name, start, end, 60)
    pairs = {(at.date(), at.hour * 3600 + at.minute * 60) for at in times}
    hits = [entry for entry in found.shown if entry[1:] in pairs]
    late = {at for low, high, at in found.gaps if any(low <= time <= high for time in times)}
    return _by_policy(hits, late, runs_through=through)


def _by_policy(
    hits: list[tuple[datetime, date, int]], late: set[datetime], *, runs_through: bool
) -> list[datetime]:
    if runs_through:
        return [instant for instant, _, _ in hits]
    earliest: dict[tuple[date, int], datetime] = {}
    for instant, day, seconds in hits:
        earliest.setdefault((day, seconds), instant)
    return sorted(late.union(earliest.values()))


def _any(spec: Spec, times: set[int], low: datetime, high: datetime, step: int) -> bool:
    while low <= high:
        if low.hour * 3600 + low.minute * 60 + low.second in times and spec.matches(low.date()):
            return True
        low += timedelta(seconds=step)
    return False


def on_nth(day: date, weekday: int, nth: int) -> bool:
    """Whether it is the nth (0: the last) such weekday, Sunday being 0, of its month."""
    if day.isoweekday() % 7 != weekday:
        return False
    return (day + timedelta(days=7)).month != day.month if nth == 0 else (day.day + 6) // 7 == nth


def is_nearest(day: date, target: int) -> bool:
    """Whether it is the working day nearest to that day of its month."""
    length = calendar.monthrange(day.year, day.month)[1]
    working = [n for n in range(1, length + 1) if day.replace(day=n).weekday() < 5]
    return min(working, key=lambda n: abs(n - min(target, length))) == day.day


def is_last(day: date) -> bool:
    return (day + timedelta(days=1)).month != day.month
