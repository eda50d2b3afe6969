"""A schedule and where it stands, as values."""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.exclude import excluding
from celery_dbbeat.rules.trigger import Trigger, parse_trigger

#: A fire time that is later than this was not merely slow: nobody was dispatching.
ON_TIME = timedelta(seconds=60)


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

    @property
    def grace(self) -> timedelta | None:
        """How late a fire time may be and still be sent; None: however late."""
        if self.catch_up != "none":
            return self.misfire_grace
        return ON_TIME if self.misfire_grace is None else min(ON_TIME, self.misfire_grace)

    def until(self, changed_at: datetime, before: str) -> "Schedule":
        """The same schedule by the *when* that it had before it was changed at that instant."""
        when = json.loads(before)
        bounds = {name: _instant(when.pop(name)) for name in ("start_at", "end_at")}
        end_at = changed_at if bounds["end_at"] is None else min(changed_at, bounds["end_at"])
        return replace(self, **when, start_at=bounds["start_at"], end_at=end_at)

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
    after that instant. `held_at` set: it was not active from then until `replan_from`. `before`:
    the *when* of fire times that had passed when it was changed, and are not decided.

    `waits_for` a `turn`: its next fire time is late, and goes when there is room; a `run`: one has
    to end first. Neither is due: `due_at` is None. `range_at`, `range_until`, `range_state`: the
    range that ends with the fire time before this one.
    """

    nominal_at: datetime | None
    due_at: datetime | None
    replan_from: datetime | None = None
    held_at: datetime | None = None
    runs: int = 0
    waits_for: Literal["turn", "run"] | None = None
    waits_since: datetime | None = None
    range_at: datetime | None = None
    range_until: datetime | None = None
    range_state: str | None = None
    before: str | None = None

    @property
    def plain(self) -> bool:
        """Whether it remembers nothing but the next fire time, as nearly all do."""
        return self.waits_for is None and self.range_at is None and self.before is None


def _instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _parse(text: str) -> object:
    # A fresh value each time: what builds a message may change it.
    return [] if text == "[]" else {} if text == "{}" else json.loads(text)


def parse_object(column: str, text: str) -> dict[str, Any]:
    """Read the JSON object of a column."""
    value = _parse(text)
    if not isinstance(value, dict):
        raise ScheduleError(f"{column} is {text[:200]}; allowed is a JSON object")
    return value
