"""The grammar of recurrence rules: what may be written, and one way to write it.

Refused is what libraries read differently or would search for ever: several rules, RDATE, EXRULE,
COUNT with UNTIL, an INTERVAL of 0, rules by the second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.recurrence import MONTHLY, YEARLY
from celery_dbbeat.rules.zone import LAST_YEAR, find_zone

_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY")
_WEEKDAYS = ("SU", "MO", "TU", "WE", "TH", "FR", "SA")
# The parts that are lists of numbers: the lowest and the highest; below 0 counts from the end.
_LISTS = {
    "BYMONTH": (1, 12),
    "BYWEEKNO": (-53, 53),
    "BYYEARDAY": (-366, 366),
    "BYMONTHDAY": (-31, 31),
    "BYHOUR": (0, 23),
    "BYMINUTE": (0, 59),
    "BYSECOND": (0, 59),
    "BYSETPOS": (-366, 366),
}
_PARTS = ("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYDAY", *_LISTS)
_EXAMPLE = "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9"
_MOST = 10_000
_FIRST_YEAR = 1900
_WEEKS = 53

_FOLDED = re.compile(r"\r?\n[ \t]")
_PROPERTY = re.compile(r"(?:(RRULE|DTSTART|EXDATE)((?:;[A-Z]+=[^:;]+)*):)?([^:]+)", re.IGNORECASE)
_BYDAY = re.compile(r"([+-]?[0-9]{1,2})?([A-Z]{2})", re.ASCII)
_NUMBER = re.compile(r"[+-]?[0-9]{1,5}", re.ASCII)
_TIME = re.compile(r"([0-9]{8})(?:T([0-9]{6})(Z)?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Time:
    """A time as it is written: local, in a zone if it names one; maybe only a day."""

    local: datetime
    zone: tzinfo | None = None
    zone_name: str = ""
    is_day: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """A rule as it is written."""

    frequency: int
    interval: int
    count: int | None
    until: Time | None
    week_start: int
    weekdays: tuple[tuple[int, int], ...]
    numbers: Mapping[str, tuple[int, ...]]
    start: Time | None
    excluded: tuple[Time, ...]
    canonical: str

    @property
    def names_a_time(self) -> bool:
        """Whether it says at what time of the day, or goes by the hour or minute."""
        return (
            any(self.numbers[part] for part in ("BYHOUR", "BYMINUTE", "BYSECOND"))
            or _FREQUENCIES[self.frequency] in {"HOURLY", "MINUTELY"}
            or (self.start is not None and not self.start.is_day)
        )


def read_rule(text: str) -> Written:
    """Read one RRULE, with DTSTART and EXDATE where they are given."""
    rules: list[str] = []
    starts: list[Time] = []
    excluded: list[Time] = []
    shown: list[str] = []
    for line in _FOLDED.sub("", text.strip()).split():
        found = _PROPERTY.fullmatch(line)
        name = (found[1] or "RRULE").upper() if found else ""
        if found is None or (name == "RRULE" and found[2]):
            raise TriggerError(f"{line[:60]!r} is not understood: {_allowed()}")
        if name == "RRULE":
            rules.append(found[3].upper())
            continue
        times = [_time(name, value, found[2] or "") for value in found[3].upper().split(",")]
        (starts if name == "DTSTART" else excluded).extend(times)
        shown.append(f"{name}{(found[2] or '')}:{found[3].upper()}")
    if len(rules) != 1 or len(starts) > 1:
        raise TriggerError(f"has {len(rules)} rules and {len(starts)} DTSTART: {_allowed()}")
    parts = _parts(rules[0])
    rule = ";".join(f"{name}={parts[name]}" for name in _PARTS if name in parts)
    shown = sorted(set(shown))  # DTSTART comes first
    canonical = "\n".join([*shown[: len(starts)], f"RRULE:{rule}", *shown[len(starts) :]])
    return _written(parts, starts[0] if starts else None, tuple(excluded), canonical)


def _allowed() -> str:
    return f"one RRULE is needed, such as {_EXAMPLE!r}; one DTSTART and EXDATE are allowed"


def _parts(rule: str) -> dict[str, str]:
    parts: dict[str, str] = {}
    for pair in rule.rstrip(";").split(";"):
        name, equals, value = pair.partition("=")
        if name not in _PARTS or not equals or name in parts:
            raise TriggerError(
                f"{pair[:60]!r} is not understood: allowed are {', '.join(_PARTS)}, each once"
            )
        parts[name] = value
    for name, implied in (("INTERVAL", "1"), ("WKST", "MO")):
        if parts.get(name) == implied:
            del parts[name]
    return parts


def _written(
    parts: dict[str, str], start: Time | None, excluded: tuple[Time, ...], canonical: str
) -> Written:
    if parts.get("FREQ") not in _FREQUENCIES:
        raise TriggerError(
            f"FREQ {parts.get('FREQ')!r} is not allowed: allowed are {', '.join(_FREQUENCIES)}; "
            "by the second there are intervals"
        )
    if "COUNT" in parts and "UNTIL" in parts:
        raise TriggerError("has both COUNT and UNTIL: one of them is allowed")
    frequency = _FREQUENCIES.index(parts["FREQ"])
    if parts.get("WKST", "MO") not in _WEEKDAYS:
        raise TriggerError(f"WKST {parts['WKST']!r} is not allowed: {', '.join(_WEEKDAYS)} are")
    return Written(
        frequency,
        _number("INTERVAL", parts.get("INTERVAL", "1"), 1, _MOST),
        _number("COUNT", parts["COUNT"], 1, _MOST) if "COUNT" in parts else None,
        _time("UNTIL", parts["UNTIL"], "") if "UNTIL" in parts else None,
        _WEEKDAYS.index(parts.get("WKST", "MO")),
        _weekdays(parts["BYDAY"], frequency) if "BYDAY" in parts else (),
        {
            name: _numbers(name, parts[name], low, high) if name in parts else ()
            for name, (low, high) in _LISTS.items()
        },
        start,
        excluded,
        canonical,
    )


def _numbers(name: str, text: str, low: int, high: int) -> tuple[int, ...]:
    numbers = {_number(name, item, low, high) for item in text.split(",")}
    if low < 0 and 0 in numbers:
        raise TriggerError(f"{name} 0 is not allowed: it counts from 1, or from the end from -1")
    return tuple(sorted(numbers))


def _number(name: str, text: str, low: int, high: int) -> int:
    if not _NUMBER.fullmatch(text) or not low <= int(text) <= high:
        raise TriggerError(f"{name} {text[:60]!r} is not allowed: {low} to {high} are")
    return int(text)


def _weekdays(text: str, frequency: int) -> tuple[tuple[int, int], ...]:
    found: set[tuple[int, int]] = set()
    for item in text.split(","):
        read = _BYDAY.fullmatch(item)
        number = int(read[1]) if read and read[1] else 0
        if read is None or read[2] not in _WEEKDAYS or (read[1] and not 1 <= abs(number) <= _WEEKS):
            raise TriggerError(
                f"BYDAY {item[:60]!r} is not understood: allowed are {', '.join(_WEEKDAYS)}, "
                f"by the month and year also such as 2MO and -1FR, up to {_WEEKS}"
            )
        if number and frequency not in {YEARLY, MONTHLY}:
            raise TriggerError(
                f"BYDAY {item!r} has a number, which only YEARLY and MONTHLY rules may have"
            )
        found.add((_WEEKDAYS.index(read[2]), number))
    return tuple(sorted(found))


def _time(name: str, text: str, parameters: str) -> Time:
    found = _TIME.fullmatch(text)
    zone_name, is_day = _parameters(name, parameters)
    local = _local(found[1] + (found[2] or "000000")) if found else None
    if found is None or local is None or (is_day and found[2]) or (found[3] and zone_name):
        raise TriggerError(
            f"{name} {text[:60]!r} is not understood: it has to look like 20300131T093000, "
            f"20300131T083000Z or 20300131, from {_FIRST_YEAR} to {LAST_YEAR}, in at most one zone"
        )
    if found[3]:
        return Time(local, find_zone("UTC"), "UTC")
    zone = find_zone(zone_name) if zone_name else None
    return Time(local, zone, zone_name, found[2] is None)


def _local(digits: str) -> datetime | None:
    try:
        local = datetime.strptime(digits, "%Y%m%d%H%M%S")  # noqa: DTZ007 - a local time
    except ValueError:
        return None
    return local if _FIRST_YEAR <= local.year <= LAST_YEAR else None


def _parameters(name: str, text: str) -> tuple[str, bool]:
    """Read what stands between the name of a property and its colon."""
    zone_name, is_day = "", False
    for parameter in text.split(";")[1:]:
        key, _, value = parameter.partition("=")
        if key.upper() == "TZID":
            zone_name = value
        elif key.upper() == "VALUE" and value.upper() in {"DATE", "DATE-TIME"}:
            is_day = value.upper() == "DATE"
        else:
            raise TriggerError(
                f"{name} {parameter[:60]!r} is not understood: allowed are TZID=, VALUE=DATE "
                "and VALUE=DATE-TIME"
            )
    return zone_name, is_day
