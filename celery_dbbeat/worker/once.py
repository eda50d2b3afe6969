"""`once`: a task's writes and the word that they are done, in one transaction.

    with once(session):
        session.add(Invoice(...))

The last statement before the commit marks the tick done, in the same transaction, and only if this
run still has the tick. So both are there or neither is; and of all runs of a tick, however many
there come to be, one commits.

- This run lost its tick to another: StaleRun is raised and what it wrote is rolled back. The effect
  is there already: AlreadyDone, likewise. Celery ignores both: no result is stored over another's.
- Where a transaction was begun before, `once` joins it, and whoever began it commits. Should that
  never happen, the run counts as failed. Where none was, `once` begins and commits one.
- Inside another `once` on the same connection it is part of that one.
- A second `once` after one that is done is an error: a tick has one effect, so put all of it into
  one block. After one that was rolled back it is not.
- Where the task was not sent by a schedule there is nothing to be marked: the block is a
  transaction, and no more.
- In another database than that of the schedules the mark needs a table there, which
  `celery -A app dbbeat migrate --dedup-only --url …` makes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import current_app

from celery_dbbeat.errors import AlreadyDone, OnceError, SchemaError, SettingsError, StaleRun
from celery_dbbeat.failpoints import hit
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import statements
from celery_dbbeat.worker.current import (
    CurrentTick,
    Effect,
    Execution,
    executing,
    run_of,
    tick_of_message,
)
from celery_dbbeat.worker.transactions import Block, transaction_on

_UNDEFINED_TABLE = "42P01"
_SERIALIZATION_FAILURE = "40001"


@contextmanager
def once(target: Any = None, *, using: str | None = None) -> Iterator[CurrentTick | None]:
    """Commit what the block writes, and that this tick is done, together or not at all.

    `target` is a SQLAlchemy session or connection, or a psycopg connection; `using` is the name of
    a Django database instead.

    >>> with once(session) as tick:
    ...     session.add(Invoice(month=tick.nominal_local.date()))
    """
    key = target if using is None else f"django {using}"
    execution = executing.get() or _without_guard()
    if execution is None:
        with transaction_on(target, using):
            yield None
    elif execution.target is not None:
        _check_same(execution, key)
        yield execution.tick
    else:
        with _effect(execution, key, target, using):
            yield execution.tick


@contextmanager
def _effect(execution: Execution, key: object, target: Any, using: str | None) -> Iterator[None]:
    if execution.effect is not None:
        raise OnceError(
            f"once() was used before in this run of task {execution.run.task_id}, and that is "
            "done; allowed is one block for all that a tick writes"
        )
    execution.target, execution.entered = key, True
    try:
        with transaction_on(target, using) as block:
            if execution.run.attempt > 1:
                _refuse_a_second_effect(block, execution)
            yield
            hit("before_effect")
            at_home = _mark(block, execution)
        execution.effect = Effect(not block.joined, at_home)
        hit("after_effect")
    finally:
        execution.target = None


def _mark(block: Block, execution: Execution) -> bool:
    """Mark the tick done; returns whether it was the run's own row."""
    run = execution.run
    row = _execute(block, execution, "mark_effect", schedule=run.schedule, worker=run.worker)
    if row is None:
        _refuse_a_second_effect(block, execution)
        raise StaleRun(
            f"the run of task {run.task_id}, attempt {run.attempt}, is not there any more"
        )
    return bool(row[0])


def _refuse_a_second_effect(block: Block, execution: Execution) -> None:
    run = execution.run
    row = _execute(block, execution, "effect_status")
    if row is None:
        return
    status, attempt = row
    if status == "done":
        raise AlreadyDone(f"the effect of task {run.task_id} is there already")
    if attempt != run.attempt:
        raise StaleRun(
            f"task {run.task_id} is now another worker's, by attempt {attempt}; this was "
            f"attempt {run.attempt}"
        )


def _execute(block: Block, execution: Execution, name: str, **more: object) -> Any:
    run = execution.run
    values = {
        "task_id": str(run.task_id),
        "nominal_at": run.nominal_at.isoformat(),
        "attempt": run.attempt,
        "retries": run.retries,
        **more,
    }
    try:
        return block.execute(statements.load(execution.schema)[name], values)
    except Exception as error:
        if _sqlstate(error) == _UNDEFINED_TABLE:
            raise SchemaError(
                "the database that once() is used on has no table dbbeat_dedup; make it by "
                "`celery -A your_app dbbeat migrate --dedup-only --url …`"
            ) from error
        if _sqlstate(error) == _SERIALIZATION_FAILURE:
            raise OnceError(
                "the run was renewed while the transaction of once() was open, which an isolation "
                "level above READ COMMITTED forbids; allowed is READ COMMITTED, or a "
                "dbbeat_run_lease of more than three times as long as the block takes"
            ) from error
        raise


def _sqlstate(error: BaseException) -> str | None:
    driver = getattr(error, "orig", None) or error.__cause__ or error
    return getattr(driver, "sqlstate", None) or getattr(driver, "pgcode", None)


def _check_same(execution: Execution, key: object) -> None:
    if execution.target is not key and execution.target != key:
        raise OnceError(
            f"once() on {key!r} stands inside once() on {execution.target!r}; allowed is the same "
            "connection: two cannot commit together"
        )


def _without_guard() -> Execution | None:
    """A worker without the guard has no run, but the message tells the tick."""
    tick = tick_of_message()
    if tick is None:
        return None
    return Execution(run_of(tick, 0, "unguarded"), tick, _schema(current_app.conf))


def _schema(conf: Any) -> str | None:
    try:
        return Settings.read(conf).schema
    except SettingsError:
        return None  # a worker need not know where the schedules are to write elsewhere
