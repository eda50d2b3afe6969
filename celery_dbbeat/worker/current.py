"""Which tick the code that runs just now is for."""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from celery import current_task

from celery_dbbeat.store.runs import Run


@dataclass(frozen=True, slots=True)
class CurrentTick:
    """The tick that a task runs for."""

    #: The name of the schedule.
    schedule: str
    #: The fire time by the schedule, in UTC.
    nominal: datetime
    #: Which attempt at running it this is, from 1.
    attempt: int
    #: `scheduled`, `catch_up`, `backfill`, `manual` or `recovery`.
    kind: str
    task_id: str
    #: The time zone of the schedule.
    timezone: str = "UTC"

    @property
    def nominal_local(self) -> datetime:
        """The fire time on the clocks of the schedule's time zone."""
        return self.nominal.astimezone(ZoneInfo(self.timezone))

    @property
    def idempotency_key(self) -> str:
        """The same for every attempt at this tick, and for no other: to pass on to others."""
        return self.task_id

    def cancelled(self) -> bool:
        """Whether the task is to end for a newer tick (overlap `cancel_other`, `terminate_other`).

        It may be asked often: the database is, twice a second at the most.

        >>> for page in pages:
        ...     if tick.cancelled():
        ...         return
        """
        execution = executing.get()
        if execution is None or execution.tick.task_id != self.task_id:
            return False
        return execution.cancelled()


@dataclass(slots=True)
class Effect:
    """What `once` has marked done."""

    #: Whether that is known to be committed; else whoever began the transaction commits it.
    committed: bool
    #: Whether it is the run's own row that was marked, and not one in another database.
    at_home: bool


@dataclass(slots=True)
class Execution:
    """One run while it lasts, and what `once` did in it."""

    run: Run
    tick: CurrentTick
    schema: str | None = None
    #: What `once` is open on.
    target: object = None
    #: Whether `once` was ever entered.
    entered: bool = False
    effect: Effect | None = field(default=None)
    #: Celery's state of the task, as soon as its body has ended.
    state: str | None = None
    #: Whether it is to end for a newer tick.
    cancelled: Callable[[], bool] = field(default=lambda: False)


executing: ContextVar[Execution | None] = ContextVar("celery_dbbeat_execution", default=None)


def current_tick() -> CurrentTick | None:
    """The tick that this code runs for; None when the task was not sent by a schedule.

    >>> tick = current_tick()
    >>> charge(card, amount, idempotency_key=tick.idempotency_key)
    """
    execution = executing.get()
    return execution.tick if execution else tick_of_message()


def tick_of_message() -> CurrentTick | None:
    """What the message of the current task says: all there is where the guard is not installed."""
    request = getattr(current_task, "request", None)
    headers = getattr(request, "headers", None) or {}
    if request is None or "dbbeat" not in headers:
        return None
    return read_tick(str(request.id), headers["dbbeat"])


def read_tick(task_id: str, header: Any) -> CurrentTick | None:
    """The tick of a message, by its header; None when there is none that could be read."""
    try:
        nominal = datetime.fromisoformat(header["nominal"])
        UUID(task_id)
        if nominal.tzinfo is None:
            return None
        return CurrentTick(
            schedule=str(header["schedule"]),
            nominal=nominal,
            attempt=int(header["attempt"]),
            kind=str(header["kind"]),
            task_id=task_id,
            timezone=str(header.get("timezone", "UTC")),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def run_of(tick: CurrentTick, retries: int, worker: str) -> Run:
    """The run that would have this tick."""
    return Run(UUID(tick.task_id), tick.nominal, tick.schedule, tick.attempt, retries, worker)
