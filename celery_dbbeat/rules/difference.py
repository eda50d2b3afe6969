"""What another *when* would change: which fire times come, which go, and which would overlap."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, pairwise
from statistics import median

from celery_dbbeat.rules.firetimes import fire_times, last_before
from celery_dbbeat.rules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class FireTimes:
    """The last and the next fire times of two *whens*, taken together, in order of time."""

    kept: tuple[datetime, ...]
    added: tuple[datetime, ...]
    removed: tuple[datetime, ...]

    @property
    def new(self) -> list[datetime]:
        """Those that there would be."""
        return sorted((*self.kept, *self.added))


def difference(old: Schedule, new: Schedule, now: datetime, count: int) -> FireTimes:
    """Of both schedules together the last `count` fire times up to now, and the next ones."""
    before = [_last(one, now, count) for one in (old, new)]
    after = [list(islice(fire_times(one, now), count)) for one in (old, new)]
    last = sorted({*before[0], *before[1]})[-count:]
    following = sorted({*after[0], *after[1]})[:count]
    was, will_be = {*before[0], *after[0]}, {*before[1], *after[1]}
    every = [*last, *following]
    return FireTimes(
        tuple(one for one in every if one in was and one in will_be),
        tuple(one for one in every if one not in was),
        tuple(one for one in every if one not in will_be),
    )


def overlaps(
    nominals: Sequence[datetime], took: Mapping[datetime, timedelta]
) -> tuple[datetime, ...]:
    """The fire times at which the run of the one before would still be going on.

    A run is reckoned as long as it was where there was one, else as long as half of the last runs
    are not exceeded by.
    """
    usual = typical(took.values())
    if usual is None:
        return ()
    return tuple(
        following
        for nominal, following in pairwise(nominals)
        if nominal + took.get(nominal, usual) > following
    )


def typical(durations: Iterable[timedelta]) -> timedelta | None:
    """The median; None of nothing."""
    seconds = [one.total_seconds() for one in durations]
    return timedelta(seconds=median(seconds)) if seconds else None


def _last(schedule: Schedule, now: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    at = last_before(schedule, now)
    while at is not None and len(found) < count:
        found.append(at)
        at = last_before(schedule, at)
    return found
