"""A `PeriodicTask` of django-celery-beat or sqlalchemy-celery-beat as a schedule.

Both have the same fields, read in the same way by their schedulers. What their code does with a
field is what counts here, not what its help text says:

- an interval is due so long after the last run, or after the row was last saved if it never ran:
  that instant plus one interval becomes `start_at`, from which ours counts;
- `expires` ends the schedule, and is given to each message as its own expiry, too;
- `one_off` is a limit of one run, and a task that had its run is over even before their beat has
  disabled it;
- a disabled task has no last run: it is disabled by forgetting it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any

from celery_dbbeat.contrib.importers.clock_changes import clock_changes_matter
from celery_dbbeat.contrib.importers.entry import (
    INSTANT,
    UTC,
    Entry,
    Refused,
    check,
    read_json,
)
from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.writing import CRONTAB_FIELDS, json_text, seconds_text
from celery_dbbeat.rules.zone import to_instant
from celery_dbbeat.store.imports import ImportedSchedule

_PERIODS = ("days", "hours", "minutes", "seconds", "microseconds")
_ROUTING = ("queue", "exchange", "routing_key", "priority")


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """A row of theirs with the row of its schedule; older versions have fewer columns."""

    id: int
    name: str
    task: str
    args: str | None = None
    kwargs: str | None = None
    headers: str | None = None
    queue: str | None = None
    exchange: str | None = None
    routing_key: str | None = None
    priority: int | None = None
    expires: datetime | None = None
    expire_seconds: int | None = None
    one_off: bool = False
    start_time: datetime | None = None
    enabled: bool = True
    last_run_at: datetime | None = None
    total_run_count: int = 0
    date_changed: datetime | None = None
    description: str | None = None
    every: int | None = None
    period: str | None = None
    minute: str | None = None
    hour: str | None = None
    day_of_week: str | None = None
    day_of_month: str | None = None
    month_of_year: str | None = None
    timezone: str | None = None
    event: str | None = None
    latitude: Decimal | None = None
    longitude: Decimal | None = None
    clocked_time: datetime | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any], zone: tzinfo) -> "PeriodicTask":
        """The row as their database gives it; times without an offset are of that zone."""
        known = {field.name for field in fields(cls)}
        given = {name: value for name, value in row.items() if name in known and value is not None}
        times = {
            name: _aware(value, zone)
            for name, value in given.items()
            if isinstance(value, datetime)
        }
        return cls(**{**given, **times})


def convert(task: PeriodicTask, today: date) -> Entry | Refused:
    """What becomes of it; `today`: from when on its fire times are compared with theirs."""
    try:
        return _convert(task, today)
    except ScheduleError as error:
        return Refused(str(task.id), task.name, str(error))


@dataclass(frozen=True, slots=True)
class _When:
    kind: str
    expression: str
    timezone: str = "UTC"
    start_at: datetime | None = None
    go_on_from: datetime | None = None
    remarks: tuple[str, ...] = ()


def _convert(task: PeriodicTask, today: date) -> Entry:
    when = _when(task, today)
    schedule = ImportedSchedule(
        source_id=str(task.id),
        name=task.name,
        task=task.task,
        kind=when.kind,
        expression=when.expression,
        timezone=when.timezone,
        args=json_text("args", read_json("args", task.args, list)),
        kwargs=json_text("kwargs", read_json("kwargs", task.kwargs, dict)),
        options=json_text("options", _options(task)),
        description=(task.description or "").replace("\0", ""),
        start_at=when.start_at,
        end_at=None if task.expires is None else task.expires - INSTANT,
        max_runs=1 if task.one_off and when.kind != "once" else None,
    )
    schedule = _with_state(schedule, task)
    check(schedule)
    return Entry(schedule, when.go_on_from, when.remarks)


def _with_state(schedule: ImportedSchedule, task: PeriodicTask) -> ImportedSchedule:
    if task.one_off and task.enabled and task.total_run_count:
        return replace(schedule, state="finished", reason="it had its one run before the import")
    if schedule.end_at and schedule.start_at and schedule.end_at <= schedule.start_at:
        reason = f"it expires at {schedule.end_at + INSTANT}, before its next run"
        return replace(schedule, state="finished", reason=reason, start_at=None)
    if not task.enabled:
        return replace(schedule, state="paused", note="it was disabled when it was imported")
    return schedule


def _options(task: PeriodicTask) -> dict[str, Any]:
    options = {name: getattr(task, name) for name in _ROUTING}
    options = {name: value for name, value in options.items() if value not in {None, ""}}
    if task.expires is not None:
        options["expires"] = task.expires.isoformat()
    elif task.expire_seconds:
        options["expires"] = task.expire_seconds
    headers = read_json("headers", task.headers, dict)
    return {**options, "headers": headers} if headers else options


def _when(task: PeriodicTask, today: date) -> _When:
    given = [
        kind
        for kind, value in (
            ("interval", task.every),
            ("crontab", task.minute),
            ("solar", task.event),
            ("clocked", task.clocked_time),
        )
        if value is not None
    ]
    if not given:
        raise ScheduleError("it has no schedule: the row that it names is gone")
    readers = {"interval": _interval, "crontab": _crontab, "solar": _solar, "clocked": _clocked}
    # Theirs takes the first that is there, too.
    when = readers[given[0]](task, today)
    if len(given) > 1:
        also = f"it names {' and '.join(given)}; as there, {given[0]} counts"
        when = replace(when, remarks=(*when.remarks, also))
    return when


def _interval(task: PeriodicTask, _: date) -> _When:
    if task.period not in _PERIODS:
        raise ScheduleError(f"its period is {task.period!r}; allowed is one of {_PERIODS}")
    try:
        every = timedelta(**{task.period: task.every or 0})
        first = _first_of(task, every)
    except OverflowError:
        raise ScheduleError(f"every {task.every} {task.period} is longer than allowed") from None
    return _When(
        "interval",
        seconds_text(every),
        start_at=first,
        go_on_from=_since(task),
    )


def _first_of(task: PeriodicTask, every: timedelta) -> datetime | None:
    """The next run by their reckoning, overdue or not."""
    if task.last_run_at is None:
        after_change = None if task.date_changed is None else task.date_changed + every
        return task.start_time or after_change
    following = task.last_run_at + every
    return following if task.start_time is None else max(following, task.start_time)


def _crontab(task: PeriodicTask, today: date) -> _When:
    expression = json.dumps({name: getattr(task, name) for name in CRONTAB_FIELDS})
    zone = task.timezone or "UTC"
    # Refused before it is compared.
    check(ImportedSchedule("", "name", "task", "crontab", expression, zone))
    differs = clock_changes_matter(expression, zone, today)
    remarks = (*_begins_in_time(task), *([differs] if differs else []))
    return _When("crontab", expression, zone, task.start_time, _since(task), remarks)


def _solar(task: PeriodicTask, _: date) -> _When:
    expression = f"{task.event} {task.latitude:f} {task.longitude:f}"
    remarks = (*_begins_in_time(task), "its times are rounded to a second")
    return _When("solar", expression, "UTC", task.start_time, _since(task), remarks)


def _clocked(task: PeriodicTask, _: date) -> _When:
    at = task.clocked_time or task.date_changed
    assert at is not None  # noqa: S101 - the caller saw it
    at = at if task.start_time is None else max(at, task.start_time)
    return _When("once", at.astimezone(UTC).isoformat(), go_on_from=at - INSTANT)


def _since(task: PeriodicTask) -> datetime | None:
    if task.last_run_at is not None:
        return task.last_run_at
    return task.date_changed if task.start_time is None else task.start_time - INSTANT


def _begins_in_time(task: PeriodicTask) -> tuple[str, ...]:
    if task.start_time is None or task.last_run_at is not None:
        return ()
    return ("its first run is at a time that matches; theirs may come at start_time itself",)


def _aware(instant: datetime, zone: tzinfo) -> datetime:
    if instant.tzinfo is None:
        return to_instant(instant, zone)
    return instant.astimezone(UTC)
