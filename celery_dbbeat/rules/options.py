"""What a schedule's `options` may say.

Celery checks little of it where a message is built. A time limit that is no number ends the worker
that gets it, with all its other tasks, and a header named `id` sends a tick under another id. So
these are refused before anything is sent.
"""

import math
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeGuard

from celery_dbbeat.errors import ScheduleError

#: What belongs to the sending, not to the message.
_RESERVED = frozenset({"task_id", "producer", "connection", "publisher", "router", "result_cls"})

#: Headers in which Celery itself says what a message is.
_CELERYS = frozenset({"id", "task", "lang", "retries", "timelimit", "eta", "expires"})

_MOST_PRIORITY = 255


def check_options(options: Mapping[str, Any]) -> None:
    """Raise ScheduleError for the first option that no worker could use."""
    refused = sorted(_RESERVED & options.keys())
    if refused:
        raise ScheduleError(
            f"options has {', '.join(refused)}; allowed is what apply_async takes, but for "
            f"{', '.join(sorted(_RESERVED))}"
        )
    for name, (is_allowed, allowed) in _CHECKS.items():
        value = options.get(name)
        if value is not None and not is_allowed(value):
            raise ScheduleError(f"options.{name} is {value!r}; allowed is {allowed}")


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_time_limit(value: object) -> bool:
    return _is_number(value) and 0 < value < math.inf


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_instant(value: object) -> bool:
    if not isinstance(value, str):
        return isinstance(value, datetime)
    try:
        datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return False
    return True


def _are_headers(value: object) -> bool:
    return isinstance(value, Mapping) and not _CELERYS & value.keys()


_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "time_limit": (_is_time_limit, "a number of seconds above 0"),
    "soft_time_limit": (_is_time_limit, "a number of seconds above 0"),
    "countdown": (_is_number, "a number of seconds"),
    "expires": (
        lambda value: _is_number(value) or _is_instant(value),
        "a number of seconds, or an ISO-8601 instant",
    ),
    "eta": (_is_instant, "an ISO-8601 instant"),
    "priority": (
        lambda value: _is_whole(value) and value <= _MOST_PRIORITY,
        f"a whole number from 0 to {_MOST_PRIORITY}",
    ),
    "retries": (_is_whole, "a whole number from 0"),
    "headers": (_are_headers, f"an object without {', '.join(sorted(_CELERYS))}"),
}
