"""Schedules that care about their runs before: what is still running, and who waits for its end.

When a tick of theirs is decided, its earlier ones are looked up in the rows that workers write. A
fire time that has to wait leaves its cursor where it is, not due. While there are such cursors, and
only then, whoever leads looks a few times a second which of them wait for nothing any more.
"""

from collections.abc import Mapping, Sequence
from uuid import UUID

from celery_dbbeat.clock import monotonic
from celery_dbbeat.rules.decision import Plan
from celery_dbbeat.rules.overlap import Running
from celery_dbbeat.store import overlaps
from celery_dbbeat.store.cursors import Due
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.overlaps import BEGINNING

#: How many schedules that wait one look takes.
SLICE = 1000

_LOOK_EVERY = 0.25
#: Should the leader hang, others notice the end of a run as well, later.
_OTHERS_LOOK_EVERY = 2.0
#: Looking takes this part of the time at the most.
_SHARE = 0.1


def running(transaction: Transaction, due: Sequence[Due]) -> Mapping[UUID, Sequence[Running]]:
    """The ticks that are not done, of those schedules that care."""
    asked = [one.schedule.id for one in due if one.schedule.overlap != "allow"]
    return overlaps.running(transaction, asked) if asked else {}


def stop(transaction: Transaction, planned: Sequence[tuple[Due, Plan]]) -> list[UUID]:
    """Let ticks end for newer ones; returns those that run and are to be ended by force."""
    stops = [(due.schedule.id, one) for due, plan in planned for one in plan.stops]
    if not stops:
        return []
    overlaps.cancel(transaction, stops)
    return [one.tick.task_id for _, one in stops if one.terminate and one.tick.begun]


class Waiting:
    """Looks after those that wait for a run to end."""

    def __init__(self, database: Database) -> None:
        """Nothing is known to wait."""
        self._database = database
        self._place = BEGINNING
        self._every = _LOOK_EVERY
        self._look_at = float("inf")

    @property
    def seconds_until_next(self) -> float:
        """How long until the next look; while nothing waits there is none."""
        return max(0.0, self._look_at - monotonic())

    def observe(self, *, waiting: bool, leads: bool) -> None:
        """Take in whether any waits."""
        self._every = _LOOK_EVERY if leads else _OTHERS_LOOK_EVERY
        if not waiting:
            self._look_at = float("inf")
        elif self._look_at == float("inf"):
            self._look_at = monotonic() + self._every

    def look(self) -> int:
        """Let those go that wait for nothing any more; says how many it was."""
        began_at = monotonic()
        with self._database.transaction() as transaction:
            found = overlaps.waiting(transaction, self._place, SLICE)
            self._place = found.end
            still = overlaps.running(transaction, list(found.at_once)) if found.at_once else {}
            free = [one for one, most in found.at_once.items() if len(still.get(one, ())) < most]
            gone = overlaps.let_go(transaction, free) if free else 0
        took = monotonic() - began_at
        self._look_at = monotonic() + max(self._every, took / _SHARE)
        return gone
