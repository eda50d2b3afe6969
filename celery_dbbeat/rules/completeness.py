"""Whether each fire time that a schedule had came to a tick or to a reason why not.

What ought to be is worked out from the schedule's story alone (`rules.story`), never from what was
recorded; then what was recorded is held against it. Both come in the order of time, a window of it
at a time, so that nothing but the place in it is remembered.

A tick counts when it bears the id of that fire time: what was triggered by hand has another, a
backfill or a replay the same. A reason counts for all fire times from its first to its last.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from typing import Literal
from uuid import UUID

from celery_dbbeat.errors import ScheduleError
from celery_dbbeat.rules.firetimes import INSTANT
from celery_dbbeat.rules.story import Stretch
from celery_dbbeat.rules.tick import UTC, due_at, task_id

#: What a tick is that was to be sent; all other states say why a fire time was not.
SENT = frozenset({"recorded", "sent", "dead", "cancelled"})


@dataclass(frozen=True, slots=True)
class Decided:
    """A row of the history: a tick, or a range of fire times not sent."""

    nominal_at: datetime
    last_at: datetime | None
    task_id: UUID
    state: str

    def counts(self, schedule_id: UUID) -> bool:
        """Whether it speaks for fire times of the schedule's *when*."""
        return self.state not in SENT or self.task_id == task_id(schedule_id, self.nominal_at)


@dataclass(frozen=True, slots=True)
class Gap:
    """A fire time with neither tick nor reason.

    `lost`: beat has gone past it. `overdue`: beat has not come to it, and should have.
    """

    schedule_id: UUID
    schedule: str
    nominal: datetime
    state: Literal["lost", "overdue"]


@dataclass(slots=True)
class Reckoning:
    """One schedule, looked through window by window.

    `overdue`: beat ought to have come to its next fire time. What is due after `settled_until` may
    be under way.
    """

    stretches: Sequence[Stretch]
    settled_until: datetime
    overdue: bool = False
    covered_until: datetime | None = None
    fire_times: int = 0
    unreadable: str | None = None
    _early: list[Gap] = field(default_factory=list)

    def look(self, since: datetime, before: datetime, rows: Iterable[Decided]) -> Iterator[Gap]:
        """Gaps from `since` on, before `before`; the rows are those of just this window."""
        told = _Told(iter(rows), self.covered_until)
        for stretch in self.stretches:
            if not stretch.active or not _meets(stretch, since, before):
                continue
            try:
                yield from self._of(stretch, since, before, told)
            except ScheduleError as error:
                # Beat refuses it as well, and says so on the schedule.
                self.unreadable = str(error)
        told.up_to(before)
        self.covered_until = told.covered_until

    def _of(
        self, stretch: Stretch, since: datetime, before: datetime, told: "_Told"
    ) -> Iterator[Gap]:
        identity = stretch.schedule.id
        for nominal in stretch.fire_times(since - INSTANT, before - INSTANT):
            self.fire_times += 1
            if told.has(identity, nominal):
                yield from self._early
                self._early.clear()
                continue
            gap = self._gap(stretch, nominal)
            if gap is not None and stretch.may_end_early:
                self._early.append(gap)
            elif gap is not None:
                yield gap
        if stretch.ending == "finished" and stretch.until is not None and stretch.until < before:
            # What came after the last tick that it might have.
            self._early.clear()

    def _gap(self, stretch: Stretch, nominal: datetime) -> Gap | None:
        schedule = stretch.schedule
        if stretch.owes(nominal):
            return Gap(schedule.id, schedule.name, nominal, "lost")
        if not self.overdue or (stretch.ending is not None and not stretch.pending):
            return None
        due = due_at(task_id(schedule.id, nominal), nominal, schedule.jitter)
        if due > self.settled_until:
            return None
        return Gap(schedule.id, schedule.name, nominal, "overdue")


class _Told:
    """The rows of a window, read as far as the fire time that is looked for."""

    def __init__(self, rows: Iterator[Decided], covered_until: datetime | None) -> None:
        self.covered_until = covered_until
        self._rows = rows
        self._next = next(rows, None)
        self._here: list[Decided] = []

    def has(self, schedule_id: UUID, nominal: datetime) -> bool:
        """Whether a tick or a reason speaks for this fire time."""
        self.up_to(nominal)
        if self.covered_until is not None and nominal <= self.covered_until:
            return True
        return any(row.nominal_at == nominal and row.counts(schedule_id) for row in self._here)

    def up_to(self, nominal: datetime) -> None:
        """Read all rows up to and with this instant."""
        while self._next is not None and self._next.nominal_at <= nominal:
            row, self._next = self._next, next(self._rows, None)
            if self._here and self._here[0].nominal_at != row.nominal_at:
                self._here.clear()
            self._here.append(row)
            if row.state not in SENT:
                last = row.last_at or row.nominal_at
                if self.covered_until is None or last > self.covered_until:
                    self.covered_until = last


def _meets(stretch: Stretch, since: datetime, before: datetime) -> bool:
    return stretch.since < before and (stretch.until is None or stretch.until >= since)


def windows(since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The stretch of time cut at midnight UTC, where the partitions of the history are."""
    start = since
    while start < until:
        midnight = datetime.combine(start.astimezone(UTC).date(), time(), UTC)
        end = min(midnight + timedelta(days=1), until)
        yield start, end
        start = end
