"""Celery beat with schedules in Postgres: any number of replicas, every fire time sent once."""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from celery_dbbeat.beat.scheduler import DatabaseScheduler
    from celery_dbbeat.configure import setup

__all__ = ["DatabaseScheduler", "setup"]

_HOMES = {
    "DatabaseScheduler": "celery_dbbeat.beat.scheduler",
    "setup": "celery_dbbeat.configure",
}


def __getattr__(name: str) -> Any:
    # Imported when asked for: every `celery` command imports this package for its command line.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
