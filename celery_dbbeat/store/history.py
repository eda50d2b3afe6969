"""What became of a schedule's fire times, which ticks are dead, and how they are sent again."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from celery_dbbeat.errors import NotFound, ScheduleError
from celery_dbbeat.store.database import Transaction
from celery_dbbeat.store.rows import UTC, utc

#: How far back is looked, in days, until there is enough; at last everything. See history.sql.
_WINDOWS = (8, 24, 56)
_EVER = datetime.min.replace(tzinfo=UTC)

#: So many dead ticks are sent again by one statement.
_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A run of a tick that was not its last: lost, failed, or begun anew by Celery's retry."""

    attempt: int
    retries: int
    status: str
    worker: str
    started: datetime | None
    ended: datetime | None
    error: str | None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One tick with its run, or a range of fire times not sent with the reason.

    What is not known is None: `last` of anything but a range; `started` and all else of the run
    where no worker with the guard has taken the tick; `epoch` of what a replica without the lease
    decided.
    """

    task_id: UUID
    nominal: datetime
    last: datetime | None
    count: int
    state: str
    kind: str
    attempt: int
    due: datetime
    sent: datetime | None
    outcome: str | None
    reason: str | None
    replica: str
    status: str | None
    result: str | None
    worker: str | None
    started: datetime | None
    ended: datetime | None
    error: str | None
    earlier: tuple[EarlierRun, ...]
    recorded: datetime
    epoch: int | None

    @property
    def lateness(self) -> timedelta | None:
        """How long after it was due it was sent."""
        return None if self.sent is None else self.sent - self.due

    @property
    def duration(self) -> timedelta | None:
        """How long its last run took."""
        if self.started is None or self.ended is None:
            return None
        return self.ended - self.started


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A tick that was given up; `schedule` is None where that is deleted and no run names it."""

    schedule: str | None
    task_id: UUID
    nominal: datetime
    attempt: int
    reason: str | None
    error: str | None
    traceback: str | None
    worker: str | None
    ended: datetime | None


def history(
    transaction: Transaction, name: str, limit: int, before: datetime | None
) -> list[HistoryEntry]:
    """The newest entries of a schedule, of fire times before that instant."""
    schedule = _find(transaction, name)
    end: datetime = before or schedule["now"]
    rows: list[dict[str, Any]] = []
    # An entry of this very instant counts as well.
    until = end if before else end + timedelta(microseconds=1)
    for since in [*_starts(end), _EVER]:
        rows += transaction.run(
            "history",
            schedule_id=schedule["id"],
            since=since,
            before=until,
            limit=limit - len(rows),
        ).all
        if len(rows) >= limit:
            break
        until = since
    runs = _runs(transaction, rows)
    return [_entry(row, runs.get(row["task_id"], {})) for row in rows]


def decided_at(
    transaction: Transaction, schedule_id: UUID, instant: datetime
) -> list[HistoryEntry]:
    """What was decided of this one fire time: its ticks, and the range it lies in."""
    rows = transaction.run("decided_at", schedule_id=schedule_id, instant=instant).all
    runs = _runs(transaction, rows)
    return [_entry(row, runs.get(row["task_id"], {})) for row in rows]


def dead(transaction: Transaction, limit: int | None, schedule: str | None) -> list[DeadLetter]:
    """Dead ticks, the newest first."""
    rows = _dead_ticks(transaction, limit, schedule)
    runs = _runs(transaction, rows)
    return [_letter(row, runs.get(row["task_id"], {})) for row in rows]


def replay(transaction: Transaction, task_id: UUID) -> None:
    """Have a dead tick sent again; say why, where it cannot be."""
    if transaction.run("replay", task_ids=[task_id]).all:
        return
    found = transaction.run("why_no_replay", task_id=task_id).one()
    if found["dead"]:
        raise ScheduleError(f"task id {task_id} cannot be sent again: its schedule was deleted")
    run = f"; its run is {found['status']!r}" if found["status"] else ""
    raise NotFound(f"task id {task_id} is not that of a dead tick{run}; `dead` lists those")


def replay_all(transaction: Transaction, schedule: str | None) -> int:
    """Have all dead ticks sent again whose schedules are still there; returns how many."""
    ids = [row["task_id"] for row in reversed(_dead_ticks(transaction, None, schedule))]
    slices = [ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE)]
    return sum(len(transaction.run("replay", task_ids=some).all) for some in slices)


def _find(transaction: Transaction, name: str) -> dict[str, Any]:
    rows = transaction.run("find_schedule", name=name).all
    if not rows:
        raise NotFound(f"there is no schedule {name!r}")
    return rows[0]


def _starts(end: datetime) -> list[datetime]:
    try:
        return [end - timedelta(days=days) for days in _WINDOWS]
    except OverflowError:  # asked for what was before the first days of the calendar
        return []


def _dead_ticks(
    transaction: Transaction, limit: int | None, schedule: str | None
) -> list[dict[str, Any]]:
    schedule_id = None if schedule is None else _find(transaction, schedule)["id"]
    return transaction.run("dead_ticks", schedule_id=schedule_id, limit=limit).all


def _runs(transaction: Transaction, ticks: Sequence[dict[str, Any]]) -> dict[UUID, dict[str, Any]]:
    """The runs of these ticks by task id."""
    if not ticks:
        return {}
    nominals = [tick["nominal_at"] for tick in ticks]
    rows = transaction.run(
        "runs_of",
        task_ids=[tick["task_id"] for tick in ticks],
        nominals=nominals,
        first=min(nominals),
        last=max(nominals),
    ).all
    return {row["task_id"]: row for row in rows}


def _entry(tick: dict[str, Any], run: dict[str, Any]) -> HistoryEntry:
    return HistoryEntry(
        task_id=tick["task_id"],
        nominal=tick["nominal_at"].astimezone(UTC),
        last=utc(tick["last_at"]),
        count=tick["count"],
        state=tick["state"],
        kind=tick["kind"],
        attempt=tick["attempt"],
        due=tick["due_at"].astimezone(UTC),
        sent=utc(tick["sent_at"]),
        outcome=tick["outcome"],
        reason=tick["reason"],
        replica=tick["replica"],
        status=run.get("status"),
        result=run.get("result"),
        worker=run.get("worker"),
        started=utc(run.get("started_at")),
        ended=utc(run.get("ended_at")),
        error=run.get("error"),
        earlier=tuple(_earlier(one) for one in run.get("earlier", [])),
        recorded=tick["recorded_at"].astimezone(UTC),
        epoch=tick["epoch"],
    )


def _letter(tick: dict[str, Any], run: dict[str, Any]) -> DeadLetter:
    return DeadLetter(
        schedule=tick["schedule"] or run.get("schedule"),
        task_id=tick["task_id"],
        nominal=tick["nominal_at"].astimezone(UTC),
        attempt=tick["attempt"],
        reason=tick["reason"],
        error=run.get("error"),
        traceback=run.get("traceback"),
        worker=run.get("worker"),
        ended=utc(run.get("ended_at")),
    )


def _earlier(run: dict[str, Any]) -> EarlierRun:
    return EarlierRun(
        attempt=run["attempt"],
        retries=run.get("retries", 0),
        status=run["status"],
        worker=run["worker"],
        started=_instant(run.get("started_at")),
        ended=_instant(run.get("ended_at")),
        error=run.get("error"),
    )


def _instant(text: str | None) -> datetime | None:
    # Postgres leaves out zeros at the end of a fraction; Python 3.10 wants all six digits.
    if text is None:
        return None
    return utc(datetime.fromisoformat(re.sub(r"\.(\d+)", lambda found: f".{found[1]:0<6}", text)))
