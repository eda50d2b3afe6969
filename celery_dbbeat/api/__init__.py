"""Schedules from Python."""

from celery_dbbeat.api.orders import DryRun
from celery_dbbeat.api.schedules import Schedules
from celery_dbbeat.rules.backfill import FireTime
from celery_dbbeat.store.backfills import Backfill
from celery_dbbeat.store.history import DeadLetter, EarlierRun, HistoryEntry
from celery_dbbeat.store.managing import ScheduleInfo, Written

__all__ = [
    "Backfill",
    "DeadLetter",
    "DryRun",
    "EarlierRun",
    "FireTime",
    "HistoryEntry",
    "ScheduleInfo",
    "Schedules",
    "Written",
]
