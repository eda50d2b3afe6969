"""The calendar of fields, and Celery's crontab, which is nothing but such fields.

Celery and cron read some of the same strings differently, so Celery's text is expanded by its own
parser and only the sets it expands to are used. A day matches when day, weekday and month all do.
"""

from __future__ import annotations

import json
from calendar import monthrange
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache, lru_cache
from itertools import product
from typing import TypeVar

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import Trigger
from celery_dbbeat.rules.zone import LAST_YEAR, UTC, WallClock

# The Gregorian calendar, weekdays with it, repeats after this many years.
_CYCLE = 400
_SUNDAY, _SATURDAY = 0, 6

# Each field, how many values it has and the lowest: what crontab_parser wants to know.
_FIELDS = {
    "minute": (60, 0),
    "hour": (24, 0),
    "day_of_week": (7, 0),
    "day_of_month": (31, 1),
    "month_of_year": (12, 1),
}
_Any = TypeVar("_Any", bound=Trigger)

_LONGEST = 500
_EXAMPLE = '{"minute": "*/5", "hour": 9, "day_of_week": "mon-fri"}'


@lru_cache(maxsize=4096)
def next_of(values: frozenset[int], size: int) -> tuple[int, ...]:
    """Return, for each number up to `size`, the first value from it on, or -1."""
    return tuple(min((v for v in values if v >= n), default=-1) for n in range(size + 1))


# The hours of what runs through the whole day, whichever way it is written.
EVERY_HOUR = next_of(frozenset(range(24)), 24)


def mask(values: Iterable[int]) -> int:
    """Return the set of those numbers as bits."""
    return sum(1 << value for value in values)


@dataclass(frozen=True, slots=True)
class Days:
    """Which days of a month match. Sets of days are bit masks: bit 1 is the 1st, bit 31 the 31st.

    `nearest`: days whose nearest working day matches. `nth`: (weekday, n), n = 0 for the last.
    """

    days: int
    last_day: bool
    nearest: tuple[int, ...]
    weekdays: int
    nth: tuple[tuple[int, int], ...]
    either: bool

    def of(self, year: int, month: int) -> int:
        """Return the days of that month."""
        first, length = month_shape(year, month)
        days = self.days
        if self.last_day:
            days |= 1 << length
        for day in self.nearest:
            days |= 1 << _nearest_working_day(min(day, length), first, length)
        by_weekday = days_on(self.weekdays, first)
        for weekday, n in self.nth:
            found = [d for d in range(1, length + 1) if (first + d - 1) % 7 == weekday]
            by_weekday |= mask(found[n - 1 : n or None])
        matching = days | by_weekday if self.either else days & by_weekday
        return matching & ((1 << (length + 1)) - 1)


@dataclass(frozen=True, slots=True)
class Calendar:
    """Local times by field. `hours[h]` is the first matching hour from h on, or -1."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: tuple[int, ...]
    years: tuple[int, ...]
    days: Days

    def first_after(self, wall: datetime) -> datetime | None:
        """Return the first matching local time strictly after that wall time."""
        year, month, day = wall.year, wall.month, wall.day
        days = self._days_of(year, month)
        if days >> day & 1:
            time = self._time_after(wall.hour, wall.minute, wall.second)
            if time is not None:
                return datetime(year, month, day, *time)  # noqa: DTZ001
        later = days >> (day + 1) << (day + 1)
        if not later:
            found = self._month_after(year, month)
            if found is None:
                return None
            year, month, later = found
        day = (later & -later).bit_length() - 1
        time = self.hours[0], self.minutes[0], self.seconds[0]
        return datetime(year, month, day, *time)  # noqa: DTZ001

    def _time_after(self, hour: int, minute: int, second: int) -> tuple[int, int, int] | None:
        if self.hours[hour] == hour:
            if self.minutes[minute] == minute and (found := self.seconds[second + 1]) >= 0:
                return hour, minute, found
            if (found := self.minutes[minute + 1]) >= 0:
                return hour, found, self.seconds[0]
        if (found := self.hours[hour + 1]) >= 0:
            return found, self.minutes[0], self.seconds[0]
        return None

    def _days_of(self, year: int, month: int) -> int:
        if month not in self.months or (self.years and year not in self.years):
            return 0
        return self.days.of(year, month)

    def _month_after(self, year: int, month: int) -> tuple[int, int, int] | None:
        if not self.years or year in self.years:
            for number in self.months:
                if number > month and (days := self.days.of(year, number)):
                    return year, number, days
        years = range(year + 1, min(year + _CYCLE, LAST_YEAR) + 1)
        for later, number in product(self.years or years, self.months):
            if later > year and (days := self.days.of(later, number)):
                return later, number, days
        return None


def refuse_if_never(trigger: _Any, shown: str) -> _Any:
    """Return the trigger, unless it has no fire time at all."""
    if trigger.next(datetime(1969, 12, 30, tzinfo=UTC)) is None:
        raise TriggerError(f"{shown} never fires: no date or time matches all of its fields")
    return trigger


def parse_crontab(expression: str, zone_name: str, zone: tzinfo) -> WallClock:
    """Read a JSON object of Celery's five fields; those left out are `*`."""
    shown = f"crontab {expression if len(expression) <= _LONGEST else expression[:60] + '...'}"
    specs = {**dict.fromkeys(_FIELDS, "*"), **_read(expression, shown)}
    sets = {name: _expand(name, spec, shown) for name, spec in specs.items()}
    calendar = Calendar(
        seconds=next_of(frozenset({0}), 60),
        minutes=next_of(sets["minute"], 60),
        hours=next_of(sets["hour"], 24),
        months=tuple(sorted(sets["month_of_year"])),
        years=(),
        days=Days(
            days=mask(sets["day_of_month"]),
            last_day=False,
            nearest=(),
            weekdays=mask(sets["day_of_week"]),
            nth=(),
            either=False,
        ),
    )
    through = str(specs["hour"]).startswith("*") or calendar.hours == EVERY_HOUR
    trigger = WallClock(_canonical(specs), zone_name, calendar, zone, runs_through=through)
    return refuse_if_never(trigger, shown)


def _canonical(specs: dict[str, object]) -> str:
    texts = {name: "".join(str(spec).lower().split()) for name, spec in specs.items()}
    return json.dumps({name: texts[name] for name in _FIELDS if texts[name] != "*"})


def _read(expression: str, shown: str) -> dict[str, object]:
    if len(expression) > _LONGEST or not expression.isascii():
        raise TriggerError(f"{shown}: at most {_LONGEST} characters of ASCII are allowed")
    try:
        fields = json.loads(expression)
    except (ValueError, RecursionError):
        raise TriggerError(f"{shown} is not JSON: it has to look like {_EXAMPLE}") from None
    if not isinstance(fields, dict):
        raise TriggerError(f"{shown} is not a JSON object: it has to look like {_EXAMPLE}")
    for name in fields:
        if name not in _FIELDS:
            raise TriggerError(f"{shown}: no field {name!r}, allowed are {', '.join(_FIELDS)}")
    return fields


def _expand(name: str, spec: object, shown: str) -> frozenset[int]:
    # Celery is slow to import, and only this kind needs it.
    from celery.schedules import ParseException, crontab_parser  # noqa: PLC0415

    size, low = _FIELDS[name]
    if not isinstance(spec, (str, int)) or isinstance(spec, bool) or not str(spec).isascii():
        raise TriggerError(f"{shown}: {name} {spec!r} has to be text or a whole number")
    try:
        return frozenset(crontab_parser(size, low).parse(str(spec)))
    except (ParseException, ValueError) as error:
        raise TriggerError(
            f"{shown}: {name} {spec!r} is not understood ({error}); "
            f"allowed are {low}-{low + size - 1}, a-b, *, */n, a-b/n, names and lists"
        ) from None


@lru_cache(maxsize=4096)
def month_shape(year: int, month: int) -> tuple[int, int]:
    """Return the weekday of the 1st (Sunday is 0) and the number of days."""
    monday_is_0, length = monthrange(year, month)
    return (monday_is_0 + 1) % 7, length


@cache
def days_on(weekdays: int, first: int) -> int:
    """Return the days of a month on those weekdays; `first` is the weekday of the 1st."""
    return sum(1 << day for day in range(1, 32) if weekdays >> ((first + day - 1) % 7) & 1)


def _nearest_working_day(day: int, first: int, length: int) -> int:
    weekday = (first + day - 1) % 7
    if weekday == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day
