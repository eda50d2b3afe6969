"""One field of a schedule: read from a value of Python, or refused with its name.

Each reader takes what people may write and returns what the column holds.
"""

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from celery_dbbeat.errors import FieldError, ScheduleError, SettingsError, TriggerError
from celery_dbbeat.rules.once import parse_once
from celery_dbbeat.rules.writing import json_text
from celery_dbbeat.rules.zone import find_zone

Reader = Callable[[str, object], Any]

_LONGEST_NAME = 500
_LONGEST_TEXT = 10_000
_EARLIEST = datetime(1900, 1, 1, tzinfo=timezone.utc)
_LATEST = datetime(9000, 1, 1, tzinfo=timezone.utc)


def refusal(field: str, value: object, allowed: str) -> FieldError:
    """The error for a value that a field may not have."""
    shown = repr(value)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"  # noqa: PLR2004 - a readable length
    return FieldError(field, f"{field} is {shown}; allowed is {allowed}")


def check_limit(limit: int, name: str = "limit") -> None:
    """Refuse to answer with nothing."""
    if limit < 1:
        raise SettingsError(f"{name} is {limit}; allowed is 1 or more")


def _text(longest: int, shortest: int = 0, *, lines: bool = False) -> Reader:
    kind = "text" if lines else "one line of text"
    allowed = f"{kind} of {shortest} to {longest} characters, all of them printable"

    def read(field: str, value: object) -> str:
        if not isinstance(value, str) or not shortest <= len(value) <= longest:
            raise refusal(field, value, allowed)
        if not all(one.isprintable() or (lines and one in "\n\t") for one in value):
            raise refusal(field, value, allowed)
        if shortest and not value.strip():
            raise refusal(field, value, allowed)
        return value

    return read


def _word(*words: str) -> Reader:
    def read(field: str, value: object) -> str:
        if not isinstance(value, str) or value not in words:
            raise refusal(field, value, f"one of {', '.join(words)}")
        return value

    return read


def _whole(low: int, high: int) -> Reader:
    def read(field: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise refusal(field, value, f"a whole number from {low} to {high}")
        return value

    return read


def _duration(low: timedelta, high: timedelta, shown: str) -> Reader:
    allowed = f"a number of seconds or a timedelta, {shown}"

    def read(field: str, value: object) -> timedelta:
        try:
            given = value if isinstance(value, timedelta) else _seconds(value)
        except (TypeError, ValueError, OverflowError):
            raise refusal(field, value, allowed) from None
        if not low <= given <= high:
            raise refusal(field, value, allowed)
        return given

    return read


def _seconds(value: object) -> timedelta:
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        raise TypeError
    return timedelta(seconds=float(value))


def _or_none(reader: Reader) -> Reader:
    def read(field: str, value: object) -> Any:  # noqa: ANN401 - what the reader gives
        return None if value is None else reader(field, value)

    return read


def _array(field: str, value: object) -> str:
    if not isinstance(value, list | tuple):
        raise refusal(field, value, "a list that JSON can hold")
    return _json(field, list(value))


def _object(field: str, value: object) -> str:
    if not isinstance(value, Mapping):
        raise refusal(field, value, "a dictionary that JSON can hold")
    return _json(field, dict(value))


def _exclude(field: str, value: object) -> str:
    if not isinstance(value, list | tuple):
        raise refusal(field, value, "a list of dates, local times and rules")
    return _json(field, [one.isoformat() if isinstance(one, date) else one for one in value])


def _labels(field: str, value: object) -> str:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise refusal(field, value, 'a dictionary with names of text, such as {"team": "billing"}')
    return _json(field, dict(value))


def _json(field: str, value: object) -> str:
    try:
        return json_text(field, value)
    except ScheduleError as error:
        raise FieldError(field, str(error)) from None


def _timezone(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise refusal(field, value, "an IANA name such as 'UTC' or 'Europe/Berlin'")
    try:
        find_zone(value)
    except TriggerError as error:
        raise FieldError(field, str(error)) from None
    return value


def read_instant(field: str, value: object, zone: str) -> datetime | None:
    """An instant; text without an offset is a local time of that zone."""
    if value is None:
        return None
    allowed = (
        "a datetime with a time zone from 1900 to 8999, or text such as '2030-01-31T09:30:00+01:00'"
    )
    if isinstance(value, str):
        try:
            value = parse_once(value, find_zone(zone)).at
        except TriggerError:
            raise refusal(field, value, allowed) from None
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise refusal(field, value, allowed)
    try:
        instant = value.astimezone(timezone.utc)
    except OverflowError:
        raise refusal(field, value, allowed) from None
    if not _EARLIEST <= instant < _LATEST:
        raise refusal(field, value, allowed)
    return instant


_WORDS = ("allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other")
_INTEGER, _BIG_INTEGER = 2**31 - 1, 2**63 - 1
_MILLENNIUM = timedelta(days=365 * 1000)

#: The fields that need nothing else to be read.
READERS: dict[str, Reader] = {
    "name": _text(_LONGEST_NAME, 1),
    "task": _text(_LONGEST_NAME, 1),
    "timezone": _timezone,
    "args": _array,
    "kwargs": _object,
    "options": _object,
    "state": _or_none(_word("active", "paused")),
    "note": _or_none(_text(_LONGEST_TEXT, lines=True)),
    "misfire_grace": _or_none(
        _duration(timedelta(0), _MILLENNIUM, "from 0 to 1000 years, or None for ever")
    ),
    "catch_up": _word("latest", "all", "none"),
    "catch_up_limit": _or_none(_whole(1, 10_000)),
    "overlap": _word(*_WORDS),
    "max_concurrent": _whole(1, 10_000),
    "jitter": _duration(timedelta(0), timedelta(days=1), "from 0 to 1 day"),
    "max_runs": _or_none(_whole(1, _BIG_INTEGER)),
    "exclude": _exclude,
    "labels": _labels,
    "description": _text(_LONGEST_TEXT, lines=True),
    "max_attempts": _or_none(_whole(1, 100)),
    "on_failure": _word("dead", "retry"),
    "resend_after": _or_none(
        _duration(timedelta(seconds=1), timedelta(days=365), "from 1 second to 1 year, or None")
    ),
    "pause_after": _or_none(_whole(1, _INTEGER)),
}

_SECONDS_OPTION = _duration(timedelta(0), _MILLENNIUM, "from 0 on")

#: What options may hold that can be wrong by itself; the rest is apply_async's.
OPTIONS: dict[str, Reader] = {
    "queue": _text(255, 1),
    "routing_key": _text(255),
    "exchange": _text(255),
    "serializer": _text(255, 1),
    "compression": _text(255, 1),
    "priority": _whole(0, 255),
    "time_limit": _SECONDS_OPTION,
    "soft_time_limit": _SECONDS_OPTION,
    "headers": _object,
}
