"""Entries by source, as the command asks for them."""

from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

from celery import Celery

from celery_dbbeat.beat.static import app_zone
from celery_dbbeat.contrib.importers import (
    beat_schedule,
    django_celery_beat,
    redbeat,
    sqlalchemy_celery_beat,
)
from celery_dbbeat.contrib.importers.beat_schedule import Code, code_of
from celery_dbbeat.contrib.importers.entry import Entry, Refused
from celery_dbbeat.contrib.importers.periodic_task import PeriodicTask, convert
from celery_dbbeat.rules.zone import find_zone

_CLEANUP = "celery.backend_cleanup"

Found = list[Entry | Refused]


def of_django_celery_beat(
    app: Celery, today: date, url: str | None, schema: str | None, zone: str
) -> Found:
    """Those of django-celery-beat: from a URL, or through Django."""
    if url is None:
        tasks = django_celery_beat.from_django(app_zone(app))
    else:
        tasks = django_celery_beat.from_url(url, schema, find_zone(zone))
    return _of_tasks(app, today, tasks)


def of_sqlalchemy_celery_beat(
    app: Celery, today: date, url: str | None, schema: str | None
) -> Found:
    """Those of sqlalchemy-celery-beat: from a URL, or from where the app says that they are."""
    url = url or app.conf.get("beat_dburi") or sqlalchemy_celery_beat.DEFAULT_URL
    schema = schema or app.conf.get("beat_schema")
    return _of_tasks(app, today, sqlalchemy_celery_beat.from_url(url, schema))


def of_redbeat(app: Celery, today: date, url: str | None, prefix: str | None) -> Found:
    """Those of RedBeat: from a URL, or from where the app says that they are."""
    code, zone = code_of(app, today), app_zone(app)
    converted = [redbeat.convert(one, zone, today) for one in redbeat.from_redis(app, url, prefix)]
    return [
        _from_code(code, one, one.schedule.source_id, one.schedule.name, one.go_on_from)
        if isinstance(one, Entry)
        else one
        for one in converted
    ]


def of_beat_schedule(app: Celery, today: date, path: Path, *, people: bool) -> Found:
    """The app's own entries, with the last runs of Celery's own beat."""
    code = code_of(app, today)
    owner = "people" if people else "code"
    runs: dict[str, datetime] = beat_schedule.last_runs(app, path)
    return [
        code.convert(name, runs.get(name), source_id=name, owner=owner) for name in code.entries
    ]


def _of_tasks(app: Celery, today: date, tasks: list[PeriodicTask]) -> Found:
    code = code_of(app, today)
    return [
        _from_code(code, convert(task, today), str(task.id), task.name, task.last_run_at)
        for task in tasks
    ]


def _from_code(
    code: Code, converted: Entry | Refused, source_id: str, name: str, last_run_at: datetime | None
) -> Entry | Refused:
    """A copy of what the code says is what the code says; what was disabled there stays so."""
    if name == _CLEANUP and name not in code:
        return Refused(
            source_id, name, "the result backend expires results by itself", needless=True
        )
    if name not in code:
        return converted
    said = code.convert(name, last_run_at, source_id=source_id)
    if isinstance(said, Entry) and isinstance(converted, Entry):
        theirs = converted.schedule
        return replace(said, schedule=replace(said.schedule, state=theirs.state, note=theirs.note))
    return said
