"""Schedules from Python."""

from celery_dbbeat.api.schedules import Schedules
from celery_dbbeat.store.history import DeadLetter, EarlierRun, HistoryEntry

__all__ = ["DeadLetter", "EarlierRun", "HistoryEntry", "Schedules"]
