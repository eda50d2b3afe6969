"""The next fire times of a schedule, as it would have them if nothing changes."""

from datetime import datetime
from itertools import islice

from celery_dbbeat.rules.firetimes import fire_times
from celery_dbbeat.rules.schedule import Schedule


def upcoming(schedule: Schedule, after: datetime, count: int) -> list[datetime]:
    """Up to so many fire times after that instant; raises TriggerError where there can be none."""
    return list(islice(fire_times(schedule, after), count))
