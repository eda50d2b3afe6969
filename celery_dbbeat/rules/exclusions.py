"""Fire times that are taken away: whole days, instants, and what rules name."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import Trigger
from celery_dbbeat.rules.zone import UTC, to_instant

_INSTANT = timedelta(microseconds=1)
_DAY = timedelta(days=1)

#: After so many steps that met nothing but exclusions, nothing is waited for any more. A day that
#: is excluded as a whole is one step, however often it would have fired.
MOST_IN_A_ROW = 2_000


@dataclass(frozen=True, slots=True)
class Exclusions:
    """What does not fire. Days are those of `zone`; so are the days that `day_rules` name."""

    zone: tzinfo = field(default=UTC, compare=False, repr=False)
    days: frozenset[date] = frozenset()
    instants: frozenset[datetime] = frozenset()
    day_rules: tuple[Trigger, ...] = ()
    rules: tuple[Trigger, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.days or self.instants or self.day_rules or self.rules)

    def last_with(self, instant: datetime) -> datetime | None:
        """Return the last instant up to which all is excluded with this one; None if it is not."""
        if self.days or self.day_rules:
            day = instant.astimezone(self.zone).date()
            if day in self.days or any(self._names(rule, day) for rule in self.day_rules):
                return max(instant, self._begin_of(day + _DAY) - _INSTANT)
        if instant in self.instants:
            return instant
        if any(rule.next(instant - _INSTANT) == instant for rule in self.rules):
            return instant
        return None

    def _names(self, rule: Trigger, day: date) -> bool:
        begin = self._begin_of(day)
        return rule.next(begin - _INSTANT) == begin

    def _begin_of(self, day: date) -> datetime:
        return to_instant(datetime.combine(day, time()), self.zone)


def first_not_excluded(
    trigger: Trigger, exclusions: Exclusions, after: datetime
) -> datetime | None:
    """Return the first fire time strictly after the instant that is left."""
    found = trigger.next(after)
    if not exclusions:
        return found
    for _ in range(MOST_IN_A_ROW):
        if found is None:
            return None
        last = exclusions.last_with(found)
        if last is None:
            return found
        found = trigger.next(last)
    raise TriggerError(
        f"more than {MOST_IN_A_ROW} fire times or days in a row are excluded: "
        f"nothing is left to wait for after {after.isoformat()}"
    )
