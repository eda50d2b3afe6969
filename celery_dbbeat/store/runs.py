"""Runs change state only here: taken once, renewed while they last, ended by whoever has them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from celery_dbbeat.store.database import Database
from celery_dbbeat.store.rows import plain


@dataclass(frozen=True, slots=True)
class Run:
    """A worker's execution of a tick. `attempt` and `retries` fence it against any other."""

    task_id: UUID
    nominal_at: datetime
    schedule: str
    attempt: int
    retries: int
    worker: str

    def key(self) -> dict[str, object]:
        """What tells this run from every other, as the statements take it."""
        return {
            "task_id": self.task_id,
            "nominal_at": self.nominal_at,
            "attempt": self.attempt,
            "retries": self.retries,
        }


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended. `rest` is how long nobody need look after it."""

    status: str
    result: str
    error: str | None = None
    traceback: str | None = None
    rest: timedelta = timedelta(0)


def take(database: Database, wanted: Run, lease: timedelta) -> Run | None:
    """Take the tick; returns the run with its attempt, or None when it is somebody's or done."""
    given = {"schedule": wanted.schedule, "worker": wanted.worker, "lease": lease, **wanted.key()}
    first = wanted.attempt == 1 and wanted.retries == 0
    rows = database.run("take", **given).all if first else []
    rows = rows or database.run("take_over", **given).all
    return replace(wanted, attempt=rows[0]["attempt"]) if rows else None


def finish(database: Database, run: Run, ending: Ending) -> bool:
    """Say how the run ended; returns whether it still had the tick."""
    rows = database.run(
        "finish",
        **run.key(),
        status=ending.status,
        result=ending.result,
        error=None if ending.error is None else plain(ending.error),
        traceback=None if ending.traceback is None else plain(ending.traceback, 20_000),
        rest=ending.rest,
    ).all
    return bool(rows)


def note_stale(database: Database, run: Run) -> None:
    """Say that this run lost its tick to another, and came back."""
    database.run("note_stale", **run.key())


def renew(database: Database, runs: Sequence[Run], lease: timedelta) -> None:
    """Make the leases of those that still have their ticks last longer."""
    database.run(
        "renew_runs",
        task_ids=[run.task_id for run in runs],
        nominals=[run.nominal_at for run in runs],
        attempts=[run.attempt for run in runs],
        retries=[run.retries for run in runs],
        lease=lease,
    )


def is_done(database: Database, run: Run) -> bool:
    """Whether an effect of this tick is committed."""
    rows = database.run("run_status", task_id=run.task_id, nominal_at=run.nominal_at).all
    return bool(rows) and rows[0]["status"] == "done"


def is_cancelled(database: Database, task_id: UUID) -> bool:
    """Whether this tick is to end for a newer one."""
    return bool(database.run("is_cancelled", task_id=task_id).one()["cancelled"])


def discard(database: Database, run: Run, ending: Ending, *, terminated: bool = False) -> None:
    """Say why a worker gave up a message, and whether it terminated the task's run for that."""
    database.run(
        "discard",
        task_id=run.task_id,
        nominal_at=run.nominal_at,
        attempt=run.attempt,
        schedule=run.schedule,
        worker=run.worker,
        status=ending.status,
        result=ending.result,
        error=None if ending.error is None else plain(ending.error),
        rest=ending.rest,
        terminated=terminated,
    )
