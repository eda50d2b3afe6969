"""How a run ended, by what Celery's tracer says of it."""

import traceback
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from billiard.einfo import ExceptionInfo
from celery import states
from celery.exceptions import Reject, Retry

from celery_dbbeat.errors import StaleRun
from celery_dbbeat.store.runs import Ending
from celery_dbbeat.worker.current import Execution

#: By name: the drivers and frameworks each have classes of their own for it.
_NO_DATABASE = frozenset({"OperationalError", "InterfaceError"})
#: Of what a server says before it goes away. Errors of the connection itself have no such code.
_GOING = ("08", "57P01", "57P02", "57P03")
_MOST_QUADRUPLINGS = 4


def ending_of(
    execution: Execution, info: Any, outcome: Any, now: datetime, rest: timedelta
) -> Ending:
    """Translate the tracer's answer; `rest` is how long a message may be on its way."""
    if info is None:
        return _without_info(execution, outcome)
    state, error = str(info.state), info.retval
    told = _told(error)
    if state == states.RETRY:
        return Ending("retry", state, told, rest=_until(error, now) + rest)
    if state == states.IGNORED and not isinstance(error, StaleRun):
        return Ending("done", state)
    if isinstance(error, Reject) and error.requeue:
        return Ending("released", state, told, rest=rest)
    trace = str(getattr(outcome, "traceback", "") or "") or None
    if _lost_its_database(execution, error):
        # Longer each time, so that an outage does not use up all attempts.
        patience = rest * 4 ** min(execution.run.attempt - 1, _MOST_QUADRUPLINGS)
        return Ending("released", state, told, trace, patience)
    return Ending("failed", state, told, trace)


def _without_info(execution: Execution, outcome: Any) -> Ending:
    # Older versions of Celery say by nothing else that they broke.
    if isinstance(outcome, ExceptionInfo) and outcome.internal:
        return broken_off(execution, outcome.exception)
    return Ending("done", states.SUCCESS)


def broken_off(execution: Execution, error: BaseException) -> Ending:
    """What Celery says when it broke itself: it could not store the result, say.

    The task has run, so it is not run again; only a success is known to be one.
    """
    told = f"Celery could not bring it to its end: {_told(error)}"
    if execution.state == states.SUCCESS:
        return Ending("done", states.SUCCESS, told)
    # The task's own error is in there, as what was being handled when this one was raised.
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Ending("failed", states.FAILURE, told, trace)


def _told(error: Any) -> str:
    """What it says of itself; not every exception can."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - user code
        return f"{type(error).__name__}, which cannot be shown"


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
    chain = list(_chain(error))
    codes = [code for one in chain if (code := _sqlstate(one)) is not None]
    if any(not code.startswith(_GOING) for code in codes):
        return False  # the server was there, and said no
    return any(kind.__name__ in _NO_DATABASE for one in chain for kind in type(one).__mro__)


def _sqlstate(error: BaseException) -> str | None:
    try:
        code = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    except Exception:  # noqa: BLE001 - user code
        return None
    return code if isinstance(code, str) else None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
