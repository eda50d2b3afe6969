"""The form of a schedule: its fields, what people typed in them, and the definition that means."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from celery_dbbeat.api.fields import OPTIONS
from celery_dbbeat.errors import FieldError
from celery_dbbeat.rules.trigger import KINDS
from celery_dbbeat.store.managing import Draft, ScheduleInfo

_OVERLAPS = ("allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other")
#: What the API calls the *when*, and what does here.
_WHEN = frozenset((*KINDS, "expression"))
#: These are one column, so they are given together.
_OPTIONS = ("options", "queue", "priority")


def _text(text: str) -> str:
    return text


def _maybe(text: str) -> str | None:
    return text or None


def _json(otherwise: str) -> Callable[[str], Any]:
    def read(text: str) -> object:
        return json.loads(text or otherwise)

    return read


def _seconds(text: str) -> float:
    return float(text or 0)


def _maybe_seconds(text: str) -> float | None:
    return float(text) if text else None


def _whole(text: str) -> int | None:
    return int(text) if text else None


@dataclass(frozen=True, slots=True)
class Field:
    """One field: how it is read, and how it looks. `kind` is the kind of its input."""

    name: str
    label: str
    read: Callable[[str], Any] = _text
    help: str = ""
    kind: str = "text"
    choices: tuple[str, ...] = ()
    allowed: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Fields that belong together; those not `open` are folded away until they are needed."""

    title: str
    fields: tuple[Field, ...]
    open: bool = True


def _code(name: str, label: str, otherwise: str, example: str) -> Field:
    return Field(
        name, label, _json(otherwise), f"JSON, such as {example}", "code", allowed="JSON", wide=True
    )


def _number(name: str, label: str, text: str, read: Callable[[str], Any] = _whole) -> Field:
    allowed = "a whole number" if read is _whole else "a number of seconds"
    return Field(name, label, read, text, "number", allowed=allowed)


_INSTANT = "as 2030-01-31T09:30, in the time zone above, or with an offset"
GROUPS = (
    Group(
        "What",
        (
            Field("name", "Name"),
            Field("task", "Task", kind="task"),
            _code("args", "Arguments", "[]", '["monthly", 3]'),
            _code("kwargs", "Keyword arguments", "{}", '{"month": "2030-01"}'),
            Field("description", "Description", kind="lines", wide=True),
        ),
    ),
    Group(
        "When",
        (
            Field("kind", "Kind", kind="choice", choices=tuple(KINDS)),
            Field("expression", "Expression", kind="mono", help="as 0 9 * * MON-FRI, 300, @daily"),
            Field("timezone", "Time zone", help="an IANA name, as Europe/Berlin", kind="zone"),
        ),
    ),
    Group(
        "Bounds and exceptions",
        (
            Field("start_at", "Not before", _maybe, _INSTANT),
            Field("end_at", "Not after", _maybe, _INSTANT),
            _number("max_runs", "At most so many runs", "empty: no limit"),
            _number("jitter", "Jitter, seconds", "spreads fire times by up to that", _seconds),
            _code("exclude", "Except", "[]", '["2030-12-25", "2030-12-31T09:00"]'),
        ),
        open=False,
    ),
    Group(
        "Where it goes",
        (
            Field("queue", "Queue", _maybe, "empty: as the task is routed"),
            _number("priority", "Priority", "0 to 255"),
            _code("labels", "Labels", "{}", '{"team": "billing"}'),
            _code("options", "More options of apply_async", "{}", '{"expires": 3600}'),
        ),
        open=False,
    ),
    Group(
        "Late, overlapping, failing",
        (
            _number("misfire_grace", "Sent late by at most, seconds", "empty: for ever",
                    _maybe_seconds),
            Field("catch_up", "Of several due at once", kind="choice",
                  choices=("latest", "all", "none")),
            _number("catch_up_limit", "Catch up so many", "empty: all of them"),
            Field("overlap", "When the last run is not done", kind="choice", choices=_OVERLAPS),
            _number("max_concurrent", "Runs at once", ""),
            Field("on_failure", "When the task fails", kind="choice", choices=("dead", "retry")),
            _number("max_attempts", "Attempts", "empty: as dbbeat_max_attempts says"),
            _number("resend_after", "Sent again untaken, seconds", "empty: as the settings say",
                    _maybe_seconds),
            _number("pause_after", "Pause after so many failures", "empty: never"),
        ),
        open=False,
    ),
)  # fmt: skip
FIELDS = {one.name: one for group in GROUPS for one in group.fields}


@dataclass(frozen=True, slots=True)
class Typed:
    """What stands in the form, what it means as a definition, and what could not be read of it."""

    texts: dict[str, str]
    given: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)


def blank() -> Typed:
    """The form of a new schedule."""
    return Typed(_texts(Draft(name="", task="", kind="cron", expression="0 9 * * MON-FRI")))


def of(info: ScheduleInfo) -> Typed:
    """The form of a schedule as it is."""
    return Typed(_texts(info.draft()))


def read(form: Mapping[str, str], before: Typed | None = None) -> Typed:
    """What was typed; `given` is all of it, or what is not as before."""
    typed = Typed({name: form.get(name, "").strip().replace("\r\n", "\n") for name in FIELDS})
    touched = set(FIELDS) if before is None else _touched(typed.texts, before.texts)
    for name in FIELDS:
        if name in touched:
            _read_one(typed, name)
    return typed


def shown_at(problems: Mapping[str, str]) -> dict[str, str]:
    """Problems by the field of the form they are shown at; '' is the form itself."""
    found: dict[str, str] = {}
    for name, text in problems.items():
        place = "expression" if name in _WHEN else name
        if place not in FIELDS and place in OPTIONS:
            place = "options"
        found.setdefault(place if place in FIELDS else "", text)
    return found


def problem_of(error: FieldError) -> dict[str, str]:
    """The problem that the API found."""
    return shown_at({error.field: str(error)})


def _touched(texts: Mapping[str, str], before: Mapping[str, str]) -> set[str]:
    touched = {name for name in FIELDS if texts[name] != before[name].strip()}
    for together in (("kind", "expression"), _OPTIONS):
        if touched & set(together):
            touched |= set(together)
    return touched


def _read_one(typed: Typed, name: str) -> None:
    text, how = typed.texts[name], FIELDS[name]
    try:
        typed.given[name] = how.read(text)
    except (ValueError, RecursionError) as error:
        shown = text if len(text) <= 100 else f"{text[:100]}…"  # noqa: PLR2004 - a readable length
        why = f": {error}" if isinstance(error, json.JSONDecodeError) else ""
        typed.problems[name] = f"{name} is {shown!r}; allowed is {how.allowed}{why}"


def _texts(draft: Draft) -> dict[str, str]:
    options = json.loads(draft.options)
    texts = {name: _shown(getattr(draft, name)) for name in FIELDS if name not in _OPTIONS}
    texts["queue"] = _shown(options.pop("queue", None))
    texts["priority"] = _shown(options.pop("priority", None))
    texts["options"] = json.dumps(options, ensure_ascii=False)
    for name in ("args", "kwargs", "labels", "exclude"):
        texts[name] = json.dumps(json.loads(texts[name]), ensure_ascii=False)
    return texts


def _shown(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.15g}"
    return value.isoformat() if isinstance(value, datetime) else str(value)
