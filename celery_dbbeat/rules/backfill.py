"""The decision about fire times past that somebody ordered to be sent.

A backfill walks over a stretch of time in the order of its fire times. What each becomes follows
from what is known of it:

    nothing, missed, coalesced, paused …   send      under its own id: that of a normal tick
    failed, dead                           again     its next attempt, if that was asked for
    done, or sent and nothing more known   anew      under another id, if that was asked for
    on its way, or running                 skip      it needs no second message

*Own id* is what makes a backfill safe: what ran is not run again, whatever the order says, because
its id is taken; and two leaders that work on one backfill send one tick.

*Another id* is for doing again what is done, and only there: a guard that let a done id pass would
be none. It is made from the id and the number of the backfill, so within one backfill it, too, is
sent and done once.

A fire time that was not sent stands in a row for a whole range of them. What is sent out of a range
leaves it, so that each fire time stays in one row, and what is left goes on to say why:

    ├──── missed × 9 ────┤     becomes     ├ missed × 2 ┤ ● ● ● ├ missed × 4 ┤
               ● ● ●

Where the range does not fit, because the schedule fired at other times then, it is left whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from uuid import UUID, uuid5

from celery_dbbeat.rules.firetimes import INSTANT, fire_times
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.tick import task_id
from celery_dbbeat.rules.trigger import Walk

Reprocess = Literal["none", "failed", "all"]
Action = Literal["send", "again", "anew", "skip"]

#: Without the guard nobody says when a run ends, so a rate has to hold back: so many a second.
UNGUARDED_RATE = 1.0

_SECOND = timedelta(seconds=1)

#: What a tick's row may say besides why a fire time was not sent.
_SENT_STATES = frozenset({"recorded", "sent", "dead", "cancelled"})


@dataclass(frozen=True, slots=True)
class Past:
    """The row of a fire time: its tick, or the range of those not sent that it begins."""

    nominal_at: datetime
    task_id: UUID
    state: str
    claimed_at: datetime
    last_at: datetime | None = None
    count: int = 1
    reason: str | None = None
    awaited: bool = False
    outcome: str | None = None
    #: What its worker said last, and for which attempt.
    status: str | None = None
    run_attempt: int = 0

    @property
    def is_range(self) -> bool:
        """Whether it stands for more than its own fire time."""
        return self.count > 1 and self.last_at is not None


@dataclass(frozen=True, slots=True)
class FireTime:
    """One fire time of a backfill: what is known of it, and what becomes of it."""

    nominal: datetime
    #: The id under which it is sent, or was.
    task_id: UUID
    #: `unsent`, `missed`, `coalesced`, `paused`, `waiting`, `done`, `failed` or `sent`.
    standing: str
    #: `send`, `again` (its next attempt), `anew` (under another id) or `skip`.
    action: Action


@dataclass(frozen=True, slots=True)
class Order:
    """What of a backfill decides about a fire time; `number` is its own."""

    schedule_id: UUID
    number: int
    reprocess: Reprocess = "none"


@dataclass(frozen=True, slots=True)
class Stretch:
    """Fire times in their order, and the one after the last."""

    nominals: tuple[datetime, ...]
    following: datetime | None

    def up_to(self, number: int) -> "Stretch":
        """Only the first so many."""
        if number >= len(self.nominals):
            return self
        return Stretch(self.nominals[:number], self.nominals[number])


@dataclass(frozen=True, slots=True)
class Carved:
    """What is left of a range: so many before what was taken out, and so many after."""

    whole: Past
    front: Walk | None
    rest_at: datetime | None
    rest: int


def stretch_of(schedule: Schedule, since: datetime, until: datetime, limit: int) -> Stretch:
    """The next fire times from `since` up to and with `until`, by the schedule as it stands."""
    found: list[datetime] = []
    for nominal in fire_times(schedule, since - INSTANT):
        if nominal > until or len(found) == limit:
            return Stretch(tuple(found), nominal)
        found.append(nominal)
    return Stretch(tuple(found), None)


def standing(past: Past | None) -> str:
    """What is known of a fire time, in one word."""
    if past is None:
        return "unsent"
    if "done" in {past.status, past.outcome}:
        return "done"
    if past.state not in _SENT_STATES:
        return past.state
    if past.state == "recorded" or past.awaited:
        return "waiting"
    return "failed" if past.state == "dead" or past.outcome == "failed" else "sent"


def decide(
    order: Order,
    stretch: Stretch,
    known: Mapping[datetime, Past],
    covering: Past | None = None,
) -> list[FireTime]:
    """What becomes of each; `covering` is a range that begins before them."""
    decided = []
    for nominal in stretch.nominals:
        past = known.get(nominal)
        if past is not None and past.is_range:
            covering = past
        covered = covering is not None and _covers(covering, nominal)
        stands = covering.state if covering and covered and past is None else standing(past)
        action = _action(stands, order.reprocess)
        identity = task_id(order.schedule_id, nominal)
        if action == "anew":
            identity = uuid5(identity, f"backfill {order.number}")
        decided.append(FireTime(nominal, identity, stands, action))
    return decided


def carve(whole: Past, taken: Stretch, before: Walk | None = None) -> Carved | None:
    """What is left of a range; None: it does not fit, its fire times were others.

    `before`: of a range that begins before what is taken, how far it is up to there.
    """
    inside = [nominal for nominal in taken.nominals if _covers(whole, nominal)]
    first = whole.nominal_at if before is None else before.following
    front = 0 if before is None else before.count
    rest = whole.count - front - len(inside)
    goes_on = taken.following is not None and _covers(whole, taken.following)
    if not inside or inside[0] != first or rest < 0 or goes_on != (rest > 0):
        return None
    if not goes_on and inside[-1] != whole.last_at:
        return None
    return Carved(whole, before, taken.following if goes_on else None, rest)


def budget(
    now: datetime, paced_at: datetime | None, rate: float | None
) -> tuple[int | None, datetime]:
    """How many ticks may be sent now (None: any number), and the pace to go on from.

    What was not used is lost but for the last second: a pause is no reason for a storm.
    """
    if rate is None:
        return None, now
    since = max(paced_at or now - _SECOND, now - max(_SECOND, _SECOND / rate))
    return int((now - since) / _SECOND * rate + 1e-6), since


def paced(since: datetime, sent: int, rate: float | None) -> datetime:
    """Until when the rate is used up after so many more."""
    return since if rate is None else since + _SECOND * (sent / rate)


def _action(stands: str, reprocess: Reprocess) -> Action:
    if stands == "waiting":
        return "skip"
    if stands == "failed":
        return "skip" if reprocess == "none" else "again"
    if stands in {"done", "sent"}:
        return "anew" if reprocess == "all" else "skip"
    return "send"


def _covers(whole: Past, nominal: datetime) -> bool:
    return whole.last_at is not None and whole.nominal_at <= nominal <= whole.last_at
