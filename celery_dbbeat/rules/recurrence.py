"""The local times of a recurrence rule (RFC 5545), bounded and from whichever instant.

dateutil is the reference, and the tests compare with it; but its rules are walked from their
beginning, and one that meets nothing never gives control back: no budget can be set on that. So
rules are evaluated here, by the same filters. A day of a month is taken when it passes all of them
and lies in a period that INTERVAL does not leave out; on such a day the same times fire each time
(or, by the hour or minute, those that INTERVAL leaves). Periods are numbered from DTSTART, so the
search begins in the period it is asked about.

BYSETPOS picks from what a whole period has: that is walked period by period.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import product

from celery_dbbeat.rules.crontab import days_on, mask, month_shape
from celery_dbbeat.rules.zone import LAST_YEAR

YEARLY, MONTHLY, WEEKLY, DAILY, HOURLY, MINUTELY = range(6)

# After so many months the Gregorian calendar repeats: what did not come by then never will.
_MONTHS = 4800
_WEEK = 7
_MINUTE = 60
_MINUTES = 1440
_HOURS = 24
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class DayFilter:
    """Which days pass. Empty means: all do. Weekdays are 0 (Sunday) to 6.

    `nth`: (weekday, n) of the month, or of the year if `nth_of_year`; n = 0 is each.
    `week_start` is the weekday that weeks begin with, by which week numbers are counted.
    """

    months: tuple[int, ...] = ()
    month_days: tuple[int, ...] = ()
    year_days: tuple[int, ...] = ()
    weeks: tuple[int, ...] = ()
    nth: tuple[tuple[int, int], ...] = ()
    nth_of_year: bool = False
    week_start: int = 1

    def of(self, year: int, month: int) -> int:
        """Return the days of that month, as bits."""
        if self.months and month not in self.months:
            return 0
        _, length = month_shape(year, month)
        days = (1 << (length + 1)) - 2
        if self.month_days:
            days &= mask({d if d > 0 else max(length + 1 + d, 0) for d in self.month_days})
        if self.nth:
            days &= self._by_weekday(year, month)
        if days and self.year_days:
            before, whole = _days_before(year, month), _days_before(year + 1, 1, year)
            days &= mask(
                d
                for d in range(1, length + 1)
                if before + d in self.year_days or before + d - whole - 1 in self.year_days
            )
        if days and self.weeks:
            begins = datetime(year, month, 1).toordinal() - 1  # noqa: DTZ001
            days &= mask(d for d in range(1, length + 1) if self._in_week(begins + d))
        return days

    def _by_weekday(self, year: int, month: int) -> int:
        first, length = month_shape(year, month)
        days = days_on(mask({weekday for weekday, n in self.nth if n == 0}), first)
        before, size = 0, length
        if self.nth_of_year:
            before, size = _days_before(year, month), _days_before(year + 1, 1, year)
        for weekday, n in self.nth:
            # The first such weekday of the month or year, and the number of them.
            offset = (weekday - first + before) % _WEEK + 1
            count = (size - offset) // _WEEK + 1
            number = n - 1 if n > 0 else count + n
            day = offset + number * _WEEK - before
            if n and 0 <= number < count and 1 <= day <= length:
                days |= 1 << day
        return days

    def _in_week(self, day: int) -> bool:
        year, number = self._week(day)
        # The 28th of December is always in the last one.
        _, weeks = self._week(datetime(year, 12, 28).toordinal())  # noqa: DTZ001
        return number in self.weeks or number - weeks - 1 in self.weeks

    def _week(self, day: int) -> tuple[int, int]:
        """The number of a day's week, and the year it belongs to: that of its fourth day."""
        begins = day - (day - self.week_start) % _WEEK
        fourth = datetime.fromordinal(begins + 3).timetuple()
        return fourth.tm_year, (fourth.tm_yday - 1) // _WEEK + 1


@dataclass(frozen=True, slots=True)
class Clock:
    """Which times of a day. `interval` leaves some out only by the hour or minute."""

    frequency: int
    interval: int
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]
    positions: tuple[int, ...] = ()

    def on(self, residue: int) -> tuple[int, ...]:
        """Return the seconds of the day; `residue` is by how much the day misses a period."""
        slots = _HOURS if self.frequency == HOURLY else _MINUTES
        found: list[int] = []
        for slot in range(-residue % self.interval, slots, self.interval):
            hour, minutes = slot, self.minutes
            if slots == _MINUTES:
                hour, minute = divmod(slot, _MINUTE)
                minutes = (minute,) if minute in self.minutes else ()
            if hour in self.hours:
                found += _pick([_second(hour, m, s) for m in minutes for s in self.seconds], self)
        return tuple(found)

    def whole(self) -> tuple[int, ...]:
        """Return the seconds of each day, where days and longer periods count."""
        times = [_second(*time) for time in product(self.hours, self.minutes, self.seconds)]
        return tuple(_pick(times, self) if self.frequency == DAILY else times)


@dataclass(frozen=True, slots=True)
class Recurrence:
    """The local times of a rule from `start` on, with `last` as the last that may be."""

    start: datetime
    days: DayFilter
    clock: Clock
    last: datetime | None = None

    def first_after(self, wall: datetime) -> datetime | None:
        """Return the first one strictly after that wall time."""
        wall = max(wall.replace(tzinfo=None), self.start - _INSTANT)
        if self.clock.positions and self.clock.frequency < DAILY:
            found = self._by_period(wall)
        else:
            found = self._by_day(wall)
        return None if found is None or (self.last and found > self.last) else found

    def _by_day(self, wall: datetime) -> datetime | None:
        seconds = _second(wall.hour, wall.minute, wall.second)
        today = wall.toordinal()
        month = self._days_of(wall.year, wall.month)
        if month >> wall.day & 1:
            times = self._times_on(today)
            place = bisect_right(times, seconds)
            if place < len(times):
                return _at(today, times[place])
        later = month >> (wall.day + 1) << (wall.day + 1)
        begins = today - wall.day
        for ordinal in self._days_after(wall, begins, later):
            if times := self._times_on(ordinal):
                return _at(ordinal, times[0])
        return None

    def _days_after(self, wall: datetime, begins: int, days: int) -> Iterator[int]:
        yield from _ordinals(begins, days)
        for year, month in self._months_from(wall.year * 12 + wall.month):
            if days := self._days_of(year, month):
                begins = datetime(year, month, 1).toordinal() - 1  # noqa: DTZ001
                yield from _ordinals(begins, days)

    def _months_from(self, index: int) -> Iterator[tuple[int, int]]:
        """Months that are in a period, as long as there is hope."""
        for _ in range(_MONTHS):
            index += self._months_to_period(index)
            year, month = divmod(index, 12)
            if year > LAST_YEAR:
                return
            yield year, month + 1
            index += 1

    def _months_to_period(self, index: int) -> int:
        frequency, interval = self.clock.frequency, self.clock.interval
        if frequency == MONTHLY:
            return (self.start.year * 12 + self.start.month - 1 - index) % interval
        if frequency == YEARLY and (left := (self.start.year - index // 12) % interval):
            return left * 12 - index % 12
        return 0

    def _days_of(self, year: int, month: int) -> int:
        if self._months_to_period(year * 12 + month - 1):
            return 0
        days = self.days.of(year, month)
        frequency, interval = self.clock.frequency, self.clock.interval
        if interval == 1 or not days or frequency not in {WEEKLY, DAILY}:
            return days
        size = _WEEK if frequency == WEEKLY else 1
        begins = datetime(year, month, 1).toordinal() - 1 - self._first_day(size)  # noqa: DTZ001
        return mask(
            d for d in range(1, 32) if days >> d & 1 and (begins + d) // size % interval == 0
        )

    def _first_day(self, size: int) -> int:
        """The first day of the first period."""
        day = self.start.toordinal()
        return day - (day - self.days.week_start) % _WEEK if size == _WEEK else day

    def _times_on(self, ordinal: int) -> tuple[int, ...]:
        clock = self.clock
        if clock.frequency < HOURLY:
            return _whole(clock)
        slots, slot = _HOURS, self.start.hour
        if clock.frequency == MINUTELY:
            slots, slot = _MINUTES, self.start.hour * _MINUTE + self.start.minute
        return _on(clock, ((ordinal - self.start.toordinal()) * slots - slot) % clock.interval)

    def _by_period(self, wall: datetime) -> datetime | None:
        times = _whole(self.clock)
        for days in self._periods(wall):
            size = len(days) * len(times)
            for place in _places(size, self.clock.positions):
                day, time = divmod(place, len(times))
                if (found := _at(days[day], times[time])) > wall:
                    return found
        return None

    def _periods(self, wall: datetime) -> Iterator[list[int]]:
        """The days of each period from that of the wall time on."""
        if self.clock.frequency == WEEKLY:
            yield from self._weeks(wall)
            return
        size = 12 if self.clock.frequency == YEARLY else 1
        index = wall.year * 12 + (0 if size > 1 else wall.month - 1)
        days: list[int] = []
        for year, month in self._months_from(index):
            begins = datetime(year, month, 1).toordinal() - 1  # noqa: DTZ001
            days += _ordinals(begins, self._days_of(year, month))
            if month % size == 0:
                yield days
                days = []

    def _weeks(self, wall: datetime) -> Iterator[list[int]]:
        step = _WEEK * self.clock.interval
        week = wall.toordinal() - (wall.toordinal() - self._first_day(_WEEK)) % step
        for _ in range(_MONTHS):
            days = [datetime.fromordinal(day) for day in range(week, week + _WEEK)]
            if days[-1].year > LAST_YEAR:
                return
            yield [d.toordinal() for d in days if self.days.of(d.year, d.month) >> d.day & 1]
            week += step


# Many rules share their times of day, and all days but those of an odd interval are alike.
@lru_cache(maxsize=512)
def _on(clock: Clock, residue: int) -> tuple[int, ...]:
    return clock.on(residue)


@lru_cache(maxsize=512)
def _whole(clock: Clock) -> tuple[int, ...]:
    return clock.whole()


def _pick(times: list[int], clock: Clock) -> list[int]:
    return [times[n] for n in _places(len(times), clock.positions)] if clock.positions else times


def _places(size: int, positions: tuple[int, ...]) -> list[int]:
    found = {n - 1 if n > 0 else size + n for n in positions}
    return sorted(place for place in found if 0 <= place < size)


def _second(hour: int, minute: int, second: int) -> int:
    return (hour * _MINUTE + minute) * _MINUTE + second


def _at(ordinal: int, seconds: int) -> datetime:
    return datetime.fromordinal(ordinal) + timedelta(seconds=seconds)


def _ordinals(begins: int, days: int) -> Iterator[int]:
    while days:
        yield begins + (days & -days).bit_length() - 1
        days &= days - 1


def _days_before(year: int, month: int, since: int | None = None) -> int:
    """The days from the beginning of that year, or of `since`, to that month."""
    begins = datetime(since or year, 1, 1)  # noqa: DTZ001
    return (datetime(year, month, 1) - begins).days  # noqa: DTZ001
