"""Schedules from Python."""

from celery_dbbeat.api.differing import Diff
from celery_dbbeat.api.explaining import Explanation
from celery_dbbeat.api.orders import DryRun
from celery_dbbeat.api.schedules import Schedules
from celery_dbbeat.rules.backfill import FireTime
from celery_dbbeat.rules.completeness import Gap
from celery_dbbeat.store.audit import Change
from celery_dbbeat.store.backfills import Backfill
from celery_dbbeat.store.completeness import Completeness
from celery_dbbeat.store.history import DeadLetter, EarlierRun, HistoryEntry
from celery_dbbeat.store.managing import ScheduleInfo, Written

__all__ = [
    "Backfill",
    "Change",
    "Completeness",
    "DeadLetter",
    "Diff",
    "DryRun",
    "EarlierRun",
    "Explanation",
    "FireTime",
    "Gap",
    "HistoryEntry",
    "ScheduleInfo",
    "Schedules",
    "Written",
]
