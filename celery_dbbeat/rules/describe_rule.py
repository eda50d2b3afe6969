"""A recurrence rule in words."""

from __future__ import annotations

from celery_dbbeat.rules import words
from celery_dbbeat.rules.describe_calendar import FEW, times_in_words
from celery_dbbeat.rules.recurrence import DAILY, HOURLY, MINUTELY, DayFilter, Recurrence
from celery_dbbeat.rules.rrule import Rule

_UNITS = ("year", "month", "week", "day", "hour", "minute")
_HOURS, _MINUTES = 24, 60


def rule_in_words(rule: Rule) -> str:
    """Say what a rule means, or what it is where that would be long."""
    times = rule.wall.times
    if not isinstance(times, Recurrence) or not _has_words(times):
        return f"By the rule {' '.join(rule.canonical.split())!r}"
    clock = times.clock
    parts = [f"Every {words.counted(clock.interval, _UNITS[clock.frequency])}"]
    parts += _days(times.days)
    if times.days.months:
        preposition = "of" if times.days.month_days and not times.days.nth else "in"
        parts.append(f"{preposition} {words.months(times.days.months)}")
    parts += _times(times)
    text = " ".join(parts)
    if clock.interval > 1:
        at = words.clock(times.start.hour, times.start.minute)
        begins = f"{words.day(times.start)}{f' at {at}' if clock.frequency > DAILY else ''}"
        text += f", counted from {begins}"
    if times.last is not None:
        text += f", until {words.day(times.last)} at {times.last.time().isoformat('minutes')}"
    if rule.until is not None:
        text += f", until {words.day(rule.until)} at {rule.until.time().isoformat('minutes')} UTC"
    return text


def _has_words(times: Recurrence) -> bool:
    clock, days = times.clock, times.days
    size = len(clock.hours) * len(clock.minutes) * len(clock.seconds)
    many = clock.frequency <= DAILY and size > FEW
    return not (many or clock.positions or days.weeks or days.year_days)


def _days(days: DayFilter) -> list[str]:
    parts = []
    if days.month_days:
        ahead = [day for day in days.month_days if day > 0]
        back = [f"{words.ordinal(day)} day" for day in days.month_days if day < 0]
        shown = [words.spans(words.runs(ahead), words.nth)] if ahead else []
        parts.append(f"on the {words.listed([*shown, *back])}")
    if days.nth:
        plain = [weekday for weekday, n in days.nth if n == 0]
        shown = [words.weekdays(plain)] if plain else []
        of = " of the year" if days.nth_of_year else " of the month"
        nth = [f"the {words.ordinal(n)} {words.WEEKDAYS[day]}{of}" for day, n in days.nth if n]
        parts.append(f"{'if that is' if parts else 'on'} {words.listed([*shown, *nth])}")
    return parts


def _times(times: Recurrence) -> list[str]:
    clock = times.clock
    if clock.frequency < HOURLY:
        return [f"at {times_in_words(clock.hours, clock.minutes, clock.seconds)}"]
    parts = []
    if clock.seconds != (0,):
        parts.append(f"at second {words.listed(map(str, clock.seconds))}")
    if clock.frequency == HOURLY and clock.minutes != (0,):
        parts.append(f"at minute {words.spans(words.runs(clock.minutes), str)}")
    if clock.frequency == MINUTELY and len(clock.minutes) < _MINUTES:
        parts.append(f"in the minutes {words.spans(words.runs(clock.minutes), str)}")
    if len(clock.hours) < _HOURS:
        parts.append(f"in the hours {words.spans(words.runs(clock.hours), str)}")
    return parts
