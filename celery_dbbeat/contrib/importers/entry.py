"""What a reader gives: an entry of another beat as a row of ours, or why it cannot be one."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.options import check_options
from celery_dbbeat.rules.trigger import parse_trigger
from celery_dbbeat.store.imports import ImportedSchedule

UTC = timezone.utc
INSTANT = timedelta(microseconds=1)

_LONGEST_NAME = 500
_LONGEST_EXPRESSION = 10_000
# What the columns hold.
_FIRST, _LAST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """A schedule, the instant after which it goes on, and what will not be as it was.

    That is its last run over there; of what never ran, since when it has been waiting.
    """

    schedule: ImportedSchedule
    go_on_from: datetime | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry that cannot be carried over, or need not be, and why."""

    source_id: str
    name: str
    reason: str
    needless: bool = False


def check(schedule: ImportedSchedule) -> None:
    """Raise ScheduleError for what the table or the planner would refuse."""
    for field, text in (("name", schedule.name), ("task", schedule.task)):
        if not 1 <= len(text) <= _LONGEST_NAME or "\0" in text:
            raise ScheduleError(
                f"{field} is {text!r:.60}; allowed are 1 to {_LONGEST_NAME} characters"
            )
    if len(schedule.expression) > _LONGEST_EXPRESSION:
        raise ScheduleError(f"its expression is longer than {_LONGEST_EXPRESSION} characters")
    for field, instant in (("start_at", schedule.start_at), ("end_at", schedule.end_at)):
        if instant is not None and not _FIRST <= instant < _LAST:
            raise ScheduleError(
                f"{field} is {instant.isoformat()}; allowed is {_FIRST.year} to {_LAST.year - 1}"
            )
    check_options(json.loads(schedule.options))
    parse_trigger(schedule.kind, schedule.expression, schedule.timezone, schedule.start_at)


def read_json(what: str, text: str | None, kind: type[list[Any]] | type[dict[str, Any]]) -> Any:  # noqa: ANN401 - JSON
    """The value of a JSON text; an empty one stands for an empty value."""
    try:
        value = json.loads(text) if text else kind()
    except (ValueError, RecursionError) as error:
        raise ScheduleError(f"{what} is {text!r:.60}, which is not JSON: {error}") from None
    if not isinstance(value, kind):
        names = {list: "array", dict: "object"}
        raise ScheduleError(f"{what} is {text!r:.60}; allowed is a JSON {names[kind]}")
    return value
