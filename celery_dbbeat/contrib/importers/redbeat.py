"""RedBeat: its entries in Redis.

Each is a hash under `key_prefix + name`: `definition` and `meta`, both JSON in which an object
with a `__type__` is a value of Python. The sorted set `key_prefix + ":schedule"` names those that
are scheduled. No code of RedBeat's is needed to read them; only where no URL is given, its own
settings say how to reach that Redis.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Any

from celery import Celery

from celery_dbbeat.contrib.importers.clock_changes import clock_changes_matter
from celery_dbbeat.contrib.importers.entry import (
    UTC,
    Entry,
    Refused,
    check,
)
from celery_dbbeat.contrib.importers.redbeat_rule import Rule, read_rule
from celery_dbbeat.contrib.importers.relative import first_rounded
from celery_dbbeat.errors import ScheduleError, SourceError
from celery_dbbeat.rules.writing import CRONTAB_FIELDS, json_text, seconds_text
from celery_dbbeat.rules.zone import find_zone
from celery_dbbeat.store.imports import ImportedSchedule

SOURCE = "redbeat"
_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Stored:
    """One hash as it was found."""

    key: str
    definition: str | None
    meta: str | None


def from_redis(app: Celery, url: str | None, prefix: str | None) -> list[Stored]:
    """All entries that are scheduled, and those of the app's code that still are."""
    prefix = prefix or app.conf.get("redbeat_key_prefix") or "redbeat:"
    with _client(app, url) as client:
        keys = client.zrange(f"{prefix}:schedule", 0, -1)
        found = []
        for start in range(0, len(keys), _BATCH):
            with client.pipeline(transaction=False) as pipe:
                batch = keys[start : start + _BATCH]
                for key in batch:
                    pipe.hmget(key, "definition", "meta")
                found += [
                    Stored(_text(key), *map(_text_or_none, values))
                    for key, values in zip(batch, pipe.execute(), strict=True)
                ]
    if not found:
        raise SourceError(f"that Redis has no entries under {prefix!r}; allowed is --prefix PREFIX")
    return found


def convert(stored: Stored, zone_name: str, today: date) -> Entry | Refused:
    """What becomes of it; `zone_name`: the app's, in which RedBeat reads its crontabs."""
    name = stored.key
    try:
        definition = _json("definition", stored.definition)
        name = str(definition.get("name", name))
        last_run_at = _instant(_json("meta", stored.meta or "{}").get("last_run_at"))
        return _convert(name, definition, last_run_at, zone_name, today)
    except ScheduleError as error:
        return Refused(name, name, str(error))


@dataclass(frozen=True, slots=True)
class _When:
    kind: str
    expression: str
    timezone: str = "UTC"
    start_at: datetime | None = None
    remarks: tuple[str, ...] = ()


def _convert(
    name: str,
    definition: Mapping[str, Any],
    last_run_at: datetime | None,
    zone_name: str,
    today: date,
) -> Entry:
    when = _when(definition.get("schedule"), last_run_at, zone_name, today)
    paused = definition.get("enabled") is False
    schedule = ImportedSchedule(
        source_id=name,
        name=name,
        task=str(definition.get("task") or ""),
        kind=when.kind,
        expression=when.expression,
        timezone=when.timezone,
        args=json_text("args", _as_kombu(definition.get("args") or [])),
        kwargs=json_text("kwargs", _as_kombu(definition.get("kwargs") or {})),
        options=json_text("options", _options(definition.get("options") or {})),
        state="paused" if paused else "active",
        note="it was disabled when it was imported" if paused else None,
        start_at=when.start_at,
    )
    check(schedule)
    return Entry(schedule, last_run_at, when.remarks)


def _when(given: object, last_run_at: datetime | None, zone_name: str, today: date) -> _When:
    kind = given.get("__type__") if isinstance(given, dict) else None
    if not isinstance(given, dict) or kind not in {"interval", "crontab", "rrule"}:
        raise ScheduleError(
            f"its schedule is {given!r:.80}; allowed is an interval, a crontab or an rrule"
        )
    try:
        if kind == "interval":
            return _interval(given, last_run_at, find_zone(zone_name))
        if kind == "crontab":
            return _crontab(given, zone_name, today)
        return _rule(read_rule(given))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ScheduleError):
            raise
        raise ScheduleError(f"its schedule {given!r:.200} is not understood: {error!r}") from None


def _interval(given: Mapping[str, Any], last_run_at: datetime | None, zone: tzinfo) -> _When:
    every = timedelta(seconds=given["every"])
    start_at, remarks = None, tuple[str, ...]()
    if last_run_at is not None and given.get("relative"):
        start_at = first_rounded(last_run_at.astimezone(zone), every)
        if every >= timedelta(days=1) and zone is not UTC:
            remarks = ("every day of 24 hours; there from midnight to midnight of the app's zone",)
    elif last_run_at is not None:
        start_at = last_run_at + every
    return _When("interval", seconds_text(every), start_at=start_at, remarks=remarks)


def _crontab(given: Mapping[str, Any], zone_name: str, today: date) -> _When:
    values = {name: _field(given.get(name, "*")) for name in CRONTAB_FIELDS}
    expression = json.dumps(values)
    check(ImportedSchedule("", "name", "task", "crontab", expression, zone_name))
    differs = clock_changes_matter(expression, zone_name, today)
    return _When("crontab", expression, zone_name, remarks=(differs,) if differs else ())


def _field(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _rule(rule: Rule) -> _When:
    return _When("rrule", rule.text, rule.timezone, remarks=rule.remarks)


def _json(what: str, text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ScheduleError(f"its {what} is {text!r:.80}; allowed is a JSON object")
    return value


def _instant(given: object) -> datetime | None:
    """A time as RedBeat writes it: its fields, and the name of a zone or seconds of offset."""
    if not isinstance(given, dict) or given.get("__type__") != "datetime":
        return None
    fields = {name: value for name, value in given.items() if name not in {"__type__", "timezone"}}
    zone = given.get("timezone", "UTC")
    try:
        known = find_zone(zone) if isinstance(zone, str) else timezone(timedelta(seconds=zone))
        return datetime(tzinfo=known, **fields).astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as error:
        raise ScheduleError(f"the time {given!r:.200} is not understood: {error}") from None


def _as_kombu(value: Any) -> Any:  # noqa: ANN401 - JSON
    """The same value with RedBeat's own times as those of Celery's serializer."""
    if isinstance(value, dict):
        instant = _instant(value)
        if instant is not None:
            return {"__type__": "datetime", "__value__": instant.isoformat()}
        return {name: _as_kombu(inner) for name, inner in value.items()}
    return [_as_kombu(inner) for inner in value] if isinstance(value, list) else value


def _options(given: object) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ScheduleError(f"options is {given!r:.80}; allowed is a JSON object")
    expires = _instant(given.get("expires"))
    options = {name: _as_kombu(value) for name, value in given.items()}
    return options if expires is None else {**options, "expires": expires.isoformat()}


@contextmanager
def _client(app: Celery, url: str | None) -> Iterator[Any]:
    from redis import Redis, RedisError  # noqa: PLC0415 - only who has Redis

    try:
        if url is None:
            yield _redbeats_own(app)
        else:
            with Redis.from_url(url) as client:
                yield client
    except (RedisError, ValueError) as error:
        raise SourceError(f"Redis cannot be read: {error}") from None


def _redbeats_own(app: Celery) -> Any:  # noqa: ANN401 - a client of one of several kinds
    try:
        from redbeat.schedulers import get_redis  # noqa: PLC0415 - only who has RedBeat
    except ImportError:
        raise SourceError("RedBeat is not installed here; allowed is --url REDIS_URL") from None
    return get_redis(app)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _text_or_none(value: str | bytes | None) -> str | None:
    return None if value is None else _text(value)
