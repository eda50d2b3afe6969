"""The next fire times of a schedule, as beat will plan them; nothing is sent or stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.firetimes import upcoming
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.trigger import DstCase
from celery_dbbeat.rules.zone import UTC, find_zone

_MOST = 1_000


@dataclass(frozen=True, slots=True)
class FireTime:
    """One fire time: in UTC, what clocks show in the schedule's zone, and what they did there.

    `dst` is `gap` where it stands for a time that clocks skipped, `fold` where they show its time
    twice that day, and else `none`.
    """

    nominal_at: datetime
    local: datetime
    dst: DstCase


def preview(schedule: Schedule, n: int, after: datetime, runs: int = 0) -> tuple[FireTime, ...]:
    """Return the next `n` fire times after the instant, or as many as there are.

    `runs` is how often it has run already, which counts towards `max_runs`. A *when* that cannot be
    used raises TriggerError, as does one of which nothing is left by its exclusions: asking for one
    fire time is the check to do before a schedule is stored.
    """
    if not 1 <= n <= _MOST:
        raise ScheduleError(f"n is {n}; allowed are 1 to {_MOST}")
    if after.utcoffset() is None:
        raise ScheduleError(f"after is {after!r}; allowed is a datetime with a time zone")
    if schedule.max_runs is not None:
        n = max(0, min(n, schedule.max_runs - runs))
    trigger, zone = schedule.trigger, find_zone(schedule.timezone)
    return tuple(
        FireTime(at, at.astimezone(zone), trigger.dst_case(at))
        for at in upcoming(schedule, after.astimezone(UTC), n)
    )


def dst_case(schedule: Schedule, nominal_at: datetime) -> DstCase:
    """Say what the clocks did at a fire time of the schedule."""
    return schedule.trigger.dst_case(nominal_at)
