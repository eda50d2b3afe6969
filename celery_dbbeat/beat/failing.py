"""Pause the schedules of which too many ticks failed in a row."""

import logging
from collections.abc import Collection
from uuid import UUID

from celery_dbbeat.rules.failures import why_pause
from celery_dbbeat.store import orders
from celery_dbbeat.store.database import Database

logger = logging.getLogger(__name__)


def pause_failing(database: Database, schedule_ids: Collection[UUID], replica: str) -> None:
    """Look at schedules that have a `pause_after` and of which a tick has just failed."""
    if not schedule_ids:
        return
    for one in orders.failing(database, sorted(schedule_ids)):
        note = why_pause(one.newest, one.pause_after)
        if note is not None and orders.pause_failing(database, one, note, replica):
            logger.error("schedule %s is paused: %s", one.name, note)
