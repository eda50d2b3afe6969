"""A recurrence rule as RedBeat stores it: the arguments of dateutil's `rrule`, as JSON.

Of the zone in which a rule starts RedBeat keeps the offset alone, so that a rule written for
New York runs at a fixed offset all year. It goes on like that here: in a zone that has that offset
and never changes its clocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from celery_dbbeat.contrib.importers.entry import UTC
from celery_dbbeat.errors import ScheduleError

_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY", "SECONDLY")
_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_HOUR = 60
# Zones without a whole hour's offset that change no clocks.
_ODD = {
    -570: "Pacific/Marquesas",
    210: "Asia/Tehran",
    270: "Asia/Kabul",
    330: "Asia/Kolkata",
    345: "Asia/Kathmandu",
    390: "Asia/Yangon",
    525: "Australia/Eucla",
    570: "Australia/Darwin",
}
_FURTHEST_WEST, _FURTHEST_EAST = -12, 14
# In the order of RFC 5545's examples.
_PARTS = (
    ("interval", "INTERVAL"),
    ("count", "COUNT"),
    ("bysetpos", "BYSETPOS"),
    ("bymonth", "BYMONTH"),
    ("bymonthday", "BYMONTHDAY"),
    ("byyearday", "BYYEARDAY"),
    ("byweekno", "BYWEEKNO"),
    ("byhour", "BYHOUR"),
    ("byminute", "BYMINUTE"),
    ("bysecond", "BYSECOND"),
)


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule as RFC 5545 has it, with its start, and the zone that it counts in."""

    text: str
    timezone: str
    remarks: tuple[str, ...]


def read_rule(given: Mapping[str, Any]) -> Rule:
    """Read what RedBeat wrote; raise ScheduleError for what RFC 5545 has no words for."""
    if given.get("byeaster") is not None:
        raise ScheduleError("its rule has byeaster, which RFC 5545 does not know")
    if given.get("dtstart") is None:
        raise ScheduleError("its rule has no dtstart: it counts from nowhere")
    offset = int(given.get("dtstart_tz") or 0)
    start = datetime.fromtimestamp(given["dtstart"], tz=UTC)
    local = start.astimezone(timezone(timedelta(minutes=offset)))
    parts = [f"FREQ={_FREQUENCIES[int(given['freq'])]}"]
    for name, part in _PARTS:
        value = given.get(name)
        if value is not None and (name, value) != ("interval", 1):
            parts.append(f"{part}={_list(value)}")
    if given.get("byweekday") is not None:
        parts.append(f"BYDAY={_days(given['byweekday'])}")
    if given.get("wkst") is not None:
        parts.append(f"WKST={_days(given['wkst'])}")
    if given.get("until") is not None:
        until = datetime.fromtimestamp(given["until"], tz=UTC)
        parts.append(f"UNTIL={until:%Y%m%dT%H%M%SZ}")
    text = f"DTSTART:{local:%Y%m%dT%H%M%S}\nRRULE:{';'.join(parts)}"
    remarks = (f"at the fixed offset {local:%z}, as there: no zone is kept",) if offset else ()
    return Rule(text, _zone(offset), remarks)


def _zone(offset: int) -> str:
    if offset == 0:
        return "UTC"
    hours, minutes = divmod(offset, _HOUR)
    if minutes == 0 and _FURTHEST_WEST <= hours <= _FURTHEST_EAST:
        # Their signs are the other way round.
        return f"Etc/GMT{-hours:+d}"
    if offset not in _ODD:
        raise ScheduleError(f"its rule is at an offset of {offset} minutes, which no zone keeps")
    return _ODD[offset]


def _list(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _days(value: object) -> str:
    return ",".join(map(_day, value if isinstance(value, list) else [value]))


def _day(value: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, dict):
        # RedBeat writes the day of dateutil's MO(+1), and forgets which one of the month.
        return _DAYS[int(value["wkday"])]
    return _DAYS[int(value)]
