"""Look after the ticks that were sent to guarded workers, until it is known how they ended.

The leader walks over them in slices, round after round, a slice or a few a second:

    settle a slice ─ look closer at what is suspicious ─ judge ─┬─ put back, commit, send again
         ▲                                                      ├─ dead, missed, or not awaited
         └──────────── the next slice, or the next second ──────┴─ wait

A pass is short, and so many ticks are sent again in it at the most: dispatching is not held up, and
a lost worker or broker does not become a storm. While nothing is awaited, there is no more than a
look every half minute.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from celery_dbbeat.beat.case import Case, case_of
from celery_dbbeat.beat.dispatcher import Dispatcher
from celery_dbbeat.beat.failing import pause_failing
from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.beat.queues import UNASKED, Queues
from celery_dbbeat.clock import monotonic
from celery_dbbeat.rules.recovery import Verdict, judge, suspicious
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import awaited
from celery_dbbeat.store.awaited import BEGINNING, Closing, Suspect, Unsettled
from celery_dbbeat.store.database import Database

logger = logging.getLogger(__name__)

#: How many ticks one look takes.
SLICE = 1000
#: How many ticks a second are sent again at the most.
MOST_RESENT = 500

_LONGEST_PASS = 0.1
_WHILE_AWAITED = 1.0
#: While a round goes on and most of what it meets is done: there is as much to come.
_WHILE_SETTLING = 0.25
_WHILE_IDLE = 30.0
_REVIVE_EVERY = 600.0
#: The shortest `resend_after` that a schedule may have.
_PATIENCE = timedelta(seconds=1)


class Recovery:
    """Finds ticks that were lost on their way or with their worker."""

    def __init__(
        self,
        database: Database,
        publisher: Publisher,
        dispatcher: Dispatcher,
        settings: Settings,
        replica: str,
    ) -> None:
        """Nothing is touched here."""
        self._database = database
        self._publisher = publisher
        self._dispatcher = dispatcher
        self._settings = settings
        self._replica = replica
        self._place = BEGINNING
        self._met = False
        self._busy = True
        self._settling = False
        self._sent_before = 0
        self._last_at = self._revived_at = float("-inf")
        self._trust_leases_at = float("-inf")

    @property
    def seconds_until_next(self) -> float:
        """How long until the next pass; without the guard there is none."""
        if not self._settings.guard:
            return float("inf")
        return max(0.0, self._last_at + self._every() - monotonic())

    def distrust_leases(self) -> None:
        """Give those who run the time to renew: while the database was away, nobody could."""
        self._trust_leases_at = monotonic() + self._settings.run_lease

    def _every(self) -> float:
        if self._settling:
            return _WHILE_SETTLING
        awaits = self._busy or self._dispatcher.sent != self._sent_before
        return _WHILE_AWAITED if awaits else _WHILE_IDLE

    def run(self) -> None:
        """Look at the next slices, for a short time."""
        self._last_at = monotonic()
        self._settling = False
        this = _Pass(Queues(self._database, self._publisher))
        try:
            while self._look(this) and monotonic() < self._last_at + _LONGEST_PASS:
                pass
        finally:
            this.tell()
        pause_failing(self._database, this.failing, self._replica)
        goes_on = self._place != BEGINNING and not this.resent
        self._settling = goes_on and this.settled > this.met / 2
        if monotonic() >= self._revived_at + _REVIVE_EVERY:
            self._revived_at = monotonic()
            revived = awaited.revive(self._database)
            if revived:
                logger.warning("%d ticks that were given up are done after all", revived)

    def _look(self, this: "_Pass") -> bool:
        """Look at one slice; says whether there may be more in this round."""
        if self._place == BEGINNING:
            self._met, self._sent_before = False, self._dispatcher.sent
        found = awaited.settle(self._database, self._place, SLICE)
        self._met = self._met or found.number > 0
        this.met += found.number
        this.settled += found.number - len(found.unsettled)
        now = found.now
        if now is not None:
            wary = [
                one
                for one in found.unsettled
                if suspicious(one.status, one.lease_until, one.claimed_at, now, _PATIENCE)
                and not (one.status == "running" and monotonic() < self._trust_leases_at)
            ]
            if wary and not self._handle(wary, this):
                self._busy = True
                return False  # from the same place in the next pass
        if found.number == SLICE:
            self._place = found.end
            return True
        self._place, self._busy = BEGINNING, self._met
        return False

    def _handle(self, wary: Sequence[Unsettled], this: "_Pass") -> bool:
        """Judge, and do what was decided; says whether there was room for all of it."""
        now, suspects = awaited.suspects(self._database, wary)
        if now is None:
            return True
        cases = [case_of(one, self._publisher, self._settings) for one in suspects]
        facts = this.queues.facts(cases, now)
        judged = [
            (case, judge(one.open, case.limits, facts.get(one.task_id, UNASKED), now))
            for case, one in zip(cases, suspects, strict=True)
        ]
        self._close(judged, this)
        lost = [(case.suspect, verdict) for case, verdict in judged if verdict.action == "resend"]
        room = max(0, MOST_RESENT - this.resent)
        self._resend(lost[:room], this)
        return len(lost) <= room

    def _close(self, judged: Sequence[tuple[Case, Verdict]], this: "_Pass") -> None:
        closings = [
            (case.suspect, closing)
            for case, verdict in judged
            if (closing := _closing(case.suspect, verdict)) is not None
        ]
        if not closings:
            return
        won = awaited.close(self._database, closings)
        for one, closing in closings:
            if one.task_id in won:
                this.closed(one, closing)

    def _resend(self, lost: Sequence[tuple[Suspect, Verdict]], this: "_Pass") -> None:
        if not lost:
            return
        outgoing = awaited.resend(self._database, [one for one, _ in lost], self._replica)
        ours = {one.tick.task_id for one in outgoing}
        this.resent += len(outgoing)
        this.counts.update(
            f"sent again, {verdict.reason}" for one, verdict in lost if one.task_id in ours
        )
        self._dispatcher.send_again(outgoing)


class _Pass:
    """One pass: what it has learned of queues, and what it did."""

    def __init__(self, queues: Queues) -> None:
        self.queues = queues
        self.met = self.settled = self.resent = 0
        self.counts: Counter[str] = Counter()
        #: Schedules that are to be paused when too many of their ticks fail in a row.
        self.failing: set[UUID] = set()

    def closed(self, one: Suspect, closing: Closing) -> None:
        """Remember it; of a dead one somebody should know by name."""
        self.counts[_WORDS[closing.state]] += 1
        if closing.state == "dead":
            if one.pause_after is not None:
                self.failing.add(one.schedule_id)
            logger.error(
                "tick %s of schedule %s is dead: %s", one.task_id, one.name, closing.reason
            )

    def tell(self) -> None:
        """Say what was done, in one line."""
        if self.counts:
            done = "; ".join(f"{number} {what}" for what, number in sorted(self.counts.items()))
            logger.warning("recovery of ticks: %s", done)


_WORDS = {
    "dead": "dead",
    "missed": "expired in their queues",
    "sent": "not awaited any more, no guarded worker reads their queues",
}


def _closing(one: Suspect, verdict: Verdict) -> Closing | None:
    if verdict.action == "bury":
        reason = verdict.reason
        if one.schedule is None:
            reason = f"{reason}; its schedule was deleted"
        return Closing("dead", reason, "failed" if verdict.failed else None)
    if verdict.action == "expire":
        return Closing("missed", verdict.reason)
    return Closing("sent") if verdict.action == "forget" else None
