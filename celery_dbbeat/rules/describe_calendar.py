"""A calendar of fields in words: those of cron and of Celery's crontab."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from celery_dbbeat.rules import words
from celery_dbbeat.rules.crontab import Calendar, Days

#: More times of a day than these are told by their fields.
FEW = 6
_ALL_DAYS = (1 << 32) - 2
_ALL_WEEKDAYS = (1 << 7) - 1
_HOURS, _MINUTES, _MONTHS = 24, 60, 12


def calendar_in_words(calendar: Calendar) -> str:
    """Say at which times, on which days, in which months and years."""
    days = days_in_words(calendar.days)
    parts = [_times(calendar)]
    if days:
        parts.append(days)
    if len(calendar.months) < _MONTHS:
        parts.append(f"in {words.months(calendar.months)}")
    if calendar.years:
        parts.append(f"in {words.spans(words.runs(calendar.years), str)}")
    if len(parts) == 1 and parts[0].startswith("At ") and ":" in parts[0]:
        return f"{parts[0]} every day"
    return ", ".join(parts)


def _times(calendar: Calendar) -> str:
    hours, minutes, seconds = (
        _values(table) for table in (calendar.hours, calendar.minutes, calendar.seconds)
    )
    if len(hours) * len(minutes) * len(seconds) <= FEW:
        return f"At {times_in_words(hours, minutes, seconds)}"
    if seconds == (0,):
        return _by_minute(hours, minutes)
    step = words.step_of(seconds, _MINUTES)
    text = f"At {_named('second', seconds)}"
    if step and seconds[0] == 0:
        text = f"Every {words.counted(step, 'second')}"
    if len(minutes) == _MINUTES and len(hours) == _HOURS:
        return text if step and seconds[0] == 0 else f"{text} of every minute"
    of_minutes = "every minute" if len(minutes) == _MINUTES else _named("minute", minutes)
    return f"{text} of {of_minutes} of {_of_hours(hours)}"


def _by_minute(hours: Sequence[int], minutes: Sequence[int]) -> str:
    step = words.step_of(minutes, _MINUTES)
    whole_day = len(hours) == _HOURS
    every = None
    if step and len(minutes) > 1:
        every = f"Every {words.counted(step, 'minute')}"
    elif len(minutes) == 1 and (hour_step := words.step_of(hours, _HOURS)):
        if whole_day and minutes[0]:
            return f"At {words.counted(minutes[0], 'minute')} past every hour".replace(
                "At minute", "At 1 minute"
            )
        from_midnight = hours[0] == minutes[0] == 0
        begins = "" if from_midnight else f" from {words.clock(hours[0], minutes[0])}"
        return f"Every {words.counted(hour_step, 'hour')}{begins}"
    elif len(minutes) == 1:
        every = "Every hour"
    if every and whole_day:
        begins = f", from {words.counted(minutes[0], 'minute')} past" if minutes[0] else ""
        return every + begins.replace("from minute", "from 1 minute")
    if every and len(hours) == hours[-1] - hours[0] + 1:
        last = words.clock(hours[-1], minutes[-1])
        return f"{every} from {words.clock(hours[0], minutes[0])} to {last}"
    return f"At {_named('minute', minutes)} of {_of_hours(hours)}"


def times_in_words(hours: Sequence[int], minutes: Sequence[int], seconds: Sequence[int]) -> str:
    """Return such as `09:00 and 17:00`."""
    return words.listed(words.clock(*time) for time in product(hours, minutes, seconds))


def _of_hours(hours: Sequence[int]) -> str:
    return "every hour" if len(hours) == _HOURS else _named("hour", hours)


def _named(unit: str, values: Sequence[int]) -> str:
    number = unit if len(values) == 1 else f"{unit}s"
    return f"{number} {words.spans(words.runs(values), str)}"


def days_in_words(days: Days) -> str:
    """Say on which days; nothing for each."""
    each_day = days.days == _ALL_DAYS
    each_weekday = days.weekdays == _ALL_WEEKDAYS
    if (each_day and each_weekday) or (days.either and (each_day or each_weekday)):
        return ""
    if each_weekday:
        return _by_month_day(days)
    if each_day:
        return _by_weekday(days)
    if days.either:
        return f"{_by_month_day(days)} or {_by_weekday(days, 'on ')}"
    return f"{_by_month_day(days)} if that is {_by_weekday(days)}"


def _by_month_day(days: Days) -> str:
    parts = []
    if days.days:
        numbers = [day for day in range(1, 32) if days.days >> day & 1]
        parts.append(f"the {words.spans(words.runs(numbers), words.nth)}")
    if days.last_day:
        parts.append("the last day")
    parts += [f"the working day nearest the {words.nth(day)}" for day in days.nearest]
    return f"on {words.listed(parts)} of the month"


def _by_weekday(days: Days, preposition: str = "") -> str:
    parts = []
    if days.weekdays:
        parts.append(words.weekdays([day for day in range(7) if days.weekdays >> day & 1]))
    if not days.nth:
        return preposition + parts[0]
    parts += [f"the {words.ordinal(n)} {words.WEEKDAYS[weekday]}" for weekday, n in days.nth]
    return f"{preposition or 'on '}{words.listed(parts)} of the month"


def _values(table: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted({value for value in table if value >= 0}))
