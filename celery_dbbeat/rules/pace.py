"""How many late ticks may go now, so that all replicas together keep to a rate.

`free_at` is when the next one may go. A tick takes 1/rate of time, so that those of a burst lie one
behind the other. Time in which nobody sent any is not saved up, but for a moment: who comes back
from a pause may not send at once what would have gone meanwhile.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

#: The least rate where none is set, in ticks a second.
LEAST_RATE = 100.0

#: So much time at the most is made up for: less would cost rate whenever a batch takes long.
SAVED_UP = timedelta(seconds=0.25)

#: Late ticks are sent in batches, so far apart.
BETWEEN_BATCHES = timedelta(seconds=0.05)


@dataclass(frozen=True, slots=True)
class Room:
    """How many late ticks may go, and from which instant on they are counted."""

    start: datetime
    rate: float
    ticks: int

    def free_at(self, sent: int) -> datetime:
        """When the next one may go, after so many."""
        return self.start + timedelta(seconds=sent / self.rate)


def room(free_at: datetime, now: datetime, rate: float, most: int) -> Room:
    """The room that there is now, for at most so many."""
    start = max(free_at, now - SAVED_UP)
    if start > now:
        return Room(start, rate, 0)
    return Room(start, rate, min(most, int((now - start).total_seconds() * rate) + 1))


def rate(asked: float | None, usual: float) -> float:
    """The rate asked for, or else twice the usual one."""
    return max(LEAST_RATE, 2 * usual) if asked is None else asked


def shares(ticks: int, among: int) -> list[int]:
    """Share the room out evenly, the first getting what is left over."""
    each, rest = divmod(ticks, among)
    return [each + (place < rest) for place in range(among)]
