"""Work off backfills: fire times past that somebody ordered, in slices, one transaction each.

    lock the backfill and its schedule's cursor ─ see which of its ticks ended ─ decide the next
    fire times ─ record ticks and position ─ commit ─ publish ─ mark as sent

The position moves in the transaction that records the ticks. Die before its commit, and nothing
was decided; die after it, and the ticks stand there as `recorded`, which any replica sends. A
second leader skips what is locked. So nothing is lost or sent under two ids, and the order is that
of the fire times: no more than `max_concurrent` are on their way or running at once, and the next
is recorded only when one of these has ended.

It is done between passes of dispatching and only when nothing is due, and a pass is short: on-time
ticks go first.
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from celery_dbbeat.beat.dispatcher import Dispatcher
from celery_dbbeat.clock import monotonic
from celery_dbbeat.failpoints import hit
from celery_dbbeat.rules.backfill import (
    UNGUARDED_RATE,
    FireTime,
    Past,
    Stretch,
    budget,
    carve,
    decide,
    paced,
    standing,
    stretch_of,
)
from celery_dbbeat.rules.firetimes import INSTANT
from celery_dbbeat.rules.tick import task_id
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import slices
from celery_dbbeat.store.cursors import Outgoing
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.overlaps import open_ticks
from celery_dbbeat.store.slices import Locked, Progress, Stand

logger = logging.getLogger(__name__)

#: How many fire times one slice looks at, at first and at the most.
FEW, MANY = 16, 500

_LONGEST_PASS = 0.1
_WHILE_MOVING = 0.05
_WHILE_WAITING = 0.25
#: A new one is heard of; this is for where notifications do not arrive.
_WHILE_IDLE = 10.0


@dataclass(frozen=True, slots=True)
class _Done:
    """What a slice did: ticks to publish, and whether there may be more to do at once."""

    outgoing: Sequence[Outgoing] = ()
    more: bool = False


@dataclass(frozen=True, slots=True)
class _Taken:
    """The fire times of a slice, what becomes of them, and what is known of them."""

    stretch: Stretch
    decided: Sequence[FireTime]
    rows: dict[UUID, Past]
    before: Past | None

    @property
    def chosen(self) -> list[FireTime]:
        """Those to be sent."""
        return [one for one in self.decided if one.action != "skip"]


class Backfills:
    """Sends the fire times of the past that were ordered."""

    def __init__(
        self, database: Database, dispatcher: Dispatcher, settings: Settings, replica: str
    ) -> None:
        """Nothing is touched here."""
        self._database = database
        self._dispatcher = dispatcher
        self._guarded = settings.guard
        self._replica = replica
        self._every = _WHILE_IDLE
        self._last_at = float("-inf")
        self._turn = 0
        self._windows: dict[int, int] = {}

    @property
    def seconds_until_next(self) -> float:
        """How long until the next pass."""
        return max(0.0, self._last_at + self._every - monotonic())

    def hurry(self) -> None:
        """Look at once: one was ordered."""
        self._last_at = float("-inf")

    def run(self) -> None:
        """Work on each that is under way in turn, for a short time."""
        self._last_at = monotonic()
        numbers = slices.under_way(self._database)
        self._windows = {number: self._windows.get(number, FEW) for number in numbers}
        self._every = _WHILE_WAITING if numbers else _WHILE_IDLE
        turns = deque(sorted(numbers, key=lambda number: (number <= self._turn, number)))
        while turns and monotonic() < self._last_at + _LONGEST_PASS:
            self._turn = turns.popleft()
            if self._slice(self._turn):
                self._every = _WHILE_MOVING
                turns.append(self._turn)

    def _slice(self, number: int) -> bool:
        """Work on one; says whether it moved."""
        hit("before_slice")
        with self._database.transaction() as transaction:
            locked = slices.lock(transaction, number)
            done = _Done() if locked is None else self._work(transaction, locked)
            hit("in_slice")
        hit("after_slice")
        self._dispatcher.send_again(done.outgoing)
        return done.more

    def _work(self, transaction: Transaction, locked: Locked) -> _Done:
        progress = _tally(transaction, locked)
        stands, alone = slices.stand(transaction, locked.order.schedule_id)
        number = locked.order.number
        outgoing: list[Outgoing] = []
        if locked.state == "running":
            why = _why_stop(stands)
            if why is not None or stands is None:
                self._end(transaction, number, "stopped", why)
            elif alone and stands.state != "paused" and not stands.replans:
                progress, outgoing = self._advance(transaction, locked, stands, progress)
        if progress != _unmoved(locked):
            slices.move(transaction, number, progress)
        return _Done(outgoing, progress.next_at != locked.next_at)

    def _advance(
        self, transaction: Transaction, locked: Locked, stands: Stand, progress: Progress
    ) -> tuple[Progress, list[Outgoing]]:
        """Decide and record the next fire times, as many as there is room for."""
        number, until = locked.order.number, _until(locked, stands)
        if locked.next_at > until:
            if not progress.open and _is_through(locked, stands, until):
                self._end(transaction, number, "finished")
            return progress, []
        rate = locked.rate or (None if self._guarded else UNGUARDED_RATE)
        allowed, since = budget(locked.now, locked.paced_at, rate)
        room = locked.max_concurrent - len(progress.open)
        room = room if allowed is None else min(room, allowed)
        if room <= 0 or (
            locked.overlap == "buffer_all" and slices.own_under_way(transaction, locked)
        ):
            return progress, []
        try:
            stretch = stretch_of(
                stands.schedule, locked.next_at, until, max(self._windows[number], room)
            )
        except Exception as error:  # noqa: BLE001 - whatever one row can cause must not stop the others
            self._end(transaction, number, "stopped", f"its fire times cannot be computed: {error}")
            return progress, []
        if not stretch.nominals:
            return replace(progress, next_at=until + INSTANT), []
        taken = _take(transaction, locked, stretch, room)
        outgoing = self._record(transaction, stands, taken)
        # What is done is passed over in larger and larger steps.
        self._windows[number] = FEW if outgoing else min(MANY, 4 * self._windows[number])
        following = taken.stretch.following
        return Progress(
            until + INSTANT if following is None or following > until else following,
            paced(since, len(outgoing), rate) if rate else locked.paced_at,
            [*progress.open, *((one.tick.nominal_at, one.tick.task_id) for one in outgoing)],
            len(taken.decided),
            len(outgoing),
            progress.done,
            progress.failed,
        ), outgoing

    def _record(self, transaction: Transaction, stands: Stand, taken: _Taken) -> list[Outgoing]:
        schedule = stands.schedule
        rows = dict(taken.rows)
        ranges = [past for past in taken.rows.values() if past.is_range]
        for whole in (taken.before, *ranges):
            if whole is None:
                continue
            begun = None
            if whole is taken.before:
                until = taken.stretch.nominals[0] - INSTANT
                begun = schedule.trigger.walk(whole.nominal_at, until, whole.count)
            carved = carve(whole, taken.stretch, begun)
            if carved is not None:
                slices.leave_rest(transaction, carved, self._replica, schedule.id)
            elif begun is None:
                slices.set_aside(transaction, whole, schedule.id)
                del rows[whole.task_id]
        recorded = slices.record(transaction, schedule, taken.chosen, rows, self._replica)
        open_ticks(transaction, recorded)
        return recorded

    @staticmethod
    def _end(transaction: Transaction, number: int, state: str, reason: str | None = None) -> None:
        slices.end(transaction, number, state, reason)
        logger.info("backfill %d is %s%s", number, state, f": {reason}" if reason else "")


def _tally(transaction: Transaction, locked: Locked) -> Progress:
    """See which of its ticks have ended; without the guard one that was sent has."""
    unmoved = _unmoved(locked)
    rows = slices.known(transaction, locked.order.schedule_id, locked.open)
    how = {identity: standing(rows[identity]) for _, identity in locked.open if identity in rows}
    still = [key for key in locked.open if how.get(key[1]) == "waiting"]
    words = list(how.values())
    done = words.count("done")
    failed = len(words) - words.count("waiting") - words.count("sent") - done
    return Progress(unmoved.next_at, unmoved.paced_at, still, done=done, failed=failed)


def _unmoved(locked: Locked) -> Progress:
    return Progress(locked.next_at, locked.paced_at, list(locked.open))


def _why_stop(stands: Stand | None) -> str | None:
    if stands is None:
        return "the schedule was deleted"
    return f"the schedule is invalid: {stands.reason}" if stands.state == "invalid" else None


def _until(locked: Locked, stands: Stand) -> datetime:
    """What the schedule has not decided itself is its own: it will send it, or say why not."""
    if stands.nominal_at is None:
        return locked.end_at
    return min(locked.end_at, stands.nominal_at - INSTANT)


def _is_through(locked: Locked, stands: Stand, until: datetime) -> bool:
    """Whether nothing is left that it may have to send: the rest is due, or to come, by itself."""
    waits_for_its_due_time = stands.due_at is not None and stands.due_at > locked.now
    return until == locked.end_at or waits_for_its_due_time


def _take(transaction: Transaction, locked: Locked, stretch: Stretch, room: int) -> _Taken:
    """Decide about these fire times, up to the last that there is room for."""
    order = locked.order
    keys = [(nominal, task_id(order.schedule_id, nominal)) for nominal in stretch.nominals]
    rows = slices.known(transaction, order.schedule_id, keys)
    before = (
        slices.range_before(transaction, order.schedule_id, stretch.nominals[0])
        if locked.fresh
        else None
    )
    by_nominal = {past.nominal_at: past for past in rows.values()}
    decided = decide(order, stretch, by_nominal, before)
    sends = 0
    for place, one in enumerate(decided):
        sends += one.action != "skip"
        if sends > room:
            stretch, decided = stretch.up_to(place), decided[:place]
            break
    taken = {one.nominal for one in decided}
    return _Taken(
        stretch,
        decided,
        {identity: past for identity, past in rows.items() if past.nominal_at in taken},
        before,
    )
