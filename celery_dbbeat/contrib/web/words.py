"""Values as the pages show them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.describe import describe
from celery_dbbeat.store.managing import ScheduleInfo

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def instant(at: datetime | None) -> str:
    """A time in UTC."""
    return "–" if at is None else f"{at:%Y-%m-%d %H:%M:%S}"


def span(value: timedelta | float | None) -> str:
    """How long, with two units at most."""
    if value is None:
        return "–"
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if abs(seconds) < 60:  # noqa: PLR2004 - a minute
        return f"{seconds:.3g} s"
    left, parts = round(seconds), []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def pretty(value: object) -> str:
    """JSON for people."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def when(info: ScheduleInfo) -> str:
    """The *when* in words, or as it is written where it cannot be understood."""
    try:
        return describe(info.draft().as_schedule(info.id))
    except ScheduleError:
        return f"{info.kind} {info.expression}"


def labels(value: Mapping[str, Any]) -> list[str]:
    """Each label as it is sought for."""
    return [
        f"{key}={one if isinstance(one, str) and read_label(one) == one else pretty(one)}"
        for key, one in value.items()
    ]


def read_label(text: str) -> object:
    """The value of a label: what JSON knows is that, the rest is text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def short(value: object) -> str:
    """An id that is known by its beginning."""
    text = str(value)
    return text[:8] if isinstance(value, UUID) else text[:80]


FILTERS: dict[str, Callable[..., Any]] = {
    one.__name__: one for one in (instant, span, pretty, when, labels, short)
}
