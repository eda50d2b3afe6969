"""Intervals of Celery's that are `relative`: rounded to the resolution of the interval."""

from datetime import datetime, timedelta

from celery.utils.time import remaining

from celery_dbbeat.contrib.importers.entry import UTC


def first_rounded(last: datetime, every: timedelta) -> datetime:
    """When Celery would send next; from then on in even steps."""
    until: timedelta = remaining(last, every, last, relative=True)
    return last.astimezone(UTC) + until
