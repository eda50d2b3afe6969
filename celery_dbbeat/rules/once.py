"""One instant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import DstCase, Trigger
from celery_dbbeat.rules.zone import UTC, instants_of, is_in_range, to_instant

# Own grammar, as what datetime.fromisoformat takes differs between versions of Python.
_INSTANT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?P<minute>[0-9]{2}:[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,6}))?)?"
    r"(?P<offset>[Zz]|(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-5][0-9]))?)?"
)


@dataclass(frozen=True, slots=True)
class Once(Trigger):
    """Fires at `at` and never again; `case` is what the clocks do then, if it is a local time."""

    at: datetime
    case: DstCase = "none"

    @property
    def canonical(self) -> str:
        """The instant in UTC."""
        return self.at.isoformat()

    def next(self, after: datetime) -> datetime | None:
        """Return the instant while it is still to come."""
        return self.at if after < self.at else None

    def dst_case(self, instant: datetime) -> DstCase:  # noqa: ARG002 - there is but one
        """Say what the clocks did at that time."""
        return self.case


def parse_once(expression: str, zone: tzinfo) -> Once:
    """Read an ISO-8601 instant; without an offset it is a local time of the schedule's zone."""
    try:
        once = _once(read_time(expression), zone)
    except (ValueError, OverflowError):
        once = None
    if once is None or not is_in_range(once.at):
        raise TriggerError(
            f"once {expression[:60]!r} is not an instant: it has to look like "
            "'2030-01-31T09:30:00+01:00', '2030-01-31T08:30:00Z' or, in the schedule's "
            "timezone, '2030-01-31T09:30:00'"
        )
    return once


def read_time(text: str) -> datetime:
    """Read an instant, in UTC, or a local time, naive; ValueError if it is none."""
    found = _INSTANT.fullmatch(text.strip())
    if found is None:
        raise ValueError(text[:60])
    fraction = (found["fraction"] or "").ljust(6, "0")
    local = datetime.fromisoformat(
        f"{found['day']}T{found['minute']}:{found['second'] or '00'}.{fraction}"
    )
    if found["offset"] is None:
        return local
    return local.replace(tzinfo=_offset(found)).astimezone(UTC)


def _once(time: datetime, zone: tzinfo) -> Once:
    if time.tzinfo is not None:
        return Once(time)
    at = to_instant(time, zone)
    if at.astimezone(zone).replace(tzinfo=None) != time:
        return Once(at, "gap")
    return Once(at, "fold" if len(instants_of(time, zone)) > 1 else "none")


def _offset(found: re.Match[str]) -> timezone:
    if found["sign"] is None:
        return UTC
    offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
    return timezone(-offset if found["sign"] == "-" else offset)
