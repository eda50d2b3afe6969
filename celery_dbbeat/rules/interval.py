"""Every so many seconds, counted from an anchor: anchor + n * every, so that it never drifts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import Trigger, Walk
from celery_dbbeat.rules.zone import UTC

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORTEST = timedelta(seconds=0.1)
_LONGEST = timedelta(days=36525)
_SECONDS = re.compile(r"([0-9]{1,10})(?:\.([0-9]{1,6})0{0,20})?")


@dataclass(frozen=True, slots=True)
class Interval(Trigger):
    """`start_at` is the anchor and the first fire time; without it the anchor is the epoch."""

    every: timedelta
    start_at: datetime | None = None

    def next(self, after: datetime) -> datetime | None:
        """Return the first fire time strictly after the instant."""
        anchor = self.start_at
        if anchor is None:
            anchor = _EPOCH
        elif after < anchor:
            return anchor
        # Whole timedeltas divide exactly: no float comes near a fire time.
        try:
            return anchor + ((after - anchor) // self.every + 1) * self.every
        except OverflowError:
            return None

    def walk(self, first: datetime, until: datetime, limit: int) -> Walk:
        """Count by arithmetic: a long pause of a short interval costs no more than a short one."""
        first, until = first.astimezone(UTC), until.astimezone(UTC)
        following = self.next(first)
        if following is None or following > until or limit <= 1:
            return Walk(1, first, following)
        more = min((until - following) // self.every + 1, limit - 1)
        last = following + (more - 1) * self.every
        return Walk(1 + more, last, self.next(last))


def parse_interval(expression: str, start_at: datetime | None) -> Interval:
    """Read seconds as plain decimal text."""
    found = _SECONDS.fullmatch(expression.strip())
    every = timedelta(0)
    if found:
        fraction = (found[2] or "").ljust(6, "0")
        every = timedelta(seconds=int(found[1]), microseconds=int(fraction))
    if not _SHORTEST <= every <= _LONGEST:
        raise TriggerError(
            f"interval {expression[:60]!r} is not allowed: it has to be seconds as plain text, "
            f"such as '1', '0.5' or '86400', from {_SHORTEST.total_seconds():g} "
            f"to {_LONGEST // timedelta(seconds=1)}, in whole microseconds"
        )
    return Interval(every, start_at)
