"""A schedule and where it stands, as values."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.exclude import excluding
from celery_dbbeat.rules.trigger import Trigger, parse_trigger


@dataclass(frozen=True, slots=True)
class Schedule:
    """What to send and when. The JSON columns stay text until a message is built."""

    id: UUID
    version: int
    name: str
    task: str
    kind: str
    expression: str
    timezone: str = "UTC"
    args: str = "[]"
    kwargs: str = "{}"
    options: str = "{}"
    misfire_grace: timedelta | None = timedelta(hours=1)
    jitter: timedelta = timedelta(0)
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    overlap: str = "allow"
    max_concurrent: int = 1
    catch_up: str = "latest"
    catch_up_limit: int | None = None
    exclude: str = "[]"

    @property
    def trigger(self) -> Trigger:
        """The *when* alone; raises TriggerError where it cannot be understood."""
        trigger = parse_trigger(self.kind, self.expression, self.timezone, self.start_at, self.name)
        if self.exclude == "[]":
            return trigger
        return excluding(trigger, self.exclude, self.timezone)

    def parsed_args(self) -> list[Any]:
        """The positional arguments."""
        args = _parse(self.args)
        if not isinstance(args, list):
            raise ScheduleError(f"args is {self.args[:200]}; allowed is a JSON array")
        return args

    def parsed_kwargs(self) -> dict[str, Any]:
        """The keyword arguments."""
        return parse_object("kwargs", self.kwargs)

    def parsed_options(self) -> dict[str, Any]:
        """The options, as for `apply_async`."""
        return parse_object("options", self.options)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a schedule stands: its next nominal and due time.

    `replan_from` set: the schedule is new or its *when* changed; the next fire time is to be sought
    after that instant. `held_at` set: it was not active from then until `replan_from`.
    """

    nominal_at: datetime | None
    due_at: datetime | None
    replan_from: datetime | None = None
    held_at: datetime | None = None
    runs: int = 0


def _parse(text: str) -> object:
    # A fresh value each time: what builds a message may change it.
    return [] if text == "[]" else {} if text == "{}" else json.loads(text)


def parse_object(column: str, text: str) -> dict[str, Any]:
    """Read the JSON object of a column."""
    value = _parse(text)
    if not isinstance(value, dict):
        raise ScheduleError(f"{column} is {text[:200]}; allowed is a JSON object")
    return value
