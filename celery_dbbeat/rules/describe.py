"""A schedule's *when* in words: `At 09:00, Monday to Friday, New York`.

Told is what was parsed and not what was written, so the words cannot say something else than what
fires; an H is told as the number it stands for. What has no good words is told as it is written.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from celery_dbbeat.rules import words
from celery_dbbeat.rules.crontab import Calendar
from celery_dbbeat.rules.describe_calendar import calendar_in_words
from celery_dbbeat.rules.describe_rule import rule_in_words
from celery_dbbeat.rules.exclude import Excluding
from celery_dbbeat.rules.exclusions import Exclusions
from celery_dbbeat.rules.interval import Interval, MonthInterval, MonthTimes
from celery_dbbeat.rules.once import Once
from celery_dbbeat.rules.rrule import Rule
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.solar import Solar
from celery_dbbeat.rules.trigger import Trigger
from celery_dbbeat.rules.zone import WallClock, find_zone

_UNITS = {
    "week": timedelta(weeks=1),
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
}
_LAST_OF_EACH_MONTH = 28
_FEW = 3


def describe(schedule: Schedule) -> str:
    """Say in words when a schedule fires; raises TriggerError where that cannot be understood."""
    trigger = schedule.trigger
    if isinstance(trigger, Excluding):
        parts = [_trigger(trigger.trigger, schedule), *_bounds(schedule)]
        return ", ".join([*parts, f"except {_excluded(trigger.exclusions)}"])
    return ", ".join([_trigger(trigger, schedule), *_bounds(schedule)])


def _trigger(trigger: Trigger, schedule: Schedule) -> str:
    if isinstance(trigger, WallClock) and isinstance(trigger.times, Calendar):
        return f"{calendar_in_words(trigger.times)}, {_place(trigger.timezone)}"
    if isinstance(trigger, Rule):
        rest = f", except {_excluded(trigger.excluded)}" if trigger.excluded else ""
        return f"{rule_in_words(trigger)}, {_place(trigger.wall.timezone)}{rest}"
    if isinstance(trigger, MonthInterval) and isinstance(trigger.wall.times, MonthTimes):
        return f"{_months(trigger.wall.times)}, {_place(trigger.wall.timezone)}"
    if isinstance(trigger, Once):
        return f"Once, on {_time(trigger.at, schedule)}, {_place(schedule.timezone)}"
    return _unlike_clocks(trigger, schedule)


def _unlike_clocks(trigger: Trigger, schedule: Schedule) -> str:
    if isinstance(trigger, Interval):
        return _interval(trigger)
    if isinstance(trigger, Solar):
        event = " ".join(reversed(trigger.event.split("_")))
        event = "solar noon" if trigger.event == "solar_noon" else event
        return (
            f"At {event} at {_degrees(trigger.latitude, 'NS')} {_degrees(trigger.longitude, 'EW')}"
        )
    return f"By the {schedule.kind} {trigger.canonical!r}, {_place(schedule.timezone)}"


def _interval(trigger: Interval) -> str:
    for unit, size in _UNITS.items():
        if trigger.every % size == timedelta(0):
            text = f"Every {words.counted(trigger.every // size, unit)}"
            break
    else:
        text = f"Every {trigger.canonical} seconds"
    if trigger.start_at is None:
        return text
    return f"{text}, counted from {trigger.start_at.replace(tzinfo=None).isoformat(' ')} UTC"


def _months(times: MonthTimes) -> str:
    anchor = times.anchor
    years, months = divmod(times.months, 12)
    text = (
        f"Every {words.counted(times.months, 'month') if months else words.counted(years, 'year')}"
    )
    text += f" on the {words.nth(anchor.day)}"
    if anchor.day > _LAST_OF_EACH_MONTH:
        text += " (or the last day of a shorter month)"
    text += f" at {anchor.time().isoformat('auto' if anchor.second else 'minutes')}"
    if times.months > 1:
        text += f", counted from {words.MONTHS[anchor.month - 1]} {anchor.year}"
    return text


def _bounds(schedule: Schedule) -> list[str]:
    found = []
    if schedule.start_at is not None:
        found.append(f"from {_time(schedule.start_at, schedule)}")
    if schedule.end_at is not None:
        found.append(f"until {_time(schedule.end_at, schedule)}")
    if schedule.max_runs is not None:
        found.append("once" if schedule.max_runs == 1 else f"at most {schedule.max_runs} times")
    return found


def _time(instant: datetime, schedule: Schedule) -> str:
    local = instant.astimezone(find_zone(schedule.timezone))
    return f"{words.day(local)} at {words.clock(local.hour, local.minute, local.second)}"


def _excluded(exclusions: Exclusions) -> str:
    found = []
    if exclusions.days:
        days = sorted(exclusions.days)
        few = len(days) <= _FEW
        found.append(words.listed(map(words.day, days)) if few else f"on {len(days)} days")
    if exclusions.instants:
        count = len(exclusions.instants)
        found.append(f"{count} time{'s' if count > 1 else ''}")
    for rules in (exclusions.day_rules, exclusions.rules):
        found += [f"by the rule {rule.canonical!r}" for rule in rules]
    return words.listed(found)


def _place(zone_name: str) -> str:
    return zone_name.rsplit("/", 1)[-1].replace("_", " ")


def _degrees(value: float, sides: str) -> str:
    return f"{abs(value):.12g}°{sides[value < 0]}"
