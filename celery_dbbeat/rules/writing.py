"""Values of Python as the columns of a schedule hold them: its *when* as text, the rest as JSON."""

import json
import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from celery_dbbeat.errors import ScheduleError

CRONTAB_FIELDS = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")

# Text that Postgres cannot hold in JSON, as it stands there: an escape that is not itself escaped.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def celery_trigger(value: Any) -> tuple[str, str]:  # noqa: ANN401 - Celery's have no types
    """Kind and expression of one of Celery's own schedule objects."""
    # Celery is slow to import, and who writes text has no need of it.
    from celery.schedules import crontab, schedule, solar  # noqa: PLC0415

    if getattr(value, "nowfun", None) is not None:
        raise ScheduleError("its schedule has a nowfun, which is code and cannot be stored")
    # Exact types: a subclass may mean something else, and would be stored as what it is not.
    if type(value) is schedule:
        return "interval", seconds_text(value.run_every)
    if type(value) is crontab:
        return "crontab", crontab_text(
            {name: getattr(value, f"_orig_{name}") for name in CRONTAB_FIELDS}
        )
    if type(value) is solar:
        return "solar", f"{value.event} {value.lat} {value.lon}"
    raise ScheduleError(
        f"its schedule is {value!r}; allowed is a number of seconds, a timedelta, or Celery's own "
        "schedule, crontab or solar"
    )


def crontab_text(fields: Mapping[str, object]) -> str:
    """Celery's five fields as an expression; sets and lists as it writes them."""
    return json.dumps({name: _field_text(value) for name, value in fields.items()})


def _field_text(value: object) -> str:
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ",".join(str(part) for part in sorted(value))
    return str(value)


def seconds_text(every: timedelta | float) -> str:
    """An interval as plain decimal text, in whole microseconds."""
    seconds = every.total_seconds() if isinstance(every, timedelta) else every
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def json_text(what: str, value: object) -> str:
    """JSON that gives back the same value; raise ScheduleError where there is none."""
    try:
        text = json.dumps(value, allow_nan=False, sort_keys=True)
        storable = not _NUL.search(text) and json.dumps(value, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ScheduleError(
            f"{what} is {value!r:.200}, which JSON cannot hold: {error}; what has to be computed "
            "when the task is sent (BeatLazyFunc) has to be computed in the task"
        ) from None
    if not storable:
        raise ScheduleError(f"{what} is {value!r:.200}; allowed is text without NUL characters")
    if json.loads(text) != _listed(value):
        raise ScheduleError(f"{what} is {value!r:.200}, which JSON would change to {text:.200}")
    return text


def _listed(part: object) -> object:
    """The value with tuples as lists, as JSON gives it back."""
    if isinstance(part, dict):
        return {key: _listed(inner) for key, inner in part.items()}
    return [_listed(inner) for inner in part] if isinstance(part, list | tuple) else part
