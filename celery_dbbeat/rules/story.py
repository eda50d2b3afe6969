"""Which *when* of a schedule was in force, and which fire times beat owes an answer for.

The audit keeps each change of a *when* with the instant from which it counts, and where the cursor
stood at that instant: the first fire time that beat had not come to. Between two changes lies a
stretch with one *when*. Its fire times are those after its beginning, up to and with its end:

        edited                       stood at           edited
    ──────┼────────●─────────●──────────●────────●────────┼──────▶
        since      └ decided ┘      one that had   not owed   until
                                       passed

Every fire time before the one where the cursor stood was decided: it has a tick or a reason. Of
those that had passed and were not decided, an edit leaves one to be decided; the others go with the
*when* that was replaced, and the edit is their reason. So it is with all of them when the schedule
is paused, refused or deleted. What was never planned, as one change came right after the other, was
never in force.

A schedule that reaches `max_runs` is finished by the same transaction that records its last tick,
so what passed between that fire time and its end is not owed.
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

    `owed_until` is the first fire time that is not owed any more, None where all are.
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
    one_more: bool = False

    @property
    def active(self) -> bool:
        """Whether it fires."""
        return self.state == "active"

    @property
    def may_end_early(self) -> bool:
        """Whether its last fire times are not owed, as it had as many ticks as it may have."""
        return self.ending == "finished" and self.schedule.max_runs is not None

    def holds(self, instant: datetime) -> bool:
        """Whether this instant lies in it."""
        return self.since < instant and (self.until is None or instant <= self.until)

    def owes(self, nominal: datetime) -> bool:
        """Whether this fire time of it has to have a tick or a reason by now."""
        if not self.active or not self.planned:
            return False
        if self.stood_at is None or nominal < self.stood_at:
            return True
        return self.one_more and nominal == self.stood_at

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
        one_more=ending == "edited",
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
    """An edit leaves one fire time to be decided, unless nothing was before the next change."""
    settled: list[Stretch] = []
    for stretch in reversed(found):
        later = settled[-1] if settled else None
        if later is not None and stretch.one_more and stretch.stood_at == later.stood_at:
            stretch = replace(stretch, one_more=later.one_more)  # noqa: PLW2901 - the same one, better known
        settled.append(stretch)
    return settled[::-1]


def in_force(told: Sequence[Stretch], instant: datetime) -> Stretch | None:
    """The stretch in which an instant lies; None before the schedule was and after it."""
    return next((one for one in told if one.holds(instant)), None)
