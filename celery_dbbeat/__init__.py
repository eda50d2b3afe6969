"""Celery beat with schedules in Postgres: any number of replicas, every fire time sent once."""

from typing import TYPE_CHECKING, Any

from celery_dbbeat.release import __version__ as __version__

if TYPE_CHECKING:
    from celery_dbbeat.api import Schedules
    from celery_dbbeat.beat.scheduler import DatabaseScheduler
    from celery_dbbeat.configure import setup
    from celery_dbbeat.worker.current import current_tick
    from celery_dbbeat.worker.once import once

__all__ = ["DatabaseScheduler", "Schedules", "current_tick", "once", "setup"]

_HOMES = {
    "DatabaseScheduler": "celery_dbbeat.beat.scheduler",
    "Schedules": "celery_dbbeat.api",
    "current_tick": "celery_dbbeat.worker.current",
    "once": "celery_dbbeat.worker.once",
    "setup": "celery_dbbeat.configure",
}


def __getattr__(name: str) -> Any:
    # Imported when asked for: every `celery` command imports this package for its command line.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
