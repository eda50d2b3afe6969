"""How a run ended, by what Celery's tracer says of it."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from celery import states
from celery.exceptions import Reject, Retry

from celery_dbbeat.errors import StaleRun
from celery_dbbeat.store.runs import Ending
from celery_dbbeat.worker.current import Execution

#: By name: the drivers and frameworks each have classes of their own for it.
_NO_DATABASE = frozenset({"OperationalError", "InterfaceError"})


def ending_of(
    execution: Execution, info: Any, outcome: Any, now: datetime, rest: timedelta
) -> Ending:
    """Translate the tracer's answer; `rest` is how long a message may be on its way."""
    if info is None:
        return Ending("done", states.SUCCESS)
    state, error = str(info.state), info.retval
    told = f"{type(error).__name__}: {error}"
    if state == states.RETRY:
        return Ending("retry", state, str(error), rest=_until(error, now) + rest)
    if state == states.IGNORED and not isinstance(error, StaleRun):
        return Ending("done", state)
    if isinstance(error, Reject) and error.requeue:
        return Ending("released", state, told, rest=rest)
    status = "released" if _lost_its_database(execution, error) else "failed"
    return Ending(status, state, told, str(getattr(outcome, "traceback", "") or "") or None)


def never_committed() -> Ending:
    """The task ended well, but what it wrote is not there."""
    return Ending(
        "failed",
        states.FAILURE,
        "once() joined a transaction that was begun before it, and that was never committed; "
        "what the task wrote is not there",
    )


def _until(retry: Any, now: datetime) -> timedelta:
    """How long until the retry is due."""
    when = retry.when if isinstance(retry, Retry) else None
    if isinstance(when, datetime):
        aware = when if when.tzinfo else when.replace(tzinfo=timezone.utc)
        return max(timedelta(0), aware - now)
    return timedelta(seconds=float(when or 0))


def _lost_its_database(execution: Execution, error: BaseException) -> bool:
    """Whether it failed for want of a database and wrote nothing: as good as never begun."""
    if not execution.entered or execution.effect is not None:
        return False
    return any(kind.__name__ in _NO_DATABASE for one in _chain(error) for kind in type(one).__mro__)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
