"""Cron expressions: from the text to the calendar it stands for.

The grammar is spelled out here and not left to a library: the task id of a tick hangs on its fire
time, so two replicas must read ``55-5/3`` alike whatever versions they have installed. Expressions
that libraries disagree about are read as Vixie cron does (``5-5`` is 5), and a day matches by
day-of-month *or* day-of-week, unless one of the two starts with ``*``: then both have to match.

An ``H`` stands for a number that a hash of the schedule's name picks, so that what is to run "some
time each night" does not all run at midnight. `celery_dbbeat.rules.spread` writes it out before
anything else looks at the field.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import NamedTuple

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.crontab import (
    EVERY_HOUR,
    Calendar,
    Days,
    mask,
    next_of,
    refuse_if_never,
)
from celery_dbbeat.rules.spread import Span, spread
from celery_dbbeat.rules.zone import WallClock

_LONGEST = 200
_FEWEST = 5
# What the fields that are left out stand for: on the minute, in every year.
_IMPLIED = ("*", "*", "*", "*", "*", "0", "*")


class Field(NamedTuple):
    """What one field of an expression may hold."""

    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    special: str = ""


_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")

MINUTE = Field("minute", 0, 59)
HOUR = Field("hour", 0, 23)
DAY = Field("day of month", 1, 31, (), ", ?, L, 15W")
MONTH = Field("month", 1, 12, _MONTHS, ", jan-dec")
WEEKDAY = Field("day of week", 0, 7, _WEEKDAYS, ", sun-sat, ?, mon#2, L5")
SECOND = Field("second", 0, 59)
YEAR = Field("year", 1970, 2099)

_FIELDS = (MINUTE, HOUR, DAY, MONTH, WEEKDAY, SECOND, YEAR)
# Where an H may fall: on days that every month has, on each weekday once, not in some year.
_SPANS = tuple(
    Span(field.name, field.low, {DAY: 28, WEEKDAY: 6}.get(field, field.high))
    for field in _FIELDS[:-1]
)
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_CHARACTERS = re.compile(r"[0-9A-Za-z*/,#?@() \t-]*")
_VALUE = "[0-9]{1,4}|[a-z]{3}"
_RANGE = re.compile(rf"(?:\*|({_VALUE})(?:-({_VALUE}))?)(?:/([0-9]{{1,4}}))?")
_NTH = re.compile(rf"((?:{_VALUE})(?:-(?:{_VALUE}))?)#([1-5])")
_LAST_WEEKDAY = re.compile(r"l([0-7]|[a-z]{3})|([0-7]|[a-z]{3})l")
_NEAREST = re.compile(r"(?:([0-9]{1,2})w|w([0-9]{1,2}))")


def parse_cron(expression: str, zone_name: str, zone: tzinfo, name: str | None = None) -> WallClock:
    """Read 5, 6 (with seconds, last) or 7 (with the year) fields, or an alias such as @daily."""
    shown = repr(expression if len(expression) <= _LONGEST else expression[:60] + "...")
    try:
        parts = _split(expression)
        spread_out = [spread(*of, name) for of in zip(parts, _SPANS, strict=False)]
        calendar = _calendar([*spread_out, parts[-1]])
    except TriggerError as error:
        raise TriggerError(f"cron {shown}: {error}") from None
    # H/2 is */2 that begins elsewhere.
    through = parts[1].startswith(("*", "h/")) or calendar.hours == EVERY_HOUR
    trigger = WallClock(_canonical(parts), zone_name, calendar, zone, runs_through=through)
    return refuse_if_never(trigger, f"cron {shown}")


def _split(expression: str) -> list[str]:
    if len(expression) > _LONGEST:
        raise TriggerError(f"has {len(expression)} characters: at most {_LONGEST} are allowed")
    if not _CHARACTERS.fullmatch(expression):
        raise TriggerError("has characters that no cron expression has: see that it is plain ASCII")
    text = expression.lower().strip()
    if text.startswith("@"):
        if text not in _ALIASES:
            raise TriggerError(f"{text!r} is not known: allowed are {', '.join(_ALIASES)}")
        text = _ALIASES[text]
    parts = text.split()
    if not _FEWEST <= len(parts) <= len(_IMPLIED):
        raise TriggerError(
            f"has {len(parts)} fields: allowed are 5 (minute hour day month weekday), "
            "6 (and second) or 7 (and year)"
        )
    return parts + list(_IMPLIED[len(parts) :])


def _calendar(parts: list[str]) -> Calendar:
    minutes, hours, days, months, weekdays, seconds, years = parts
    return Calendar(
        seconds=next_of(_values(seconds, SECOND), 60),
        minutes=next_of(_values(minutes, MINUTE), 60),
        hours=next_of(_values(hours, HOUR), 24),
        months=tuple(sorted(_values(months, MONTH))),
        years=() if years == "*" else tuple(sorted(_values(years, YEAR))),
        days=_days(days, weekdays),
    )


def _canonical(parts: list[str]) -> str:
    """Return numbers for names, `*` for `?`, and no field that says what is implied anyway."""
    texts = [_plain(part, spec) for part, spec in zip(parts, _FIELDS, strict=True)]
    while len(texts) > _FEWEST and texts[-1] == _IMPLIED[len(texts) - 1]:
        texts.pop()
    return " ".join(texts)


def _plain(text: str, spec: Field) -> str:
    def number(found: re.Match[str]) -> str:
        return str(int(found[0]) if found[0].isdigit() else spec.names.index(found[0]) + spec.low)

    text = re.sub("|".join(["[0-9]+", *spec.names]), number, text).replace("?", "*")
    return re.sub(r"\*/1(?![0-9])", "*", text).upper()


def _days(day_text: str, weekday_text: str) -> Days:
    day_text = "*" if day_text == "?" else day_text
    weekday_text = "*" if weekday_text == "?" else weekday_text
    days, last_day, nearest = _days_of_month(day_text)
    weekdays, nth = _weekdays(weekday_text)
    either = not (day_text.startswith("*") or weekday_text.startswith("*"))
    return Days(days, last_day, nearest, weekdays, nth, either)


def _days_of_month(text: str) -> tuple[int, bool, tuple[int, ...]]:
    days: set[int] = set()
    nearest: list[int] = []
    items = text.split(",")
    for item in items:
        if found := _NEAREST.fullmatch(item):
            nearest.append(_number(found[1] or found[2], DAY))
        elif item != "l":
            days |= _items(item, DAY)
    return mask(days), "l" in items, tuple(nearest)


def _weekdays(text: str) -> tuple[int, tuple[tuple[int, int], ...]]:
    weekdays: set[int] = set()
    nth: list[tuple[int, int]] = []
    for item in text.split(","):
        if found := _NTH.fullmatch(item):
            nth += [(day, int(found[2])) for day in sorted(_items(found[1], WEEKDAY))]
        elif found := _LAST_WEEKDAY.fullmatch(item):
            nth.append((_number(found[1] or found[2], WEEKDAY) % 7, 0))
        else:
            weekdays |= _items(item, WEEKDAY)
    return mask(weekdays), tuple(nth)


def _values(text: str, spec: Field) -> frozenset[int]:
    return frozenset(value for item in text.split(",") for value in _items(item, spec))


def _items(item: str, spec: Field) -> frozenset[int]:
    """Expand one item of a list: `*`, `a`, `a-b`, each maybe with `/step`."""
    found = _RANGE.fullmatch(item)
    if not found:
        raise TriggerError(f"{spec.name} {item!r} is not understood: {_allowed(spec)}")
    low_text, high_text, step_text = found.groups()
    step = int(step_text or 1)
    if step == 0:
        raise TriggerError(f"{spec.name} {item!r} has a step of 0: it has to be 1 or more")
    low = spec.low if low_text is None else _number(low_text, spec)
    high = low
    if high_text is not None:
        high = _number(high_text, spec)
    elif low_text is None or step_text is not None:
        high = 6 if spec is WEEKDAY else spec.high
    return _spread(low, high, step, spec)


def _spread(low: int, high: int, step: int, spec: Field) -> frozenset[int]:
    size = spec.high - spec.low + 1
    if spec is WEEKDAY:
        # Sunday is 0 and 7: at the end of a range it is 7, at its beginning 0.
        size = spec.high
        low = low % size if high < size else low
    if high < low:
        if spec is YEAR:
            raise TriggerError(f"year '{low}-{high}' runs backwards: the earlier one comes first")
        high += size
    return frozenset((n - spec.low) % size + spec.low for n in range(low, high + 1, step))


def _number(text: str, spec: Field) -> int:
    if text in spec.names:
        return spec.names.index(text) + spec.low
    if not text.isdigit() or not spec.low <= int(text) <= spec.high:
        raise TriggerError(f"{spec.name} {text!r} is not understood: {_allowed(spec)}")
    return int(text)


def _allowed(spec: Field) -> str:
    return f"allowed are {spec.low}-{spec.high}{spec.special}, *, a-b, */n, a/n, a-b/n and lists"
