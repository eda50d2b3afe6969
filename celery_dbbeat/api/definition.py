"""What a schedule is to be: read field by field, then as a whole.

A definition is a dictionary with the arguments of `Schedules.create`. What it gives is checked
against everything that is known here: the columns, the kinds of triggers, the task's signature, the
queues the app declares. Of a change only what it touches is checked again, so that a schedule which
something else is wrong with can still be described, or paused.
"""

from __future__ import annotations

import difflib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, TypedDict
from uuid import UUID

from celery import Celery

from celery_dbbeat.api.fields import OPTIONS, READERS, read_instant, refusal
from celery_dbbeat.errors import FieldError, ScheduleError, TriggerError
from celery_dbbeat.rules.firetimes import upcoming
from celery_dbbeat.rules.options import check_options
from celery_dbbeat.rules.trigger import KINDS
from celery_dbbeat.rules.writing import (
    celery_trigger,
    crontab_text,
    seconds_text,
)
from celery_dbbeat.store.managing import COLUMNS, Draft

Seconds = float | timedelta


class What(TypedDict, total=False):
    """All that can be said of a schedule but its name and task; see `Schedules.create`."""

    cron: str
    crontab: Any
    interval: Seconds | str
    rrule: str
    solar: Any
    once: datetime | str
    kind: str
    expression: str
    timezone: str
    args: list[Any] | tuple[Any, ...]
    kwargs: Mapping[str, Any]
    options: Mapping[str, Any]
    queue: str | None
    priority: int | None
    misfire_grace: Seconds | None
    catch_up: str
    catch_up_limit: int | None
    overlap: str
    max_concurrent: int
    jitter: Seconds
    start_at: datetime | str | None
    end_at: datetime | str | None
    max_runs: int | None
    exclude: list[Any] | tuple[Any, ...]
    labels: Mapping[str, Any]
    description: str
    max_attempts: int | None
    on_failure: str
    resend_after: Seconds | None
    pause_after: int | None
    state: str | None
    paused: bool
    note: str | None


class Changes(What, total=False):
    """What can be changed of a schedule."""

    name: str
    task: str


_WHEN = ("cron", "crontab", "interval", "rrule", "solar", "once")
_PAIR = ("kind", "expression")
_OTHERS = ("queue", "priority", "start_at", "end_at", "paused")

#: Every argument that there is.
ARGUMENTS = (*READERS, *_WHEN, *_PAIR, *_OTHERS)

_LONGEST_EXPRESSION = 10_000
# Of a schedule that is not stored yet; only the anchor of its *when* counts here.
_NOBODY = UUID(int=0)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Definitions:
    """Reads definitions for one app."""

    def __init__(self, app: Celery) -> None:
        """Connects to nothing."""
        self._app = app

    def draft(self, given: Mapping[str, Any], base: Draft | None = None) -> Draft:
        """The schedule that a definition describes, or `base` with what is given changed.

        Raises the first of its `problems`.
        """
        draft, problems = self._read(given, base)
        if draft is None or problems:
            raise problems[0]
        return draft

    def problems(self, given: Mapping[str, Any], base: Draft | None = None) -> list[FieldError]:
        """All that is wrong with a definition, each with the name of its field."""
        return self._read(given, base)[1]

    def _read(
        self, given: Mapping[str, Any], base: Draft | None
    ) -> tuple[Draft | None, list[FieldError]]:
        reading = _Reading(given, base)
        draft = reading.draft()
        if draft is not None:
            changed = {
                name
                for name in COLUMNS
                if base is None or getattr(draft, name) != getattr(base, name)
            }
            for check in (_check_bounds, _check_trigger, self._check_arguments, self._check_queue):
                reading.tried(check, draft, changed)
        return draft, reading.problems

    def _check_arguments(self, draft: Draft, changed: set[str]) -> None:
        task = self._app.tasks.get(draft.task)
        if not changed & {"task", "args", "kwargs"} or task is None or not task.typing:
            return
        args, kwargs = json.loads(draft.args), json.loads(draft.kwargs)
        try:
            task.__header__(*args, **kwargs)
        except TypeError as error:
            raise FieldError(
                "kwargs" if kwargs and not args else "args",
                f"args is {draft.args:.200} and kwargs is {draft.kwargs:.200}, which the task does "
                f"not take: {error}; allowed is {draft.task}{inspect.signature(task.run)}",
            ) from None

    def _check_queue(self, draft: Draft, changed: set[str]) -> None:
        queue = json.loads(draft.options).get("queue")
        if "options" not in changed or queue is None or self._app.conf.task_create_missing_queues:
            return
        known = self._app.amqp.queues
        if queue not in known:
            raise refusal(
                "queue",
                queue,
                f"one of task_queues, as task_create_missing_queues is off: {', '.join(known)}",
            )


class _Reading:
    """One definition being read: its columns so far, and its problems."""

    def __init__(self, given: Mapping[str, Any], base: Draft | None) -> None:
        self._given = dict(given)
        self._base = base
        self._columns: dict[str, Any] = {}
        self.problems: list[FieldError] = []

    def draft(self) -> Draft | None:
        """The columns together, unless one of them is wrong."""
        given = self._given
        for field in given.keys() - set(ARGUMENTS):
            self.problems.append(_unknown(field))
        if given.get("paused") is not None:
            self.tried(self._read_paused)
        for field, reader in READERS.items():
            if field in given:
                self.tried(self._read_column, field, reader)
        for read in (self._read_when, self._read_bounds, self._read_options):
            self.tried(read)
        if self._base is None:
            for field in ("name", "task"):
                if field not in given:
                    self.problems.append(FieldError(field, f"{field} is missing"))
        if self.problems:
            return None
        return replace(self._base, **self._columns) if self._base else Draft(**self._columns)

    def tried(self, read: Callable[..., None], *arguments: object) -> None:
        """Read, and keep what is wrong."""
        try:
            read(*arguments)
        except FieldError as problem:
            self.problems.append(problem)

    def _read_column(self, field: str, reader: Callable[[str, object], Any]) -> None:
        self._columns[field] = reader(field, self._given[field])

    def _read_paused(self) -> None:
        paused = self._given["paused"]
        if not isinstance(paused, bool) or self._given.get("state") is not None:
            raise refusal("paused", paused, "True or False, and not together with state")
        self._given["state"] = "paused" if paused else "active"

    def _read_when(self) -> None:
        named = [field for field in _WHEN if self._given.get(field) is not None]
        paired = [field for field in _PAIR if self._given.get(field) is not None]
        one = ", ".join(_WHEN)
        if len(named) + (len(paired) > 0) > 1:
            raise FieldError(named[-1], f"{' and '.join(named + paired)} are given; allowed is one")
        if named:
            self._columns["kind"] = named[0]
            self._columns["expression"] = _expression(named[0], self._given[named[0]])
        elif len(paired) == 1 or (not paired and self._base is None):
            missing = next((field for field in _PAIR if field not in paired and paired), "cron")
            raise FieldError(missing, f"its *when* is missing; allowed is one of {one}")
        elif paired:
            self._columns["kind"] = self._given["kind"]
            self._columns["expression"] = _checked(self._given["kind"], self._given["expression"])

    def _read_bounds(self) -> None:
        zone = self._columns.get("timezone") or (self._base.timezone if self._base else "UTC")
        for field in ("start_at", "end_at"):
            if field in self._given:
                self._columns[field] = read_instant(field, self._given[field], zone)

    def _read_options(self) -> None:
        # What is wrong with `options` itself has been said.
        if not self._given.keys() & {"options", "queue", "priority"} or "options" in {
            problem.field for problem in self.problems
        }:
            return
        before = self._columns.get("options") or (self._base.options if self._base else "{}")
        options = json.loads(before)
        for field in ("queue", "priority"):
            if field in self._given:
                _set_option(options, field, self._given[field], own=self._given.get("options"))
        for field, reader in OPTIONS.items():
            if options.get(field) is not None:
                reader(field, options[field])
        try:
            check_options(options)
        except ScheduleError as error:
            raise FieldError("options", str(error)) from None
        self._columns["options"] = json.dumps(options, sort_keys=True)


def _set_option(
    options: dict[str, Any], field: str, value: object, own: Mapping[str, Any] | None
) -> None:
    if own and own.get(field) is not None and own[field] != value:
        raise refusal(field, value, f"the {own[field]!r} of options, or only one of the two")
    if value is None:
        options.pop(field, None)
    else:
        OPTIONS[field](field, value)
        options[field] = value


def _expression(kind: str, value: Any) -> str:  # noqa: ANN401 - whatever people give
    if isinstance(value, str):
        return _checked(kind, value)
    if kind == "interval" and isinstance(value, int | float | timedelta | Decimal):
        if isinstance(value, bool):
            raise refusal(kind, value, "a number of seconds or a timedelta")
        return seconds_text(value if isinstance(value, timedelta) else float(value))
    if kind == "once" and isinstance(value, datetime):
        if value.utcoffset() is None:
            raise refusal(kind, value, "a datetime with a time zone, or text")
        return value.isoformat()
    if kind == "crontab" and isinstance(value, Mapping):
        return crontab_text(value)
    if kind in {"crontab", "solar"}:
        return _of_celery(kind, value)
    raise refusal(kind, value, "text" if kind != "interval" else "a number of seconds")


def _of_celery(kind: str, value: object) -> str:
    try:
        found, expression = celery_trigger(value)
    except ScheduleError:
        found, expression = "", ""
    if found != kind:
        raise refusal(kind, value, f"Celery's own {kind} without a nowfun, or as text")
    return expression


def _checked(kind: object, expression: object) -> str:
    if kind not in KINDS:
        raise refusal("kind", kind, f"one of {', '.join(KINDS)}")
    if not isinstance(expression, str) or not 1 <= len(expression) <= _LONGEST_EXPRESSION:
        raise refusal(str(kind), expression, f"text of 1 to {_LONGEST_EXPRESSION} characters")
    return expression


def _check_bounds(draft: Draft, changed: set[str]) -> None:
    if not changed & {"start_at", "end_at"} or draft.start_at is None or draft.end_at is None:
        return
    if draft.end_at <= draft.start_at:
        raise refusal(
            "end_at", draft.end_at.isoformat(), f"later than start_at, {draft.start_at.isoformat()}"
        )


def _check_trigger(draft: Draft, changed: set[str]) -> None:
    if not changed & {"kind", "expression", "timezone", "start_at", "exclude"}:
        return
    schedule = draft.as_schedule(_NOBODY)
    try:
        _ = schedule.trigger
    except TriggerError as error:
        text = str(error)
        others = ("timezone", "start_at", "exclude")
        field = next((name for name in others if text.startswith(name)), draft.kind)
        raise FieldError(field, text) from None
    if draft.exclude != "[]":
        try:
            upcoming(schedule, _EPOCH, 1)
        except TriggerError as error:
            raise FieldError("exclude", f"exclude is {draft.exclude:.200}: {error}") from None


def _unknown(field: str) -> FieldError:
    close = difflib.get_close_matches(str(field), ARGUMENTS, n=1)
    hint = f"did you mean {close[0]}?" if close else f"allowed are {', '.join(ARGUMENTS)}"
    return FieldError(str(field), f"{field} is not a field of a schedule; {hint}")
