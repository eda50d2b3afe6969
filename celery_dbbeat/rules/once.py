"""One instant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import Trigger
from celery_dbbeat.rules.zone import UTC, to_instant

# Own grammar, as what datetime.fromisoformat takes differs between versions of Python.
_INSTANT = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ](?P<minute>[0-9]{2}:[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]{1,6}))?)?"
    r"(?P<offset>[Zz]|(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-5][0-9]))?)?"
)


@dataclass(frozen=True, slots=True)
class Once(Trigger):
    """Fires at `at` and never again."""

    at: datetime

    def next(self, after: datetime) -> datetime | None:
        """Return the instant while it is still to come."""
        return self.at if after < self.at else None


def parse_once(expression: str, zone: tzinfo) -> Once:
    """Read an ISO-8601 instant; without an offset it is a local time of the schedule's zone."""
    found = _INSTANT.fullmatch(expression.strip())
    instant = _instant(found, zone) if found else None
    if instant is None:
        raise TriggerError(
            f"once {expression[:60]!r} is not an instant: it has to look like "
            "'2030-01-31T09:30:00+01:00', '2030-01-31T08:30:00Z' or, in the schedule's "
            "timezone, '2030-01-31T09:30:00'"
        )
    return Once(instant)


def _instant(found: re.Match[str], zone: tzinfo) -> datetime | None:
    fraction = (found["fraction"] or "").ljust(6, "0")
    text = f"{found['day']}T{found['minute']}:{found['second'] or '00'}.{fraction}"
    try:
        local = datetime.fromisoformat(text)
        if found["offset"] is None:
            return to_instant(local, zone)
        return local.replace(tzinfo=_offset(found)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _offset(found: re.Match[str]) -> timezone:
    if found["sign"] is None:
        return UTC
    offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
    return timezone(-offset if found["sign"] == "-" else offset)
