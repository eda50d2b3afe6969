"""Every so often, counted from an anchor: anchor + n * every, so that it never drifts.

Up to weeks that is time as it goes by, whatever clocks do: a day is 24 hours. Months and years are
those of the calendar, at the anchor's local time: the 31st of January is followed by the last of
February and the 31st of March, as each is counted from the anchor and not from the one before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.crontab import month_shape
from celery_dbbeat.rules.trigger import DstCase, Trigger, Walk
from celery_dbbeat.rules.zone import END, LAST_YEAR, UTC, WallClock, wall_time

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTEST = timedelta(seconds=0.1)
_LONGEST = timedelta(days=36525)
_MOST_MONTHS = 1200
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 604800}
_MONTHS = {"month": 1, "year": 12}
_EVERY = re.compile(
    r"(?P<whole>[0-9]{1,10})(?:\.(?P<fraction>[0-9]{1,6})0{0,20})?"
    rf"(?:\s*(?P<unit>{'|'.join([*_UNITS, *_MONTHS])})s?)?",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Interval(Trigger):
    """`start_at` is the anchor and the first fire time; without it the anchor is the epoch."""

    every: timedelta
    start_at: datetime | None = None

    @property
    def canonical(self) -> str:
        """Seconds as plain text."""
        whole, rest = divmod(self.every, timedelta(seconds=1))
        return f"{whole}.{rest.microseconds:06}".rstrip("0").rstrip(".") if rest else str(whole)

    def next(self, after: datetime) -> datetime | None:
        """Return the first fire time strictly after the instant."""
        anchor = self.start_at
        if anchor is None:
            anchor = _EPOCH
        elif after < anchor:
            return anchor
        # Whole timedeltas divide exactly: no float comes near a fire time.
        try:
            found = anchor + ((after - anchor) // self.every + 1) * self.every
        except OverflowError:
            return None
        return found if found < END else None

    def walk(self, first: datetime, until: datetime, limit: int) -> Walk:
        """Count by arithmetic: a long pause of a short interval costs no more than a short one."""
        first, until = first.astimezone(UTC), until.astimezone(UTC)
        following = self.next(first)
        if following is None or following > until or limit <= 1:
            return Walk(1, first, following)
        more = min((until - following) // self.every + 1, limit - 1)
        last = following + (more - 1) * self.every
        return Walk(1 + more, last, self.next(last))


@dataclass(frozen=True, slots=True)
class MonthTimes:
    """The local times anchor + n * months; what a month is too short for is its last day."""

    anchor: datetime
    months: int

    def first_after(self, wall: datetime) -> datetime | None:
        """Return the first one strictly after that wall time."""
        wall, anchor = wall.replace(tzinfo=None), self.anchor
        apart = (wall.year - anchor.year) * 12 + wall.month - anchor.month
        count = apart // self.months
        found = self._at(count)
        if found is not None and found <= wall:
            found = self._at(count + 1)
        return found

    def _at(self, count: int) -> datetime | None:
        anchor = self.anchor
        year, month = divmod(anchor.year * 12 + anchor.month - 1 + count * self.months, 12)
        if year > LAST_YEAR:
            return None
        if year < 1:
            return datetime.min  # noqa: DTZ901 - a wall time
        _, length = month_shape(year, month + 1)
        return anchor.replace(year=year, month=month + 1, day=min(anchor.day, length))


@dataclass(frozen=True, slots=True)
class MonthInterval(Trigger):
    """Every so many months; `start_at` is the first fire time, whatever clocks do on that day."""

    wall: WallClock
    start_at: datetime | None = None

    @property
    def canonical(self) -> str:
        """The number of months."""
        return self.wall.expression

    def next(self, after: datetime) -> datetime | None:
        """Return the first fire time strictly after the instant."""
        if self.start_at is not None and after < self.start_at:
            return self.start_at
        return self.wall.next(after)

    def dst_case(self, instant: datetime) -> DstCase:
        """Say what the clocks did at a fire time."""
        return self.wall.dst_case(instant)


def parse_interval(
    expression: str, zone_name: str, zone: tzinfo, start_at: datetime | None
) -> Interval | MonthInterval:
    """Read a number, with a unit or of seconds."""
    found = _EVERY.fullmatch(expression.strip())
    unit = (found["unit"] or "second").lower() if found else "second"
    if found and unit in _MONTHS:
        months = int(found["whole"]) * _MONTHS[unit]
        if 1 <= months <= _MOST_MONTHS and found["fraction"] is None:
            return _by_months(months, zone_name, zone, start_at)
    elif found:
        fraction = int((found["fraction"] or "").ljust(6, "0"))
        every = _times(int(found["whole"]) * 1_000_000 + fraction, _UNITS[unit])
        if _SHORTEST <= every <= _LONGEST:
            return Interval(every, start_at)
    raise TriggerError(
        f"interval {expression[:60]!r} is not allowed: it has to be seconds as plain text, "
        f"such as '1', '0.5' or '86400', from {_SHORTEST.total_seconds():g} "
        f"to {_LONGEST // timedelta(seconds=1)}, in whole microseconds; or a number with a unit, "
        f"{', '.join(_UNITS)}, or a whole number of months or years, up to 100 years"
    )


def _times(microseconds: int, unit: int) -> timedelta:
    # Seconds alone may be more than a timedelta holds, once they are weeks.
    seconds, rest = divmod(microseconds * unit, 1_000_000)
    return timedelta(seconds=min(seconds, _LONGEST // timedelta(seconds=1) + 1), microseconds=rest)


def _by_months(
    months: int, zone_name: str, zone: tzinfo, start_at: datetime | None
) -> MonthInterval:
    anchor = wall_time(start_at, zone) if start_at else _EPOCH.replace(tzinfo=None)
    shown = f"{months} month{'s' if months > 1 else ''}"
    wall = WallClock(shown, zone_name, MonthTimes(anchor, months), zone, runs_through=False)
    return MonthInterval(wall, start_at)
