"""A tick that arrives twice is run once.

Celery runs a task through its tracer, `task.__trace__`, in the pool process. The guard stands
around that, and so works alike on every pool:

    message ─▶ take ──▶ trace: the task, its callbacks, its result ──▶ finish ─▶ acknowledge
                │ it is somebody's, done, or cancelled for a newer one
                └──▶ acknowledge; nothing is run, no callback, no result is touched

A run has its tick until its lease runs out, and renews it while the task runs. Who takes a tick
over gets the next attempt, and whatever the one before still does is refused by that number: its
`finish` finds nothing, and its `once` rolls back. It is `stale`.

- A task that retries by itself (`self.retry`) goes on under the same id and attempt. The retry's
  message carries the attempt of the run that sent it, so a stale run's retry is refused too.
- When Postgres cannot be reached nothing is run. The message goes back to the broker where it is
  acknowledged late; where it was acknowledged early it is gone, and beat sends it again.
- When Postgres goes away while the task runs, how it ended is written down later, and the lease is
  kept until then.
"""

import logging
import os
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from billiard.einfo import ExceptionInfo
from celery import states
from celery.app.trace import TraceInfo, trace_ok_t
from celery.exceptions import Reject, SoftTimeLimitExceeded
from celery.signals import task_postrun

from celery_dbbeat.clock import monotonic, worker_now
from celery_dbbeat.errors import DbbeatError
from celery_dbbeat.failpoints import hit
from celery_dbbeat.observe import worker as observe
from celery_dbbeat.observe.logs import facts
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import runs
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.runs import Ending, Run
from celery_dbbeat.worker.asked import Asked
from celery_dbbeat.worker.connections import Connections
from celery_dbbeat.worker.current import CurrentTick, Execution, executing, read_tick, run_of
from celery_dbbeat.worker.ending import broken_off, ending_of, never_committed
from celery_dbbeat.worker.renewer import Renewer

logger = logging.getLogger(__name__)

Tracer = Callable[..., Any]

_ACKNOWLEDGED = trace_ok_t(None, None, 0.0, None)


class Guard:
    """Takes ids for one process."""

    def __init__(self, settings: Settings) -> None:
        """Connect at first use, not here."""
        self._lease = timedelta(seconds=settings.run_lease)
        self._patience = settings.database_timeout
        self._rest = timedelta(seconds=settings.resend_after)
        self._schema = settings.schema
        self._connections = Connections(settings)
        self._renewer = Renewer(self._connections, self._lease)

    def around(self, trace: Tracer) -> Tracer:
        """The tracer with the guard; only messages of ticks pay for it."""
        if getattr(trace, "is_guarded", False):
            return trace

        def guarded(
            uuid: str, args: Any, kwargs: Any, request: dict[str, Any] | None = None
        ) -> Any:
            if not request or "dbbeat" not in request:
                return trace(uuid, args, kwargs, request)
            tick = read_tick(uuid, request["dbbeat"])
            if tick is None:
                logger.warning("the dbbeat header of task %s is not one: it is not guarded", uuid)
                return trace(uuid, args, kwargs, request)
            return self._run(tick, request, lambda: trace(uuid, args, kwargs, request))

        guarded.is_guarded = True  # type: ignore[attr-defined]
        return guarded

    def close(self) -> None:
        """Write down what is not yet, and hang up: the process is about to end."""
        self._renewer.flush()
        self._connections.close()

    def _run(self, tick: CurrentTick, request: dict[str, Any], trace: Callable[[], Any]) -> Any:
        worker = f"{request.get('hostname') or 'unknown'}/{os.getpid()}"
        try:
            run = self._take(run_of(tick, request.get("retries") or 0, worker))
        except DbbeatError as error:
            observe.database_away("take")
            logger.error(  # noqa: TRY400 - no fault of ours
                "task %s is not run: its id cannot be taken: %s",
                tick.task_id,
                error,
                extra=_about("not_taken", tick),
            )
            return _back_to_the_broker(error)
        if run is None:
            observe.skipped()
            logger.info(
                "task %s of schedule %s is taken, done or cancelled",
                tick.task_id,
                tick.schedule,
                extra=_about("skipped", tick),
            )
            return _ACKNOWLEDGED
        # What the task sends on under its own id, a retry, is of this attempt.
        request["dbbeat"] = {**request["dbbeat"], "attempt": run.attempt}
        taken = read_tick(tick.task_id, request["dbbeat"]) or tick
        asked = Asked(self._connections, run.task_id)
        return self._trace(Execution(run, taken, self._schema, cancelled=asked.to_end), trace)

    def _take(self, wanted: Run) -> Run | None:
        """Take the tick; a database that is away is waited for, but not for long."""
        hit("before_take")
        begun_at, wait = monotonic(), 0.05
        stop_at = begun_at + self._patience
        while True:
            try:
                with self._connections.one() as database:
                    run = runs.take(database, wanted, self._lease)
            except DbbeatError:
                # Whatever is wrong: a message that comes back at once would come in a storm.
                if monotonic() + wait > stop_at:
                    raise
                time.sleep(wait)
                wait = min(2 * wait, 1.0)
            else:
                observe.taken(monotonic() - begun_at)
                hit("after_take")
                return run

    def _trace(self, execution: Execution, trace: Callable[[], Any]) -> Any:
        self._renewer.keep(execution.run)
        token = executing.set(execution)
        begun_at = monotonic()
        try:
            traced = trace()
        except Exception as error:
            # Not the task's: Celery has those in its answer.
            self._finish(execution, broken_off(execution, error))
            raise
        except BaseException:
            # The process is ending: the lease runs out, and another takes the tick.
            self._renewer.let_go(execution.run)
            raise
        finally:
            executing.reset(token)
        observe.ran(monotonic() - begun_at)
        try:
            ending = ending_of(execution, traced[1], traced[0], worker_now(), self._rest)
            self._finish(execution, ending)
        except BaseException:
            self._renewer.let_go(execution.run)
            raise
        hit("after_finish")
        return traced

    def _finish(self, execution: Execution, ending: Ending) -> None:
        """Write down how it ended."""
        begun_at = monotonic()
        word = self._write_down(execution, ending)
        observe.finished(word, monotonic() - begun_at)

    def _write_down(self, execution: Execution, ending: Ending) -> str:
        run, effect = execution.run, execution.effect
        if (
            effect is not None
            and effect.committed
            and effect.at_home
            and ending.result == states.SUCCESS
        ):
            self._renewer.let_go(run)  # `once` has written all there is
            return ending.status
        word = ""
        try:
            with self._connections.one() as database:
                if effect is not None and not effect.committed and not runs.is_done(database, run):
                    ending = never_committed()
                    logger.error("task %s: %s", run.task_id, ending.error)
                if not runs.finish(database, run, ending) and self._lost(run, ending, database):
                    word = "stale"
        except (DbbeatError, SoftTimeLimitExceeded) as error:
            observe.database_away("finish")
            logger.warning("how task %s ended is written down later: %s", run.task_id, error)
            self._renewer.finish_later(run, ending)
        else:
            self._renewer.let_go(run)
        return word or ending.status

    def _lost(self, run: Run, ending: Ending, database: Database) -> bool:
        if ending.result == states.RETRY:
            return False  # its retry has been taken already
        runs.note_stale(database, run)
        logger.warning(
            "task %s of schedule %s, attempt %d, is stale: another run has it",
            run.task_id,
            run.schedule,
            run.attempt,
            extra=facts(
                "stale", schedule=run.schedule, task_id=run.task_id, nominal=run.nominal_at
            ),
        )
        return True


def _about(event: str, tick: CurrentTick) -> dict[str, object]:
    return facts(event, schedule=tick.schedule, task_id=tick.task_id, nominal=tick.nominal)


def _note_state(*, task_id: str, state: str | None, **_: Any) -> None:
    """Remember how the task's body ended, whatever Celery then makes of it."""
    execution = executing.get()
    if execution is not None and task_id == execution.tick.task_id:
        execution.state = state


task_postrun.connect(_note_state)


def _back_to_the_broker(error: DbbeatError) -> Any:
    """What the pool reports for a message that is to be returned: raising would end some pools."""
    try:
        raise Reject(f"its id cannot be taken: {error}", requeue=True)  # noqa: TRY301 - for its traceback
    except Reject as reject:
        return trace_ok_t(
            ExceptionInfo(internal=True), TraceInfo(states.REJECTED, reject), 0.0, None
        )
