"""The next fire times of a schedule, as it would have them if nothing changes."""

from datetime import datetime, timedelta

from celery_dbbeat.rules.schedule import Schedule

_INSTANT = timedelta(microseconds=1)


def upcoming(schedule: Schedule, after: datetime, count: int) -> list[datetime]:
    """Up to so many fire times after that instant; raises TriggerError where there can be none."""
    if schedule.start_at is not None:
        after = max(after, schedule.start_at - _INSTANT)
    trigger = schedule.trigger
    found: list[datetime] = []
    for _ in range(count):
        following = trigger.next(after)
        if following is None or (schedule.end_at is not None and following > schedule.end_at):
            break
        found.append(following)
        after = following
    return found
