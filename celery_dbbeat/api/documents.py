"""Schedules in a file, as people write them: JSON, or YAML where PyYAML is installed.

    set: billing                      # optional: what `apply --prune` goes by
    schedules:
      invoices:
        task: shop.tasks.bill
        cron: 0 6 1 * *
        timezone: Europe/Berlin
        labels: {team: billing}

Each schedule has the arguments of `Schedules.create`, durations in seconds; what is left out is as
the table has it. What beat sets by itself (finished, invalid) is not written into a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any

from celery_dbbeat.errors import FieldError, ScheduleError
from celery_dbbeat.store.managing import Draft, ScheduleInfo

#: The label that says which file a schedule was applied from.
SET_LABEL = "dbbeat-set"

_DEFAULTS = {one.name: one.default for one in fields(Draft) if one.default is not MISSING}
_JSON: dict[str, object] = {"args": [], "kwargs": {}, "options": {}, "exclude": [], "labels": {}}
# Said in another way, or not at all.
_ELSEWHERE = {"name", "kind", "expression", "state", "note", "options"}
_PARTS = {"set", "schedules"}


@dataclass(frozen=True, slots=True)
class Document:
    """Definitions by name, and what the whole is called."""

    schedules: Mapping[str, Mapping[str, Any]]
    set: str | None = None

    def definitions(self) -> list[dict[str, Any]]:
        """Each as `Schedules.create_many` takes it; with the label of the set, if there is one."""
        found = [{**one, "name": name} for name, one in self.schedules.items()]
        if self.set is not None:
            for one in found:
                labels = one.get("labels") or {}
                one["labels"] = {**labels, SET_LABEL: self.set} if _is_map(labels) else labels
        return found


@dataclass(frozen=True, slots=True)
class Difference:
    """What a document would change; `changed` has old and new by field, as columns hold them."""

    created: tuple[str, ...] = ()
    changed: Mapping[str, Mapping[str, tuple[object, object]]] = field(default_factory=dict)
    unchanged: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.created or self.changed or self.deleted)


def definition_of(info: ScheduleInfo) -> dict[str, Any]:
    """What makes this schedule anew, without what is as the table has it by itself."""
    found: dict[str, Any] = {"task": info.task, info.kind: _when(info)}
    options = dict(info.options)
    for name in ("queue", "priority"):
        if name in options:
            found[name] = options.pop(name)
    if options:
        found["options"] = options
    for column in Draft.__slots__:
        value = getattr(info, column)
        if column not in _ELSEWHERE | found.keys() and value != _JSON.get(
            column, _DEFAULTS.get(column)
        ):
            found[column] = _plain(value)
    if info.state == "paused":
        found |= {"paused": True} | ({"note": info.note} if info.note else {})
    return found


def document_of(infos: Iterable[ScheduleInfo]) -> dict[str, Any]:
    """A document of these schedules."""
    return {"schedules": {info.name: definition_of(info) for info in infos}}


def write(document: Mapping[str, Any], *, as_yaml: bool) -> str:
    """The text of a document."""
    if as_yaml:
        return str(_yaml().dump(document))
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def read(text: str, *, as_yaml: bool) -> Document:
    """A document from its text."""
    found = _yaml().load(text, _without_doubles) if as_yaml else _parse_json(text)
    if not _is_map(found) or not _is_map(found.get("schedules")):
        raise ScheduleError(
            "the file has no schedules; allowed is an object with `schedules`, each by its name"
        )
    if unknown := sorted(map(str, found.keys() - _PARTS)):
        raise ScheduleError(f"the file has {', '.join(unknown)}; allowed are set, schedules")
    called = found.get("set")
    if called is not None and not (isinstance(called, str) and called):
        raise FieldError("set", f"set is {called!r}; allowed is text")
    for name, one in found["schedules"].items():
        if not isinstance(name, str) or not _is_map(one):
            raise FieldError("name", f"schedule {name!r} is {one!r:.200}; allowed is an object")
        if "name" in one:
            raise FieldError("name", f"schedule {name!r} has a name inside; allowed is one outside")
    return Document(found["schedules"], called)


def _when(info: ScheduleInfo) -> object:
    text = info.expression
    if info.kind in {"interval", "crontab"}:
        try:
            return json.loads(text)
        except ValueError:  # not as it should be: as it is
            return text
    return text


def _plain(value: object) -> object:
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
        return int(seconds) if seconds.is_integer() else seconds
    return value.isoformat() if isinstance(value, datetime) else value


def _is_map(value: object) -> bool:
    return isinstance(value, Mapping)


def _parse_json(text: str) -> Any:  # noqa: ANN401 - whatever stands there
    try:
        return json.loads(text, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"the file is not JSON: {error}") from None


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise FieldError("name", f"{twice!r} is there twice; allowed is once")
    return found


def _yaml() -> ModuleType:
    try:
        from celery_dbbeat.api import yaml_text  # noqa: PLC0415 - needs an extra
    except ImportError:
        raise ScheduleError(
            "YAML needs PyYAML: install celery-dbbeat[yaml], or use a .json file"
        ) from None
    return yaml_text
