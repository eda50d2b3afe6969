"""Which of the fire times that are due are sent, which wait, and which are not sent and why.

First misfire and catch-up leave some out; see `rules.plan`. What is left goes through two gates,
one fire time after the other, in order:

    ──▶ overlap: earlier ticks not done? ──▶ late, and no room for late ticks? ──▶ sent
          │ skip         │ wait                     │
          ▼              ▼                          ▼
       overlapped     waits for a run            waits for its turn

What waits stays where it is, and so does all that comes after it: that keeps the order. Its cursor
is not due, so nobody claims it. When a run has ended or its turn has come it is decided anew, so
that what was edited or has become too late meanwhile counts.

What waits for a run is held back on purpose: it is due when it may go, and so is all that passed
while it waited. None of it is late, or needs a turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from celery_dbbeat.rules import overlap
from celery_dbbeat.rules.decision import (
    INSTANT,
    NEWER,
    NotSent,
    Plan,
    Situation,
    State,
    Stop,
    bounded,
    merged,
    stand,
)
from celery_dbbeat.rules.overlap import WAITING, Running
from celery_dbbeat.rules.schedule import ON_TIME, Cursor, Schedule
from celery_dbbeat.rules.tick import ORDERED, Tick, due_at, task_id

#: How many fire times one plan walks over; what is left is due at once, and planned next.
WALK_LIMIT = 1_000

#: Of what passed while one fire time waited for a run: all of it, but for what nobody waits for.
_WAIT_WALK_LIMIT = 20 * WALK_LIMIT


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Fire times from `first` to `last` that are to be decided, and what was told of those before.

    `held_since`: they waited for a run since then.
    """

    first: datetime
    last: datetime
    runs: int
    not_sent: tuple[NotSent, ...] = ()
    held_since: datetime | None = None
    #: Whether any is left to be decided, and the first after those that were left out.
    goes_on: bool = True
    following: datetime | None = None

    def rest(self, case: Situation) -> Plan:
        """The plan that leaves what is left to the next one."""
        return replace(stand(case.schedule, self.following, self.runs), not_sent=self.not_sent)


def still_wanted(schedule: Schedule, tick: Tick, now: datetime) -> bool:
    """Whether a tick may still be sent at this time; one that is sent again was sent in time."""
    if tick.attempt > 1 or tick.kind in ORDERED:
        return True
    return schedule.grace is None or now - tick.due_at <= schedule.grace


def advance(case: Situation, cursor: Cursor, first: datetime) -> Plan:
    """Decide about the fire times from `first` on that are due."""
    held_since = _held_since(case.schedule, cursor, first)
    stretch = _Stretch(first, first, cursor.runs, held_since=held_since)
    if held_since is not None:
        return _after_wait(case, stretch)
    following = case.following(first)
    if following is None or following > case.until:
        return _send_each(case, stretch)
    caught_up_on = cursor.waits_for == "turn" and cursor.waits_since is not None
    return _decide_many(case, replace(stretch, last=case.until), fresh=not caught_up_on)


def _held_since(schedule: Schedule, cursor: Cursor, first: datetime) -> datetime | None:
    """Since when this fire time has waited for a run; None: it has not, or was late before that."""
    since = cursor.waits_since
    if cursor.waits_for != "run" or since is None or schedule.overlap not in WAITING:
        return None
    due = due_at(task_id(schedule.id, first), first, schedule.jitter)
    return since if due >= since - ON_TIME else None


def _decide_many(case: Situation, stretch: _Stretch, *, fresh: bool) -> Plan:
    """Leave out what is too late, or not wanted by what the schedule says of catching up."""
    grace = case.schedule.grace
    if grace is not None and stretch.first < case.horizon - grace:
        ends = min(stretch.last, case.horizon - grace - INSTANT)
        stretch = _leave_out(case, stretch, ends, "missed", too_late(case.schedule))
        if not stretch.goes_on or stretch.first <= ends:
            return stretch.rest(case)
    if case.schedule.catch_up != "all":
        return _decide_newest(case, stretch)
    limit = case.schedule.catch_up_limit
    if fresh and limit is not None:
        stretch = _limit(case, stretch, limit)
    return _send_each(case, stretch)


def _decide_newest(case: Situation, stretch: _Stretch) -> Plan:
    """Leave out all but the newest and what is merely late by a takeover."""
    newest = case.trigger.walk(stretch.first, stretch.last, WALK_LIMIT)
    sent_from = min(case.horizon - case.prompt, newest.last)
    if newest.following is not None and newest.following <= stretch.last:
        sent_from = stretch.last  # more than one walk holds: none of these is the newest
    if stretch.first < sent_from:
        stretch = _leave_out(case, stretch, sent_from - INSTANT, "coalesced", NEWER)
        if not stretch.goes_on or stretch.first < sent_from:
            return stretch.rest(case)
    return _send_each(case, stretch)


def _limit(case: Situation, stretch: _Stretch, limit: int) -> _Stretch:
    """Leave out the oldest of what is late, so that no more than the limit is left of it."""
    ends = case.horizon - ON_TIME - INSTANT
    late = 0 if stretch.first > ends else limit + 1
    while late > limit and stretch.first <= min(stretch.last, ends):
        # Of one more than fit, those of one walk's length are not among the newest.
        late = case.trigger.walk(stretch.first, min(stretch.last, ends), WALK_LIMIT + limit).count
        if late <= limit:
            break
        reason = f"catch_up_limit {limit}: of those that are late only the newest are sent"
        stretch = _leave_out(case, stretch, ends, "coalesced", reason, late - limit)
    return stretch


def _after_wait(case: Situation, stretch: _Stretch) -> Plan:
    """A run has ended that these fire times waited for, or somebody changed the overlap."""
    policy, until = case.schedule.overlap, case.until
    following = case.following(stretch.first)
    if following is None or following > until:
        return _send_each(case, stretch)
    if policy == "buffer_all":
        return _send_each(case, replace(stretch, last=until))
    if overlap.decide(policy, case.schedule.max_concurrent, case.running).action == "wait":
        return _send_each(case, stretch)
    if policy == "cancel_other":
        newest = case.trigger.walk(stretch.first, until, _WAIT_WALK_LIMIT).last
        reason = "a newer fire time took its place while it waited"
        stretch = _leave_out(
            case, stretch, newest - INSTANT, "overlapped", reason, _WAIT_WALK_LIMIT
        )
        return _send_each(case, replace(stretch, last=newest))
    sent = _send_each(case, stretch)
    if sent.ends is not None:
        return sent
    rest = replace(stretch, first=following, last=until, runs=sent.cursor.runs)
    reason = "an earlier fire time waited already"
    left = _leave_out(case, rest, until, "overlapped", reason, _WAIT_WALK_LIMIT)
    return replace(left.rest(case), ticks=sent.ticks)


def _leave_out(  # noqa: PLR0913, PLR0917 - a range, and why
    case: Situation,
    stretch: _Stretch,
    until: datetime,
    state: State,
    reason: str,
    most: int = WALK_LIMIT,
) -> _Stretch:
    """Tell why the first ones are not sent; what is left of the stretch."""
    walk = case.trigger.walk(stretch.first, until, most)
    told = NotSent(state, stretch.first, walk.last, walk.count, reason)
    following = bounded(case.schedule, walk.following)
    return replace(
        stretch,
        first=stretch.last if following is None else following,
        goes_on=following is not None and following <= stretch.last,
        following=following,
        not_sent=merged(stretch.not_sent, told, None),
    )


def _send_each(case: Situation, stretch: _Stretch) -> Plan:
    """Send them one by one, as far as both gates let them."""
    sending = _Sending(case, stretch)
    while sending.plan is None:
        sending.decide_next()
    return sending.plan


class _Sending:
    """A stretch on its way through the gates."""

    def __init__(self, case: Situation, stretch: _Stretch) -> None:
        self._case, self._stretch = case, stretch
        self._nominal, self._runs = stretch.first, stretch.runs
        self._room, self._running = case.room, list(case.running)
        self._ticks: tuple[Tick, ...] = ()
        self._not_sent = stretch.not_sent
        self._stops: tuple[Stop, ...] = ()
        #: Set once it is known what becomes of all of them.
        self.plan: Plan | None = None

    def decide_next(self) -> None:
        """Decide about one fire time."""
        schedule = self._case.schedule
        tick = self._case.tick(self._nominal, held=self._stretch.held_since is not None)
        if not still_wanted(schedule, tick, self._case.now):
            self._leave_out("missed", too_late(schedule))
            return
        gate = overlap.decide(schedule.overlap, schedule.max_concurrent, self._running)
        if gate.action == "skip":
            self._leave_out("overlapped", _not_done(schedule))
        elif gate.action == "wait":
            self._stop(gate.stop, terminate=False)
            self._wait("run")
        elif tick.kind == "catch_up" and not self._room:
            self._wait("turn")
        else:
            self._stop(gate.stop, terminate=True)
            self._send(tick)

    def _send(self, tick: Tick) -> None:
        self._ticks = (*self._ticks, tick)
        self._runs += 1
        self._room -= tick.kind == "catch_up"
        if self._case.schedule.overlap != "allow":
            self._running.append(Running(tick.nominal_at, tick.task_id))
        self._go_on()

    def _leave_out(self, state: State, reason: str) -> None:
        told = NotSent(state, self._nominal, self._nominal, 1, reason)
        since = self._ticks[-1].nominal_at if self._ticks else None
        self._not_sent = merged(self._not_sent, told, since)
        self._go_on()

    def _go_on(self) -> None:
        following = self._case.following(self._nominal)
        after = stand(self._case.schedule, following, self._runs)
        if following is not None and following <= self._stretch.last and after.ends is None:
            self._nominal = following
            return
        late = any(tick.kind == "catch_up" for tick in self._ticks)
        if late and after.ends is None:
            # The next one has to see that these are out, should they be sent by somebody else.
            after = replace(after, cursor=replace(after.cursor, waits_for="turn"))
        self._end(after)

    def _wait(self, what: Literal["turn", "run"]) -> None:
        since = self._stretch.held_since if what == "run" else None
        waiting = Cursor(
            self._nominal,
            None,
            runs=self._runs,
            waits_for=what,
            waits_since=since or self._case.now,
        )
        self._end(Plan(waiting))

    def _stop(self, others: Sequence[Running], *, terminate: bool) -> None:
        reason = f"{self._case.schedule.overlap} for the fire time {self._nominal.isoformat()}"
        self._stops += tuple(Stop(other, reason, terminate) for other in others)
        asked = {other.task_id for other in others}
        self._running = [
            replace(one, asked=one.asked or one.task_id in asked) for one in self._running
        ]

    def _end(self, after: Plan) -> None:
        self.plan = replace(after, ticks=self._ticks, not_sent=self._not_sent, stops=self._stops)


def too_late(schedule: Schedule) -> str:
    """Why a fire time is missed."""
    if schedule.grace == schedule.misfire_grace:
        return f"later than misfire_grace {schedule.misfire_grace}"
    return f"later than {schedule.grace}, and catch_up is none"


def _not_done(schedule: Schedule) -> str:
    if schedule.max_concurrent == 1:
        return "an earlier tick was not done"
    return f"{schedule.max_concurrent} earlier ticks were not done"
