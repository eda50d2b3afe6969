"""Which *when* of a schedule was in force, and which fire times beat owes an answer for.

The audit keeps each change of a *when* with the instant from which it counts, and where the cursor
stood at that instant: the first fire time that beat had not come to. Between two changes lies a
stretch with one *when*. Its fire times are those after its beginning, up to and with its end:

        edited                       stood at           edited
    ──────┼────────●─────────●──────────●────────●────────┼──────▶
        since      └ decided ┘          └ passed ┘      until

Every fire time before the one where the cursor stood was decided: it has a tick or a reason. Those
that had passed and were not decided are still decided after an edit, each by the *when* that it
passed by; so they are owed as far as beat has come since then, which the next stretch tells. When
the schedule is paused, refused or deleted they are not, and that is their reason. What was never
planned, as one change came right after the other, was never in force.

A schedule that reaches `max_runs` is finished by the same transaction that records its last tick,
so what passed between that fire time and its end is not owed; nor what had passed before an edit
that it never got through.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Literal

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.firetimes import fire_times
from celery_dbbeat.rules.schedule import Cursor, Schedule

Ending = Literal["edited", "paused", "invalid", "finished", "deleted"]


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of the *when* or of the state of a schedule, or that it came or went.

    `schedule` and `state` are as they were from then on, None once it was deleted; `stood_at` is
    where the cursor stood. `change` tells the change itself, for people.
    """

    at: datetime
    action: str
    schedule: Schedule | None
    state: str | None
    stood_at: datetime | None = None
    change: object = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """One *when* and one state: in force after `since`, up to and with `until`; None: still.

    `stood_at` is the first fire time that beat has not come to, None where it came to all: when the
    stretch ended, or since then where it goes on after an edit with what had passed.
    """

    schedule: Schedule
    state: str
    since: datetime
    begun: Turn
    until: datetime | None = None
    ended: Turn | None = None
    ending: Ending | None = None
    stood_at: datetime | None = None
    planned: bool = True
    #: Whether its last fire times are not owed, as it had as many ticks as it may have.
    may_end_early: bool = False
    #: Whether what had passed at its end and is not decided will be.
    pending: bool = False

    @property
    def active(self) -> bool:
        """Whether it fires."""
        return self.state == "active"

    @property
    def goes_on(self) -> bool:
        """Whether fire times of it had passed at its end, and are decided after it."""
        if self.ending != "edited" or self.stood_at is None or self.until is None:
            return False
        return self.active and self.stood_at <= self.until

    @property
    def is_planned_itself(self) -> bool:
        """Whether the cursor stood at a fire time of its own, not at one from before it."""
        return self.stood_at is not None and self.stood_at > self.since

    @property
    def tells(self) -> bool:
        """Whether it is known where beat had come to in it."""
        return self.planned or self.stood_at is not None

    def holds(self, instant: datetime) -> bool:
        """Whether this instant lies in it."""
        return self.since < instant and (self.until is None or instant <= self.until)

    def owes(self, nominal: datetime) -> bool:
        """Whether this fire time of it has to have a tick or a reason by now."""
        if not self.active or not self.planned:
            return False
        return self.stood_at is None or nominal < self.stood_at

    def fire_times(self, since: datetime, until: datetime) -> Iterator[datetime]:
        """Its fire times after one instant, up to and with another."""
        until = until if self.until is None else min(until, self.until)
        return fire_times(self.schedule, max(since, self.since), until)


def stretches(turns: Iterable[Turn], cursor: Cursor | None) -> list[Stretch]:
    """What lies between the changes, in order; `cursor` tells how it stands now."""
    told: list[Turn] = []
    for turn in turns:
        if not told or _counts(told[-1], turn):
            told.append(turn)
    found = [_between(turn, following) for turn, following in pairwise(told)]
    if told:
        found.append(_open(told[-1], cursor))
    return _settled([one for one in found if one is not None])


def _counts(before: Turn, turn: Turn) -> bool:
    """Whether another *when* or state began; by another name only where it is spread by it."""
    old, new = before.schedule, turn.schedule
    if old is None or new is None or before.state != turn.state:
        return True
    if replace(old, name=new.name) != new:
        return True
    try:
        return old.trigger != new.trigger
    except ScheduleError:
        return False


def _between(turn: Turn, following: Turn) -> Stretch | None:
    if turn.schedule is None or turn.state is None:
        return None
    ending = _ending(following)
    return Stretch(
        turn.schedule,
        turn.state,
        turn.at,
        turn,
        max(turn.at, following.at),
        following,
        ending,
        following.stood_at,
        planned=following.stood_at is not None or ending == "finished",
        may_end_early=ending == "finished" and turn.schedule.max_runs is not None,
    )


def _ending(turn: Turn) -> Ending:
    if turn.schedule is None or turn.state is None:
        return "deleted"
    if turn.state == "active":
        return "edited"
    if turn.state == "invalid":
        return "invalid"
    return "finished" if turn.state == "finished" else "paused"


def _open(turn: Turn, cursor: Cursor | None) -> Stretch | None:
    if turn.schedule is None or turn.state is None:
        return None
    last = Stretch(turn.schedule, turn.state, turn.at, turn)
    if cursor is None:
        return last
    return replace(last, stood_at=cursor.nominal_at, planned=cursor.replan_from is None)


def _settled(found: Sequence[Stretch]) -> list[Stretch]:
    """Where an edit left fire times to be decided, a later stretch tells how far that has come.

    Edited again before that was through, the *when* in between was never planned: it owes nothing.
    """
    settled: list[Stretch] = []
    tells: Stretch | None = None
    for stretch in reversed(found):
        own = stretch
        if tells is None or not stretch.goes_on or not tells.tells:
            tells = stretch
        elif stretch.is_planned_itself:
            own = replace(
                stretch,
                stood_at=tells.stood_at,
                may_end_early=tells.may_end_early,
                pending=tells.until is None and not tells.planned,
            )
        settled.append(own)
    return settled[::-1]


def in_force(told: Sequence[Stretch], instant: datetime) -> Stretch | None:
    """The stretch in which an instant lies; None before the schedule was and after it."""
    return next((one for one in told if one.holds(instant)), None)
