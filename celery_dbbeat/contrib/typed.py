"""What a definition would do while somebody types it: its words, its fire times, its problems.

The answer is a dictionary that JSON can hold. All of it is what the API itself says of the
definition, so a form that shows it cannot promise something else than what is written later.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from celery_dbbeat.errors import FieldError, ScheduleError
from celery_dbbeat.rules.describe import describe
from celery_dbbeat.rules.preview import dst_case
from celery_dbbeat.rules.zone import find_zone

if TYPE_CHECKING:
    from celery_dbbeat.api import ScheduleInfo, Schedules

_NOBODY = UUID(int=0)
#: The fields that say when, whichever way it is given.
_WHEN = frozenset(
    {"kind", "expression", "cron", "crontab", "interval", "rrule", "solar", "once"}
    | {"timezone", "start_at", "end_at", "max_runs", "exclude"}
)
_CLOCKS = {
    "none": "",
    "gap": "clocks skip this time that day: the first instant after it",
    "fold": "clocks show this time twice that day",
}


def look(
    schedules: Schedules,
    given: Mapping[str, Any],
    base: ScheduleInfo | None = None,
    n: int = 10,
) -> dict[str, Any]:
    """Look at a new definition, or at the changes of a schedule that is there.

    `description` and `times` come from the fields that say when, whatever else is wrong;
    `problems` holds a message for each field with one. Nothing is written.
    """
    known = {"name": "preview", "task": "preview", **given} if base is None else dict(given)
    draft = None if base is None else base.draft()
    problems: dict[str, str] = {}
    for problem in schedules.definitions.problems(known, draft):
        problems.setdefault(problem.field, str(problem))
    answer: dict[str, Any] = {"description": "", "times": [], "problems": problems}
    try:
        when = {name: value for name, value in known.items() if name in _WHEN}
        if base is None:
            when |= {"name": "preview", "task": "preview"}
        changed = schedules.definitions.draft(when, draft)
        schedule = changed.as_schedule(_NOBODY if base is None else base.id)
        answer["description"] = describe(schedule)
        columns = ("kind", "expression", "timezone", "start_at", "end_at", "max_runs")
        wanted = {name: getattr(changed, name) for name in columns}
        zone = find_zone(schedule.timezone)
        for at in schedules.preview({**wanted, "exclude": json.loads(changed.exclude)}, n):
            local = at.astimezone(zone)
            answer["times"].append(
                {
                    "utc": at.isoformat(),
                    "local": f"{local:%a %Y-%m-%d %H:%M:%S %Z}",
                    "dst": _CLOCKS[dst_case(schedule, at)],
                }
            )
    except FieldError as problem:
        problems.setdefault(problem.field, str(problem))
    except ScheduleError as problem:
        problems.setdefault("expression", str(problem))
    return answer
