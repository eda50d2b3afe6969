"""What a plan is made of, and what it rests on."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from celery_dbbeat.rules.overlap import Running
from celery_dbbeat.rules.schedule import ON_TIME, Cursor, Schedule
from celery_dbbeat.rules.tick import Tick, due_at, task_id
from celery_dbbeat.rules.trigger import Trigger

INSTANT = timedelta(microseconds=1)

NO_FIRE_TIME = "no fire time left"
NEWER = "a newer fire time was due as well"

State = Literal["missed", "coalesced", "overlapped", "paused"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """From one fire time to another."""

    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class NotSent:
    """A range of fire times that are not sent, and why.

    `goes_on`: the range that was told before, and ends with the fire time before this one.
    """

    state: State
    first_at: datetime
    last_at: datetime
    count: int
    reason: str
    goes_on: Stretch | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """A tick that has to end for a newer one; `terminate`: by force."""

    tick: Running
    reason: str
    terminate: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with one schedule, and where it stands afterwards."""

    cursor: Cursor
    ticks: tuple[Tick, ...] = ()
    not_sent: tuple[NotSent, ...] = ()
    ends: Literal["finished", "invalid"] | None = None
    reason: str | None = None
    stops: tuple[Stop, ...] = ()


@dataclass(frozen=True, slots=True)
class Situation:
    """What a decision rests on besides the schedule and where it stands.

    `room`: how many late ticks may go now. `running`: earlier ticks that are not done.
    """

    schedule: Schedule
    trigger: Trigger
    now: datetime
    prompt: timedelta
    room: int = 0
    running: Sequence[Running] = ()

    @property
    def horizon(self) -> datetime:
        """Fire times up to here are due, whatever their jitter."""
        return self.now - self.schedule.jitter

    @property
    def until(self) -> datetime:
        """The same, or where the schedule ends."""
        end_at = self.schedule.end_at
        return self.horizon if end_at is None else min(self.horizon, end_at)

    def following(self, nominal: datetime) -> datetime | None:
        """The fire time after this one."""
        return bounded(self.schedule, self.trigger.next(nominal))

    def tick(self, nominal: datetime, *, held: bool = False) -> Tick:
        """The tick of a fire time; what was held back on purpose is due when it may go."""
        identity = task_id(self.schedule.id, nominal)
        due = self.now if held else due_at(identity, nominal, self.schedule.jitter)
        kind = "scheduled" if self.now - due <= ON_TIME else "catch_up"
        return Tick(identity, nominal, due, kind)


def bounded(schedule: Schedule, nominal: datetime | None) -> datetime | None:
    """The fire time, if it is not after the schedule's end."""
    if nominal is None or (schedule.end_at is not None and nominal > schedule.end_at):
        return None
    return nominal


def stand(
    schedule: Schedule, following: datetime | None, runs: int, ticks: tuple[Tick, ...] = ()
) -> Plan:
    """The plan that says where the schedule stands next, or that it has ended."""
    if schedule.max_runs is not None and runs >= schedule.max_runs:
        reason = f"max_runs {schedule.max_runs} reached"
    elif following is None:
        reason = NO_FIRE_TIME
    else:
        due = following
        if schedule.jitter:
            due = due_at(task_id(schedule.id, following), following, schedule.jitter)
        return Plan(Cursor(following, due, runs=runs), ticks)
    return Plan(Cursor(None, None, runs=runs), ticks, ends="finished", reason=reason)


def merged(told: Sequence[NotSent], one: NotSent, since: datetime | None) -> tuple[NotSent, ...]:
    """One more range; it goes on with the last one, unless a tick was sent in between."""
    if told:
        last = told[-1]
        same = (last.state, last.reason) == (one.state, one.reason)
        if same and (since is None or since < last.first_at):
            longer = replace(last, last_at=one.last_at, count=last.count + one.count)
            return (*told[:-1], longer)
    return (*told, one)
