"""The fire times of a schedule: its trigger's, from `start_at` up to and with `end_at`."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice

from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.trigger import Trigger
from celery_dbbeat.rules.zone import UTC

INSTANT = timedelta(microseconds=1)

# No trigger fires before; see rules.zone.
_BEGIN = datetime(1900, 1, 1, tzinfo=UTC)


def fire_times(
    schedule: Schedule, since: datetime, until: datetime | None = None
) -> Iterator[datetime]:
    """Fire times strictly after `since`, up to and with `until`."""
    trigger = schedule.trigger
    if schedule.start_at is not None:
        since = max(since, schedule.start_at - INSTANT)
    ends = [end for end in (until, schedule.end_at) if end is not None]
    nominal = trigger.next(since)
    while nominal is not None and all(nominal <= end for end in ends):
        yield nominal
        nominal = trigger.next(nominal)


def upcoming(schedule: Schedule, after: datetime, count: int) -> list[datetime]:
    """Up to so many fire times after that instant; raises TriggerError where there can be none."""
    return list(islice(fire_times(schedule, after), count))


def fires_at(schedule: Schedule, instant: datetime) -> bool:
    """Whether this very instant is a fire time."""
    return next(fire_times(schedule, instant - INSTANT, instant), None) is not None


def last_before(schedule: Schedule, instant: datetime) -> datetime | None:
    """The last fire time strictly before an instant.

    Triggers only look ahead, so the stretch in which it lies is doubled until there is one, and
    halved until it is the last.
    """
    trigger = schedule.trigger
    low = _some_before(trigger, instant)
    if low is None:
        return None
    high = instant
    while (following := trigger.next(low)) is not None and following < instant:
        low = following
        while high - low > INSTANT:
            middle = low + (high - low) / 2
            found = trigger.next(middle)
            if found is not None and found < instant:
                low = found
            else:
                high = middle
    if schedule.start_at is not None and low < schedule.start_at:
        return None
    if schedule.end_at is not None and low > schedule.end_at:
        return last_before(schedule, schedule.end_at + INSTANT)
    return low


def _some_before(trigger: Trigger, instant: datetime) -> datetime | None:
    back = timedelta(seconds=1)
    while True:
        start = instant - back if instant - _BEGIN > back else _BEGIN
        found = trigger.next(start)
        if found is not None and found < instant:
            return found
        if start == _BEGIN:
            return None
        back *= 2
