"""The decision: what becomes of a schedule whose cursor is due.

`plan(schedule, cursor, now)` is a pure function: no clock, no database, no log. It answers with
the ticks to send, the ranges of fire times that are not sent and why, and the schedule's next
stand. The dispatcher only carries it out, in one transaction, so a plan happens wholly or not at
all.

Fire times that are due at once are told apart like this:

    … ──●────●────●────●────●────●────●──▶ now      ● fire times since the cursor's nominal time
        └ missed ┘└ coalesced ┘  └ sent ─┘          catch_up latest
        └ missed ┘└─ each sent, in order ┘          catch_up all
        └──── missed ─────────┘  └ sent ─┘          catch_up none: the grace is a minute at most
          later than misfire_grace
                     later than `prompt`, and there is a newer one

`prompt` is the delay of a replica that had to step in for another: no reason to leave a fire time
out, so each of these is sent. What is later was due while nobody was dispatching: of that the
newest is sent, unless a prompt one is; if even the newest is later than the grace, all are missed.

What is sent may have to wait before: for earlier runs, by the schedule's overlap, and for its turn
among all that is late by more than a minute. `rules.due` tells of that.

What is new or has changed starts at its next fire time after the change: inserting, editing,
enabling or resuming never fires at once. What had passed before an edit and was not yet dispatched
is still decided: by the *when* that it passed by, and by all else as it is now.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.decision import (
    INSTANT,
    NEWER,
    NO_FIRE_TIME,
    NotSent,
    Plan,
    Situation,
    Stop,
    Stretch,
    bounded,
    stand,
)
from celery_dbbeat.rules.due import WALK_LIMIT, advance, still_wanted
from celery_dbbeat.rules.overlap import Running
from celery_dbbeat.rules.schedule import ON_TIME, Cursor, Schedule
from celery_dbbeat.rules.tick import Tick, due_at, task_id
from celery_dbbeat.rules.trigger import Trigger

__all__ = ["ON_TIME", "PROMPT", "WALK_LIMIT", "NotSent", "Plan", "Stop", "plan", "still_wanted"]

#: How late a fire time may be and still be sent although a newer one is due as well.
PROMPT = timedelta(seconds=3)


def plan(  # noqa: PLR0913 - all that a decision rests on
    schedule: Schedule,
    cursor: Cursor,
    now: datetime,
    prompt: timedelta = PROMPT,
    *,
    guarded: bool = False,
    room: int = 0,
    running: Sequence[Running] = (),
) -> Plan:
    """Decide; a schedule that cannot be used ends as `invalid`, with the reason.

    `guarded`: workers say how runs end, so that a schedule may ask about the run before. `room`:
    how many late ticks it may send now. `running`: its earlier ticks that are not done.
    """
    try:
        _check_overlap(schedule.overlap, guarded=guarded)
        trigger = schedule.trigger
        usual = _as_usual(schedule, trigger, cursor, now)
        if usual is not None:
            return usual
        case = Situation(schedule, trigger, now, prompt, room, running)
        return _one_range(cursor, _decide(case, cursor))
    except ScheduleError as error:
        return _invalid(cursor, str(error))
    except Exception as error:  # noqa: BLE001 - whatever one row can cause must not stop the others
        return _invalid(
            cursor, f"its fire times cannot be computed: {type(error).__name__}: {error}"
        )


def _check_overlap(overlap: str, *, guarded: bool) -> None:
    if overlap != "allow" and not guarded:
        raise ScheduleError(
            f"overlap {overlap!r} needs the worker guard, celery_dbbeat.setup(app), in beat and "
            "in the workers; allowed without it is allow"
        )


def _as_usual(schedule: Schedule, trigger: Trigger, cursor: Cursor, now: datetime) -> Plan | None:
    """The plan where one fire time is due and on time and nothing else counts: nearly always."""
    nominal = cursor.nominal_at
    if nominal is None or cursor.replan_from or schedule.overlap != "allow" or not cursor.plain:
        return None
    following = bounded(schedule, trigger.next(nominal))
    if following is not None and following <= now - schedule.jitter:
        return None
    identity = task_id(schedule.id, nominal)
    tick = Tick(identity, nominal, due_at(identity, nominal, schedule.jitter))
    if now - tick.due_at > ON_TIME or not still_wanted(schedule, tick, now):
        return None
    return stand(schedule, following, cursor.runs + 1, (tick,))


def _decide(case: Situation, cursor: Cursor) -> Plan:
    first, since = cursor.nominal_at, cursor.replan_from
    if since is None:
        if first is None:
            raise ScheduleError("the cursor has neither a fire time nor an instant to plan from")
        return advance(case, cursor, first)
    if cursor.held_at is not None:
        return _after_hold(case, cursor, since)
    if first is None or first > since:
        return stand(case.schedule, _first(case, since), cursor.runs)
    if cursor.before is None:
        return _decide_passed(case, cursor, first, since)
    return _decide_before(case, cursor, first, since, cursor.before)


def _decide_before(
    case: Situation, cursor: Cursor, first: datetime, since: datetime, before: str
) -> Plan:
    """Decide what passed before a change, by the *when* of then; after it the new one counts."""
    old = case.schedule.until(since, before)
    then = replace(case, schedule=old, trigger=old.trigger)
    due = then.tick(first).due_at
    if due > case.now:
        return Plan(replace(cursor, due_at=due))
    decided = advance(then, cursor, first)
    if decided.ends is None:
        return replace(decided, cursor=replace(decided.cursor, replan_from=since, before=before))
    if decided.reason != NO_FIRE_TIME:
        return decided
    after = stand(case.schedule, _first(case, since), decided.cursor.runs)
    if after.ends is None and decided.ticks:
        # It has to see that these are out, should they be sent by somebody else.
        after = replace(after, cursor=replace(after.cursor, waits_for="turn"))
    return replace(decided, cursor=after.cursor, ends=after.ends, reason=after.reason)


def _decide_passed(case: Situation, cursor: Cursor, passed: datetime, since: datetime) -> Plan:
    """One had passed before a change, and nobody knows the *when* of then any more."""
    following = _first(case, since)
    if passed < case.now - case.prompt and following is not None and following <= case.now:
        coalesced = NotSent("coalesced", passed, passed, 1, NEWER)
        return replace(stand(case.schedule, following, cursor.runs), not_sent=(coalesced,))
    ended = replace(case, schedule=replace(case.schedule, end_at=passed))
    decided = advance(ended, cursor, passed)
    if decided.ends is None or decided.reason != NO_FIRE_TIME:
        return replace(decided, cursor=replace(decided.cursor, replan_from=since))
    after = stand(case.schedule, following, decided.cursor.runs)
    return replace(decided, cursor=after.cursor, ends=after.ends, reason=after.reason)


def _after_hold(case: Situation, cursor: Cursor, since: datetime) -> Plan:
    """Start anew after `since`; what passed while the schedule was not active gets its reason."""
    following = _first(case, since)
    start = cursor.nominal_at or cursor.held_at or since
    first = _first(case, start - INSTANT)
    passed = cursor.nominal_at if _passed_before(cursor, first) else None
    if passed is not None:
        first = passed
    if first is None or first > since:
        return stand(case.schedule, following, cursor.runs)
    walk = case.trigger.walk(first, since, WALK_LIMIT)
    resting = NotSent("paused", first, walk.last, walk.count, "the schedule was not active")
    if walk.following is not None and walk.following <= since:
        return Plan(replace(cursor, nominal_at=walk.following), not_sent=(resting,))
    return replace(stand(case.schedule, following, cursor.runs), not_sent=(resting,))


def _passed_before(cursor: Cursor, first: datetime | None) -> bool:
    """Whether one had passed before the pause, by another *when* than that of now."""
    passed, held_at = cursor.nominal_at, cursor.held_at
    if passed is None or held_at is None or passed > held_at:
        return False
    return first is None or passed < first


def _first(case: Situation, since: datetime) -> datetime | None:
    start_at = case.schedule.start_at
    if start_at is not None:
        since = max(since, start_at - INSTANT)
    return bounded(case.schedule, case.trigger.next(since))


def _one_range(cursor: Cursor, decided: Plan) -> Plan:
    """Let a range go on that ended with the fire time before: it is one, however it was found."""
    told = decided.not_sent
    if cursor.range_at is None and not told:
        return decided
    row, state = None, None
    if cursor.range_at is not None and cursor.range_until is not None:
        row, state = Stretch(cursor.range_at, cursor.range_until), cursor.range_state
    if row and told and (told[0].first_at, told[0].state) == (cursor.nominal_at, state):
        told = (replace(told[0], goes_on=row), *told[1:])
    if told and (not decided.ticks or decided.ticks[-1].nominal_at < told[-1].last_at):
        last = told[-1]
        first_at = last.goes_on.first_at if last.goes_on else last.first_at
        row, state = Stretch(first_at, last.last_at), last.state
    elif told or decided.ticks:
        row, state = None, None
    through = cursor.replan_from is not None and decided.cursor.replan_from is None
    if row is None or through:  # a range is told by one *when*
        return replace(decided, not_sent=told)
    stands = replace(
        decided.cursor, range_at=row.first_at, range_until=row.last_at, range_state=state
    )
    return replace(decided, cursor=stands, not_sent=told)


def _invalid(cursor: Cursor, reason: str) -> Plan:
    stands = replace(cursor, due_at=None, waits_for=None, waits_since=None)
    return Plan(stands, ends="invalid", reason=reason)
