"""The app's own `beat_schedule` as rows.

What stands in code is kept in step by the replica that holds the first slot: changed there,
changed here; removed there, removed here. A row remembers a digest of what the code said, so that
only a change in code writes, and what people set on such a row (a pause, say) stays until then.
What cannot be stored is said clearly, entry by entry, and does not stop the others.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from celery import Celery
from celery.schedules import maybe_schedule

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.trigger import parse_trigger
from celery_dbbeat.rules.writing import celery_trigger, json_text
from celery_dbbeat.store.schedules import CodeSchedule

logger = logging.getLogger(__name__)


def code_schedules(app: Celery, entries: Mapping[str, Any]) -> dict[str, CodeSchedule]:
    """All entries that can be stored; says which cannot, and why."""
    found = {}
    for name, entry in entries.items():
        try:
            found[name] = _convert(app, name, entry)
        except ScheduleError as error:
            logger.error("beat_schedule entry %r is left out: %s", name, error)  # noqa: TRY400 - no fault of ours
    return found


def _convert(app: Celery, name: str, given: object) -> CodeSchedule:
    entry = _entry(given)
    kind, expression = _trigger(app, entry.get("schedule"), relative=entry.get("relative", False))
    zone = _zone(app)
    parse_trigger(kind, expression, zone)
    values = {
        "task": entry["task"],
        "kind": kind,
        "expression": expression,
        "timezone": zone,
        "args": json_text("args", _of("args", entry, list, (list, tuple))),
        "kwargs": json_text("kwargs", _of("kwargs", entry, dict, (Mapping,))),
        "options": json_text("options", _of("options", entry, dict, (Mapping,))),
    }
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
    return CodeSchedule(name=name, digest=digest, **values)


def _entry(given: object) -> Mapping[str, Any]:
    """An entry as a dictionary; Celery takes its own entry objects as well."""
    entry = given if isinstance(given, Mapping) else getattr(given, "__dict__", {})
    if not isinstance(entry.get("task"), str):
        raise ScheduleError(f"it is {given!r}; allowed is a dictionary with task and schedule")
    return entry


def _of(
    name: str, entry: Mapping[str, Any], make: Callable[..., Any], allowed: tuple[type, ...]
) -> Any:
    value = entry.get(name)
    if value is None:
        return make()
    if not isinstance(value, allowed):
        names = " or ".join(kind.__name__.lower() for kind in allowed)
        raise ScheduleError(f"{name} is {value!r}; allowed is a {names}")
    return make(value)


def _zone(app: Celery) -> str:
    zone = getattr(app.timezone, "key", None) or str(app.timezone)
    return "UTC" if zone == "UTC+00:00" else zone


def _trigger(app: Celery, given: Any, *, relative: bool) -> tuple[str, str]:
    plain = isinstance(given, int | float | timedelta)
    return celery_trigger(maybe_schedule(given, relative, app=app) if plain else given)
