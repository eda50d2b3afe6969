"""Recurrence rules as RFC 5545 writes them: `RRULE`, and with it maybe `DTSTART` and `EXDATE`.

    DTSTART;TZID=Europe/Berlin:20260105T090000
    RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE
    EXDATE;TZID=Europe/Berlin:20260119T090000

Where DTSTART has no zone, it is a local time of the schedule's; without DTSTART the rule begins at
the schedule's `start_at`, or else at midnight of 1970-01-01. DTSTART itself fires only if the rule
says so. Local times become instants as those of cron do.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.crontab import refuse_if_never
from celery_dbbeat.rules.exclusions import Exclusions, first_not_excluded
from celery_dbbeat.rules.recurrence import (
    HOURLY,
    MINUTELY,
    MONTHLY,
    WEEKLY,
    YEARLY,
    Clock,
    DayFilter,
    Recurrence,
)
from celery_dbbeat.rules.rrule_text import Time, Written, read_rule
from celery_dbbeat.rules.trigger import DstCase, Trigger
from celery_dbbeat.rules.zone import WallClock, instants_of, to_instant, wall_time

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a local time
_SECOND = timedelta(seconds=1)
_SHOWN = 200
_MOST_TIMES = 1440
_HOURS, _MINUTES = tuple(range(24)), tuple(range(60))


@dataclass(frozen=True, slots=True)
class Rule(Trigger):
    """A recurrence rule; `until` is the last instant, where it was written as one."""

    wall: WallClock
    until: datetime | None
    excluded: Exclusions

    @property
    def canonical(self) -> str:
        """The properties that are there, with their parts in one order."""
        return self.wall.expression

    def next(self, after: datetime) -> datetime | None:
        """Return the first fire time strictly after the instant."""
        found = first_not_excluded(self.wall, self.excluded, after)
        return None if found is None or (self.until and found > self.until) else found

    def dst_case(self, instant: datetime) -> DstCase:
        """Say what the clocks did at a fire time."""
        return self.wall.dst_case(instant)


def parse_rrule(
    expression: str, zone_name: str, zone: tzinfo, start_at: datetime | None = None
) -> Rule:
    """Read the text of a rule."""
    shown = repr(expression if len(expression) <= _SHOWN else expression[:60] + "...")
    try:
        rule = _rule(read_rule(expression), zone_name, zone, start_at)
    except TriggerError as error:
        raise TriggerError(f"rrule {shown}: {error}") from None
    except OverflowError:
        raise TriggerError(f"rrule {shown}: has a time outside of the calendar") from None
    return refuse_if_never(rule, f"rrule {shown}")


def _rule(written: Written, zone_name: str, zone: tzinfo, start_at: datetime | None) -> Rule:
    start = _EPOCH
    if written.start is not None:
        start = written.start.local
        if written.start.zone is not None:
            zone, zone_name = written.start.zone, written.start.zone_name
    elif start_at is not None:
        start = wall_time(start_at, zone)
        if start.microsecond:
            start = start.replace(microsecond=0) + _SECOND
    times = _recurrence(written, start)
    until = None
    if written.until is not None:
        if written.until.zone is None:
            times = _ending(times, written.until.local)
        else:
            until = to_instant(written.until.local, written.until.zone)
    if written.count is not None:
        if written.start is None and start_at is None:
            raise TriggerError("has a COUNT and no beginning: it needs DTSTART, or start_at")
        times = _ending(times, _last_of(times, written.count))
    clock = times.clock
    through = clock.frequency >= HOURLY and clock.hours == _HOURS
    wall = WallClock(written.canonical, zone_name, times, zone, runs_through=through)
    return Rule(wall, until, _excluded(written.excluded, zone))


def _recurrence(written: Written, start: datetime) -> Recurrence:
    """What is left out is taken from the start: a yearly rule comes on its day and month."""
    numbers, frequency = written.numbers, written.frequency
    months, month_days = numbers["BYMONTH"], numbers["BYMONTHDAY"]
    nth = written.weekdays
    if not (month_days or numbers["BYYEARDAY"] or numbers["BYWEEKNO"] or nth):
        if frequency == WEEKLY:
            nth = ((start.isoweekday() % 7, 0),)
        elif frequency in {YEARLY, MONTHLY}:
            month_days = (start.day,)
            months = months or ((start.month,) if frequency == YEARLY else ())
    days = DayFilter(
        months,
        month_days,
        numbers["BYYEARDAY"],
        numbers["BYWEEKNO"],
        nth,
        nth_of_year=frequency == YEARLY and not numbers["BYMONTH"],
        week_start=written.week_start,
    )
    return Recurrence(start, days, _clock(written, start))


def _clock(written: Written, start: datetime) -> Clock:
    numbers, frequency = written.numbers, written.frequency
    clock = Clock(
        frequency,
        written.interval,
        numbers["BYHOUR"] or (_HOURS if frequency >= HOURLY else (start.hour,)),
        numbers["BYMINUTE"] or (_MINUTES if frequency == MINUTELY else (start.minute,)),
        numbers["BYSECOND"] or (start.second,),
        numbers["BYSETPOS"],
    )
    size = len(clock.hours) * len(clock.minutes) * len(clock.seconds)
    if size > _MOST_TIMES:
        raise TriggerError(f"names {size} times a day: at most {_MOST_TIMES} are allowed")
    return clock


def _ending(times: Recurrence, last: datetime) -> Recurrence:
    return Recurrence(times.start, times.days, times.clock, last)


def _last_of(times: Recurrence, count: int) -> datetime:
    """The last local time of so many; where there are fewer, the last there is."""
    last = times.start - _SECOND
    for _ in range(count):
        following = times.first_after(last)
        if following is None:
            break
        last = following
    return last


def _excluded(times: tuple[Time, ...], zone: tzinfo) -> Exclusions:
    days: set[date] = set()
    instants: set[datetime] = set()
    for time in times:
        if time.is_day:
            days.add(time.local.date())
        else:
            instants |= instants_of(time.local, time.zone or zone)
    return Exclusions(zone, frozenset(days), frozenset(instants))
