"""The decision: what becomes of a schedule whose cursor is due.

`plan(schedule, cursor, now)` is a pure function: no clock, no database, no log. It answers with
the ticks to send, the ranges of fire times that are not sent and why, and the schedule's next
stand. The dispatcher only carries it out, in one transaction, so a plan happens wholly or not at
all.

Fire times that are due at once are told apart like this (catch-up `latest`):

    … ──●────●────●────●────●────●────●──▶ now      ● fire times since the cursor's nominal time
        └ missed ┘└ coalesced ┘  └ sent ─┘
          later than misfire_grace
                     later than `prompt`, and there is a newer one

`prompt` is the delay of a replica that had to step in for another: no reason to leave a fire time
out, so each of these is sent. What is later was due while nobody was dispatching: of that the
newest is sent, unless a prompt one is; if even the newest is later than the grace, all are missed.

What is new or has changed starts at its next fire time after the change: inserting, editing,
enabling or resuming never fires at once. One fire time that had passed before an edit and was not
yet dispatched is still decided.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.schedule import Cursor, Schedule
from celery_dbbeat.rules.tick import Tick, due_at, task_id
from celery_dbbeat.rules.trigger import Trigger

#: How many fire times one plan walks over; what is left is due at once, and planned next.
WALK_LIMIT = 1_000

#: A tick that is later than this was not merely slow: it is caught up on.
ON_TIME = timedelta(seconds=60)

#: How late a fire time may be and still be sent although a newer one is due as well.
PROMPT = timedelta(seconds=3)

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class NotSent:
    """A range of fire times that are not sent, and why."""

    state: Literal["missed", "coalesced", "paused"]
    first_at: datetime
    last_at: datetime
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with one schedule, and where it stands afterwards."""

    cursor: Cursor
    ticks: tuple[Tick, ...] = ()
    not_sent: tuple[NotSent, ...] = ()
    ends: Literal["finished", "invalid"] | None = None
    reason: str | None = None


def plan(
    schedule: Schedule,
    cursor: Cursor,
    now: datetime,
    prompt: timedelta = PROMPT,
    *,
    guarded: bool = False,
) -> Plan:
    """Decide; a schedule that cannot be used ends as `invalid`, with the reason.

    `guarded`: workers say how runs end, so that a schedule may ask about the run before.
    """
    try:
        _check_overlap(schedule.overlap, guarded=guarded)
        trigger = schedule.trigger
        if cursor.replan_from is None:
            return _advance(schedule, trigger, cursor, now, prompt)
        if cursor.held_at is not None:
            return _after_hold(schedule, trigger, cursor, cursor.replan_from)
        return _replan(schedule, trigger, cursor, cursor.replan_from, now, prompt)
    except ScheduleError as error:
        return _invalid(cursor, str(error))
    except Exception as error:  # noqa: BLE001 - whatever one row can cause must not stop the others
        return _invalid(
            cursor, f"its fire times cannot be computed: {type(error).__name__}: {error}"
        )


def still_wanted(schedule: Schedule, tick: Tick, now: datetime) -> bool:
    """Whether a tick may still be sent at this time; one that is sent again was sent in time."""
    if tick.attempt > 1:
        return True
    return schedule.misfire_grace is None or now - tick.due_at <= schedule.misfire_grace


def _check_overlap(overlap: str, *, guarded: bool) -> None:
    if overlap == "allow":
        return
    if guarded:
        raise ScheduleError(
            f"overlap {overlap!r} is not available in this version; allowed is allow"
        )
    raise ScheduleError(
        f"overlap {overlap!r} needs the worker guard, celery_dbbeat.setup(app), and is not "
        "available in this version; allowed is allow"
    )


def _advance(
    schedule: Schedule, trigger: Trigger, cursor: Cursor, now: datetime, prompt: timedelta
) -> Plan:
    first = cursor.nominal_at
    if first is None:
        raise ScheduleError("the cursor has neither a fire time nor an instant to plan from")
    following = _bounded(schedule, trigger.next(first))
    # Of the fire times after the first, those that are due whatever their jitter.
    until = now - schedule.jitter
    if following is None or following > until:
        return _decide_one(schedule, first, following, cursor.runs, now)
    until = until if schedule.end_at is None else min(until, schedule.end_at)
    return _decide_many(schedule, trigger, cursor, _Due(first, until, now, until - prompt))


def _decide_one(
    schedule: Schedule, nominal: datetime, following: datetime | None, runs: int, now: datetime
) -> Plan:
    tick = _tick(schedule, nominal, now)
    if still_wanted(schedule, tick, now):
        return replace(_stand(schedule, following, runs + 1), ticks=(tick,))
    missed = _missed(schedule, nominal, nominal, 1)
    return replace(_stand(schedule, following, runs), not_sent=(missed,))


@dataclass(frozen=True, slots=True)
class _Due:
    """Several fire times that are due at once: from `first` to `until`."""

    first: datetime
    until: datetime
    now: datetime
    prompt_from: datetime


def _decide_many(schedule: Schedule, trigger: Trigger, cursor: Cursor, due: _Due) -> Plan:
    """Sort fire times into missed, coalesced and those to send."""
    not_sent: tuple[NotSent, ...] = ()
    first = due.first
    grace = schedule.misfire_grace
    if grace is not None and first < due.until - grace:
        late = trigger.walk(first, due.until - grace - _INSTANT, WALK_LIMIT)
        not_sent = (_missed(schedule, first, late.last, late.count),)
        following = _bounded(schedule, late.following)
        if following is None or following > due.until or late.count == WALK_LIMIT:
            return replace(_stand(schedule, following, cursor.runs), not_sent=not_sent)
        first = following
    newest = trigger.walk(first, due.until, WALK_LIMIT)
    following = _bounded(schedule, newest.following)
    if following is not None and following <= due.until:
        # More than one walk holds: these are not the newest, and the rest is planned next.
        older = _coalesced(first, newest.last, newest.count)
        return replace(_stand(schedule, following, cursor.runs), not_sent=(*not_sent, older))
    sent_from = min(due.prompt_from, newest.last)
    if first < sent_from:
        older_ones = trigger.walk(first, sent_from - _INSTANT, WALK_LIMIT)
        not_sent = (*not_sent, _coalesced(first, older_ones.last, older_ones.count))
        first = older_ones.following or newest.last
    return _send_each(schedule, trigger, cursor, replace(due, first=first), not_sent)


def _send_each(
    schedule: Schedule,
    trigger: Trigger,
    cursor: Cursor,
    due: _Due,
    not_sent: tuple[NotSent, ...],
) -> Plan:
    decided = Plan(replace(cursor, nominal_at=due.first), not_sent=not_sent)
    ticks: tuple[Tick, ...] = ()
    nominal: datetime | None = due.first
    while nominal is not None and nominal <= due.until and decided.ends is None:
        following = _bounded(schedule, trigger.next(nominal))
        one = _decide_one(schedule, nominal, following, decided.cursor.runs, due.now)
        ticks, not_sent = ticks + one.ticks, not_sent + one.not_sent
        decided, nominal = one, following
    return replace(decided, ticks=ticks, not_sent=not_sent)


def _replan(  # noqa: PLR0913, PLR0917 - all that a decision rests on
    schedule: Schedule,
    trigger: Trigger,
    cursor: Cursor,
    since: datetime,
    now: datetime,
    prompt: timedelta,
) -> Plan:
    """Start anew after `since`; the old *when*'s fire time that had passed by then is decided."""
    following = _first(schedule, trigger, since)
    passed = cursor.nominal_at
    if passed is None or passed > since:
        return _stand(schedule, following, cursor.runs)
    if passed < now - prompt and following is not None and following <= now:
        coalesced = _coalesced(passed, passed, 1)
        return replace(_stand(schedule, following, cursor.runs), not_sent=(coalesced,))
    return _decide_one(schedule, passed, following, cursor.runs, now)


def _after_hold(schedule: Schedule, trigger: Trigger, cursor: Cursor, since: datetime) -> Plan:
    """Start anew after `since`; what passed while the schedule was not active gets its reason."""
    following = _first(schedule, trigger, since)
    start = cursor.nominal_at or cursor.held_at or since
    first = _first(schedule, trigger, start - _INSTANT)
    if first is None or first > since:
        return _stand(schedule, following, cursor.runs)
    walk = trigger.walk(first, since, WALK_LIMIT)
    resting = NotSent("paused", first, walk.last, walk.count, "the schedule was not active")
    if walk.following is not None and walk.following <= since:
        stand = replace(cursor, nominal_at=walk.following)
        return Plan(stand, not_sent=(resting,))
    return replace(_stand(schedule, following, cursor.runs), not_sent=(resting,))


def _missed(schedule: Schedule, first: datetime, last: datetime, count: int) -> NotSent:
    return NotSent(
        "missed", first, last, count, f"later than misfire_grace {schedule.misfire_grace}"
    )


def _coalesced(first: datetime, last: datetime, count: int) -> NotSent:
    return NotSent("coalesced", first, last, count, "a newer fire time was due as well")


def _first(schedule: Schedule, trigger: Trigger, since: datetime) -> datetime | None:
    if schedule.start_at is not None:
        since = max(since, schedule.start_at - _INSTANT)
    return _bounded(schedule, trigger.next(since))


def _bounded(schedule: Schedule, nominal: datetime | None) -> datetime | None:
    if nominal is None or (schedule.end_at is not None and nominal > schedule.end_at):
        return None
    return nominal


def _tick(schedule: Schedule, nominal: datetime, now: datetime) -> Tick:
    identity = task_id(schedule.id, nominal)
    due = due_at(identity, nominal, schedule.jitter)
    return Tick(identity, nominal, due, "scheduled" if now - due <= ON_TIME else "catch_up")


def _stand(schedule: Schedule, following: datetime | None, runs: int) -> Plan:
    """The plan that only says where the schedule stands next, or that it has ended."""
    if schedule.max_runs is not None and runs >= schedule.max_runs:
        return _finished(runs, f"max_runs {schedule.max_runs} reached")
    if following is None:
        return _finished(runs, "no fire time left")
    due = following
    if schedule.jitter:
        due = due_at(task_id(schedule.id, following), following, schedule.jitter)
    return Plan(Cursor(following, due, runs=runs))


def _finished(runs: int, reason: str) -> Plan:
    return Plan(Cursor(None, None, runs=runs), ends="finished", reason=reason)


def _invalid(cursor: Cursor, reason: str) -> Plan:
    return Plan(replace(cursor, due_at=None), ends="invalid", reason=reason)
