"""Where Celery's crontab and ours fire at different times: around changes of the clocks.

Not by theory: both are walked through the hours around each change of the years to come, Celery's
schedule object as its beat would ask it, and what differs first is told with the times.
"""

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache, partial

from celery.schedules import crontab

from celery_dbbeat.contrib.importers.entry import UTC
from celery_dbbeat.rules.crontab import parse_crontab
from celery_dbbeat.rules.zone import find_zone

# What comes once a month meets a change of the clocks years later.
_AHEAD = timedelta(days=3653)
_BEFORE, _AFTER = timedelta(hours=2), timedelta(hours=3)
_HOUR = timedelta(hours=1)
_STEP = timedelta(days=1)
_MINUTE = timedelta(minutes=1)


@lru_cache(maxsize=65536)
def clock_changes_matter(expression: str, zone_name: str, today: date) -> str | None:
    """What fires at another time than it did under Celery, and when first; None: nothing."""
    celerys = _celerys(expression)
    changes, hours = _changes(zone_name, today)
    if hours.isdisjoint(celerys.hour):
        return None
    ours = parse_crontab(expression, zone_name, find_zone(zone_name))
    for change in changes:
        start, end = change - _BEFORE, change + _AFTER
        here = _between(ours.next, start, end)
        there = _between(partial(celery_next, celerys, zone_name), start, end)
        if here != there:
            only_here, only_there = _list(sorted(here - there)), _list(sorted(there - here))
            return f"where the clocks change: fires {only_here}; over there {only_there} (UTC)"
    return None


def celery_next(celerys: crontab, zone_name: str, last: datetime) -> datetime:
    """When Celery's beat would send next, if it last sent at that instant."""
    zone = find_zone(zone_name)
    celerys.tz = zone
    celerys.nowfun = lambda: last.astimezone(zone)
    remaining: timedelta = celerys.remaining_estimate(last.astimezone(zone))
    return last.astimezone(UTC) + remaining


@lru_cache(maxsize=4096)
def _celerys(expression: str) -> crontab:
    return crontab(**json.loads(expression))


def _between(
    following: Callable[[datetime], datetime | None], start: datetime, end: datetime
) -> set[datetime]:
    found: set[datetime] = set()
    instant = following(start)
    while instant is not None and instant <= end and instant not in found:
        found.add(instant)
        instant = following(instant)
    return found


@lru_cache(maxsize=1024)
def _changes(zone_name: str, today: date) -> tuple[tuple[datetime, ...], frozenset[int]]:
    """The changes to come, and the hours of the local clock around them."""
    zone = find_zone(zone_name)
    found = []
    low = datetime(today.year, today.month, today.day, tzinfo=UTC)
    until = low + _AHEAD
    while low < until:
        high = low + _STEP
        if _offset(low, zone) != _offset(high, zone):
            found.append(_change_between(low, high, zone))
        low = high
    # By the clock on the wall, so that an hour that is skipped is one of them.
    around = range(-_BEFORE // _HOUR - 1, _AFTER // _HOUR + 2)
    hours = {(change.astimezone(zone).hour + n) % 24 for change in found for n in around}
    return tuple(found), frozenset(hours)


def _change_between(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    before = _offset(low, zone)
    while high - low > _MINUTE:
        middle = low + (high - low) / 2
        low, high = (middle, high) if _offset(middle, zone) == before else (low, middle)
    return high.replace(second=0, microsecond=0)


def _offset(instant: datetime, zone: tzinfo) -> timedelta | None:
    return instant.astimezone(zone).utcoffset()


def _list(instants: list[datetime]) -> str:
    shown = [instant.strftime("%Y-%m-%d %H:%M") for instant in instants[:2]]
    more = len(instants) - len(shown)
    return " and ".join(shown) + (f" and {more} more" if more else "") if shown else "not"
