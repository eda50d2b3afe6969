"""From due cursors to messages that are known to be sent.

One batch is one transaction and one publication:

    begin ─ mark the batch before as sent ─ claim ─ plan ─ record ─ commit ─ publish ─┐
      ▲                                                                              │
      └──────────────────────── until nothing is due ────────────────────────────────┘

Die before the commit, and the cursors are still due: the next claim takes them. Die after it, and
the ticks stand there as `recorded`: any replica sends them again under the same ids. Die after
publishing and before marking, and a tick is sent twice under one id. A tick is never recorded
twice, because its cursor is locked from claim to commit, and its key is its identity.

What could not be published because the broker went away is kept and published first when it is
back; should this process die meanwhile, the others find it recorded and not sent.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from uuid import UUID

from celery_dbbeat.beat.catch_up import CatchUp, Turn
from celery_dbbeat.beat.overlaps import running, stop
from celery_dbbeat.beat.publisher import Outcome, Publisher
from celery_dbbeat.clock import monotonic
from celery_dbbeat.errors import BrokerUnavailable
from celery_dbbeat.failpoints import hit
from celery_dbbeat.observe import beat as observe
from celery_dbbeat.observe.logs import facts
from celery_dbbeat.rules.due import too_late
from celery_dbbeat.rules.plan import Plan, plan, still_wanted
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import cursors, overlaps, pace, schedules, ticks
from celery_dbbeat.store.cursors import Due, Holding, Outgoing, Outlook
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.schedules import Ending

logger = logging.getLogger(__name__)

_SMALLEST_BATCH = 10


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one transaction decided; or, when nothing is due, when there is something next."""

    outgoing: Sequence[Outgoing] = ()
    terminate: Sequence[UUID] = ()
    hedged: int = 0
    outlook: Outlook | None = None


class Dispatcher:
    """Sends what is due."""

    def __init__(
        self, database: Database, publisher: Publisher, settings: Settings, replica: str
    ) -> None:
        """Nothing is touched here."""
        self._database = database
        self._publisher = publisher
        self._replica = replica
        self._guarded = settings.guard
        self._hedge = timedelta(seconds=settings.hedge_after)
        self._lease_ttl = timedelta(seconds=settings.lease_ttl)
        # Where workers drop what they get twice, sending twice costs less than waiting.
        patience = self._hedge if settings.guard else self._lease_ttl
        self._adopter = ticks.Adopter(replica, self._lease_ttl, patience)
        # Planning holds row locks, and publishing must be over well before others hedge.
        self._patience = settings.hedge_after / 4
        # What a replica is late by when it steps in for another one.
        self._prompt = timedelta(seconds=min(3 * settings.hedge_after, settings.lease_ttl))
        self._limit = self._batch_size = settings.batch_size
        self._unmarked: list[Outgoing] = []
        self._unsent: list[Outgoing] = []
        self._catch_up = CatchUp(settings)
        #: Whether a schedule is known to wait for a run to end.
        self.waiting = False
        #: How many ticks were handed to the broker, and how many of them on time; these only grow.
        self.sent = self.on_time = 0

    @property
    def seconds_until_late(self) -> float:
        """How long until the next late tick may go."""
        return self._catch_up.seconds_until_next

    def run(self, holding: Holding, seconds: float) -> tuple[Outlook | None, bool]:
        """Send what is due, for so many seconds at the most.

        Returns when there is something to do next, None for at once; and whether anything was taken
        in another replica's stead.
        """
        stop_at = monotonic() + seconds
        hedged = False
        self._publish_unsent()
        while True:
            batch = self._claim(holding)
            if batch.outlook is not None:
                return batch.outlook, hedged
            if batch.hedged:
                hedged = True
                logger.info(
                    "hedged: %d schedules were overdue, and are not mine",
                    batch.hedged,
                    extra=facts("hedged", replica=self._replica),
                )
            self._publisher.terminate(batch.terminate)
            self._publish(batch.outgoing)
            if monotonic() > stop_at:
                return None, hedged

    def recover(self) -> int:
        """Send what other replicas recorded and did not; says how many ticks it took over."""
        with self._database.transaction() as transaction:
            adopted = ticks.adopt_unsent(
                transaction,
                self._adopter,
                self._limit,
                own_too=not self._unsent and not self._unmarked,
            )
        if adopted.now is not None:
            observe.recovered("unsent", len(adopted.outgoing))
            logger.warning(
                "sending %d ticks again that were not known to be sent",
                len(adopted.outgoing),
                extra=facts("recovered", count=len(adopted.outgoing)),
            )
            self._publish_wanted(adopted.outgoing, adopted.now)
            self._mark()
        return len(adopted.outgoing)

    def send_again(self, outgoing: Sequence[Outgoing]) -> None:
        """Send what recovery has put back; its commit was before, as with any tick."""
        overlaps.open_ticks(self._database, outgoing)
        self._publish(outgoing)
        self._mark()

    def finish(self) -> None:
        """Mark what was published, before this replica leaves."""
        self._mark()

    def _claim(self, holding: Holding) -> "_Batch":
        observe.batch_begins()
        with self._database.transaction() as transaction:
            hit("before_mark")
            if self._unmarked:
                ticks.mark_sent(transaction, self._unmarked, guarded=self._guarded)
                observe.lap("mark")
            hit("before_claim")
            now, due = cursors.claim(transaction, holding, self._hedge, self._limit)
            room = self._limit - len(due)
            turn = self._catch_up.claim(transaction, holding, room, busy=now is not None)
            observe.claimed(now if turn is None else turn.now)
            hit("after_claim")
            hedged = sum(one.epoch is None for one in due)
            if turn is not None:
                claimed = [*((one, 0) for one in due), *turn.due]
                batch = self._record(transaction, claimed, turn.now, turn, hedged=hedged)
            elif now is not None:
                claimed = [(one, 0) for one in due]
                batch = self._record(transaction, claimed, now, None, hedged=hedged)
            else:
                outlook = cursors.outlook(transaction, holding, self._replica, self._lease_ttl)
                self._catch_up.observe(outlook, holding)
                self.waiting = outlook.waiting
                batch = _Batch(outlook=outlook)
        observe.committed()
        self._unmarked = []
        hit("after_mark")
        hit("after_record")
        return batch

    def _record(
        self,
        transaction: Transaction,
        claimed: Sequence[tuple[Due, int]],
        now: datetime,
        turn: Turn | None,
        *,
        hedged: int,
    ) -> "_Batch":
        claimed = self._in_order(transaction, claimed)
        planned = self._plan(transaction, claimed, now)
        observe.planned(
            (len(decided.ticks) for one, decided in planned if one.epoch is None),
            (one for _, decided in planned for one in decided.not_sent),
        )
        hit("after_plan")
        if not planned:
            return _Batch(hedged=hedged)
        outgoing = cursors.record(transaction, planned, self._replica)
        overlaps.open_ticks(transaction, outgoing)
        terminate = stop(transaction, planned)
        if turn is not None:
            late = sum(tick.kind == "catch_up" for _, one in planned for tick in one.ticks)
            pace.charge(transaction, turn.room.free_at(late))
        waits = {one.cursor.waits_for for _, one in planned}
        self.waiting = self.waiting or "run" in waits
        if turn is None and "turn" in waits:
            self._catch_up.hurry()
        endings = [
            Ending(one.schedule, decided.ends, decided.reason or "")
            for one, decided in planned
            if decided.ends is not None
        ]
        if endings:
            self._end(transaction, endings)
        observe.lap("record")
        return _Batch(outgoing, terminate, hedged=hedged)

    def _in_order(
        self, transaction: Transaction, claimed: Sequence[tuple[Due, int]]
    ) -> Sequence[tuple[Due, int]]:
        """Leave out those of which a late tick is on its way: the next must not overtake it."""
        caught_up_on = [one.schedule.id for one, _ in claimed if one.cursor.waits_for == "turn"]
        unsent = cursors.unsent_of(transaction, caught_up_on) if caught_up_on else set()
        if unsent:
            cursors.postpone(transaction, [one for one in caught_up_on if one in unsent])
        return [(one, room) for one, room in claimed if one.schedule.id not in unsent]

    def _plan(
        self, transaction: Transaction, claimed: Sequence[tuple[Due, int]], now: datetime
    ) -> list[tuple[Due, Plan]]:
        """Plan for a while; what is left stays due."""
        open_ticks = running(transaction, [one for one, _ in claimed]) if self._guarded else {}
        stop_at = monotonic() + self._patience
        planned = []
        for one, room in claimed:
            decided = plan(
                one.schedule,
                one.cursor,
                now,
                self._prompt,
                guarded=self._guarded,
                room=room,
                running=open_ticks.get(one.schedule.id, ()),
            )
            planned.append((one, decided))
            if monotonic() > stop_at:
                break
        return planned

    def _end(self, transaction: Transaction, endings: Sequence[Ending]) -> None:
        transaction.act_as(self._replica, "beat")
        ended = schedules.end(transaction, endings)
        held = [one.schedule.id for one in endings if one.schedule.id not in ended]
        observe.ended([one.state for one in endings if one.schedule.id in ended])
        if held:
            cursors.revisit(transaction, held)
        for one in endings:
            if one.schedule.id in ended and one.state == "invalid":
                logger.error(
                    "schedule %s is invalid: %s",
                    one.schedule.name,
                    one.reason,
                    extra=facts("invalid", schedule=one.schedule.name),
                )

    def _publish_unsent(self) -> None:
        if self._unsent:
            now = self._database.now()
            unsent, self._unsent = self._unsent, []
            self._publish_wanted(unsent, now)

    def _publish_wanted(self, outgoing: Sequence[Outgoing], now: datetime) -> None:
        """Publish what is not too late by now; the rest gets its reason."""
        wanted, late = [], {}
        for one in outgoing:
            if still_wanted(one.schedule, one.tick, now):
                wanted.append(one)
            else:
                late[one] = f"not known to be sent: {too_late(one.schedule)}"
        if late:
            observe.missed(ticks.give_up(self._database, late))
        overlaps.open_ticks(self._database, wanted)
        self._publish(wanted)

    def _publish(self, outgoing: Sequence[Outgoing]) -> None:
        if not outgoing:
            return
        hit("before_publish")
        started_at = monotonic()
        outcome = self._publisher.publish(outgoing)
        hit("after_publish")
        seconds = monotonic() - started_at
        observe.published(seconds, outcome)
        logger.debug(
            "sent a batch of %d ticks in %.3f s",
            len(outcome.sent),
            seconds,
            extra=facts("sent", count=len(outcome.sent), seconds=seconds),
        )
        self._pace(len(outcome.sent), seconds)
        self.sent += len(outcome.sent)
        self.on_time += sum(one.tick.kind == "scheduled" for one in outcome.sent)
        self._unmarked.extend(outcome.sent)
        self._unsent.extend(outcome.unsent)
        self._settle(outcome)

    def _pace(self, sent: int, seconds: float) -> None:
        """Keep batches so small that publishing one is over well before others hedge."""
        if sent and seconds > 0:
            fits = int(sent / seconds * self._patience)
            self._limit = max(_SMALLEST_BATCH, min(self._batch_size, fits))

    def _settle(self, outcome: Outcome) -> None:
        # They stay recorded, and are tried again after a lease's time.
        refused = sorted(outcome.refused.items(), key=itemgetter(1))
        for reason, ones in groupby(refused, itemgetter(1)):
            first, *others = [one for one, _ in ones]
            logger.warning(
                "tick %s of schedule %s%s was not taken: %s",
                first.tick.task_id,
                first.schedule.name,
                f", as {len(others)} others," if others else "",
                reason,
                extra=facts(
                    "refused",
                    schedule=first.schedule.name,
                    task_id=first.tick.task_id,
                    nominal=first.tick.nominal_at,
                    count=1 + len(others),
                ),
            )
        if outcome.impossible:
            with self._database.transaction() as transaction:
                ticks.give_up(transaction, outcome.impossible)
                # What is triggered may have arguments of its own: then these are wrong, no more.
                endings = [
                    Ending(one.schedule, "invalid", reason)
                    for one, reason in outcome.impossible.items()
                    if one.tick.kind != "manual"
                ]
                if endings:
                    self._end(transaction, endings)
        if outcome.broken is not None:
            raise BrokerUnavailable(
                f"the broker went away, {len(outcome.unsent)} ticks wait for it: {outcome.broken}"
            ) from outcome.broken

    def _mark(self) -> None:
        if self._unmarked:
            ticks.mark_sent(self._database, self._unmarked, guarded=self._guarded)
            self._unmarked = []
