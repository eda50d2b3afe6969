"""Schedules from Python."""

from celery_dbbeat.api.schedules import Schedules
from celery_dbbeat.store.history import DeadLetter, EarlierRun, HistoryEntry
from celery_dbbeat.store.managing import ScheduleInfo, Written

__all__ = [
    "DeadLetter",
    "EarlierRun",
    "HistoryEntry",
    "ScheduleInfo",
    "Schedules",
    "Written",
]
