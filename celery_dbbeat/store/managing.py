"""Schedules as people write and read them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.firetimes import upcoming
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.tick import due_at, task_id
from celery_dbbeat.store.database import Transaction
from celery_dbbeat.store.rows import UTC, schedule_of, utc

#: So many schedules are written or deleted by one statement.
AT_ONCE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """All that people may write of a schedule, as the columns hold it: JSON is text here.

    `state` None: active where it is new, else as it is.
    """

    name: str
    task: str
    kind: str
    expression: str
    timezone: str = "UTC"
    args: str = "[]"
    kwargs: str = "{}"
    options: str = "{}"
    state: str | None = None
    note: str | None = None
    misfire_grace: timedelta | None = timedelta(hours=1)
    catch_up: str = "latest"
    catch_up_limit: int | None = None
    overlap: str = "allow"
    max_concurrent: int = 1
    jitter: timedelta = timedelta(0)
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    exclude: str = "[]"
    labels: str = "{}"
    description: str = ""
    max_attempts: int | None = None
    on_failure: str = "dead"
    resend_after: timedelta | None = None
    pause_after: int | None = None

    def as_schedule(self, identity: UUID) -> Schedule:
        """What the rules know a schedule by."""
        return Schedule(
            id=identity, version=1, **{name: getattr(self, name) for name in _KNOWN_TO_RULES}
        )


#: What of a schedule people may write, and what of that the rules look at.
COLUMNS = tuple(one.name for one in fields(Draft))
_KNOWN_TO_RULES = tuple({one.name for one in fields(Schedule)}.intersection(COLUMNS))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleInfo:
    """A schedule, and where it stands: all columns of its row, and its next fire time.

    `next_nominal` is the fire time by the schedule, `next_due` the same with jitter; both are None
    where it is not active or has no fire time left, `next_due` also while it waits for room or for
    a run to end. `runs` is how many ticks it has had.
    """

    id: UUID
    name: str
    task: str
    kind: str
    expression: str
    timezone: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    state: str
    reason: str | None
    note: str | None
    misfire_grace: timedelta | None
    catch_up: str
    catch_up_limit: int | None
    overlap: str
    max_concurrent: int
    jitter: timedelta
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    exclude: list[Any]
    labels: dict[str, Any]
    description: str
    max_attempts: int | None
    on_failure: str
    resend_after: timedelta | None
    pause_after: int | None
    owner: str
    version: int
    created_at: datetime
    updated_at: datetime
    runs: int
    next_nominal: datetime | None
    next_due: datetime | None

    def draft(self) -> Draft:
        """What of it people may write."""
        values = {name: getattr(self, name) for name in COLUMNS}
        return Draft(**values | {name: _json(values[name]) for name in _JSON})


_JSON = ("args", "kwargs", "options", "exclude", "labels")


@dataclass(frozen=True, slots=True)
class Written:
    """The names that a writing made, changed, and left as they were."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()

    def __add__(self, other: "Written") -> "Written":
        return Written(
            self.created + other.created,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """Which schedules a list holds; None does not count. `words` is a tsquery, `labels` JSON."""

    after: str | None = None
    state: str | None = None
    task: str | None = None
    queue: str | None = None
    owner: str | None = None
    labels: str | None = None
    words: str | None = None


#: Of what is common, a page is likely to be among so many in the order of their names; what is rare
#: is quickly sorted. Words are taken out of each text anew, so fewer are looked at for them.
_NEAR = 10_000
_NEAR_BY_WORDS = 1000


def read(transaction: Transaction, names: Sequence[str]) -> list[ScheduleInfo]:
    """These schedules, in the order of their names; what is not there is left out."""
    return [_info(row) for row in transaction.run("read_schedules", names=list(names)).all]


def page(transaction: Transaction, conditions: Conditions, limit: int) -> list[ScheduleInfo]:
    """Schedules in the order of their names, up to so many."""
    transaction.run("prefer_order")
    return read(transaction, _names(transaction, conditions, limit))


def _names(transaction: Transaction, conditions: Conditions, limit: int) -> list[str]:
    given = {one.name: getattr(conditions, one.name) for one in fields(conditions)}
    if conditions.labels is None and conditions.words is None:
        del given["labels"], given["words"]
        return _column(transaction, "list_names", limit=limit, **given)
    within = _NEAR if conditions.words is None else _NEAR_BY_WORDS
    near = _column(transaction, "list_names_near", limit=limit, within=within, **given)
    if len(near) == limit:
        return near
    return _column(transaction, "list_names_found", limit=limit, **given)


def _column(transaction: Transaction, statement: str, **given: object) -> list[str]:
    return [row["name"] for row in transaction.run(statement, **given).all]


def put(transaction: Transaction, drafts: Sequence[Draft], *, overwrite: bool) -> Written:
    """Insert schedules, overwriting those of people that are there where that is asked for."""
    kept = [draft for draft in drafts if draft.state is None]
    told = [draft for draft in drafts if draft.state is not None]
    written = _put(transaction, kept, overwrite=overwrite, keep_state=True)
    return written + _put(transaction, told, overwrite=overwrite, keep_state=False)


def _put(
    transaction: Transaction, drafts: Sequence[Draft], *, overwrite: bool, keep_state: bool
) -> Written:
    if not drafts:
        return Written()
    # In one order, so that no two of these wait for each other.
    ordered = sorted(drafts, key=lambda draft: draft.name)
    columns = {name: [getattr(draft, name) for draft in ordered] for name in COLUMNS}
    flags = {"overwrite": overwrite, "keep_state": keep_state}
    rows = transaction.run("put_schedules", **columns, **flags).all
    created = {row["name"] for row in rows if row["created"]}
    updated = {row["name"] for row in rows} - created
    names = [draft.name for draft in ordered]
    return Written(
        tuple(name for name in names if name in created),
        tuple(name for name in names if name in updated),
        tuple(name for name in names if name not in created and name not in updated),
    )


def change(transaction: Transaction, identity: UUID, version: int, draft: Draft) -> bool:
    """Write a schedule anew, if it still is at that version."""
    values = asdict(draft)
    return bool(transaction.run("change_schedule", id=identity, version=version, **values).all)


def delete(transaction: Transaction, names: Sequence[str]) -> int:
    """Delete those schedules that are there and people's; returns how many."""
    return len(transaction.run("delete_schedules", names=list(names)).all)


def owners(transaction: Transaction, names: Sequence[str]) -> dict[str, str]:
    """Whose schedules these are, by name; what is not there is left out."""
    rows = transaction.run("names_taken", names=list(names)).all
    return {row["name"]: row["owner"] for row in rows}


def _info(row: Mapping[str, Any]) -> ScheduleInfo:
    values = {one.name: row[one.name] for one in fields(ScheduleInfo) if one.name in row}
    values |= {name: json.loads(row[name]) for name in _JSON}
    values |= {name: utc(row[name]) for name in ("start_at", "end_at", "created_at", "updated_at")}
    nominal, due = _next(row)
    return ScheduleInfo(**values, id=row["schedule_id"], next_nominal=nominal, next_due=due)


def _next(row: Mapping[str, Any]) -> tuple[datetime | None, datetime | None]:
    """Where the schedule stands; what beat has not planned yet, as beat will."""
    if row["due_at"] is None:
        # One that is active and not due waits: for room, or for a run to end.
        return (utc(row["nominal_at"]) if row["state"] == "active" else None), None
    if row["replan_from"] is None:
        return utc(row["nominal_at"]), utc(row["due_at"])
    schedule = schedule_of(dict(row))
    try:
        found = upcoming(schedule, row["replan_from"].astimezone(UTC), 1)
    except TriggerError:  # beat will find the same, and say so in its reason
        return None, None
    if not found:
        return None, None
    return found[0], due_at(task_id(schedule.id, found[0]), found[0], schedule.jitter)


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)
