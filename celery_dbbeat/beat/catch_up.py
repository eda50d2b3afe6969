"""Late ticks: behind what is on time, and no faster than the rate.

A cursor whose next fire time is late by more than a minute is not due. It stands in a queue of its
own, which is looked at only when a batch has room after what is on time. All replicas together keep
to one rate: the row of `dbbeat_pace` says when the next late tick may go, and whoever locks it
sends as many as there is room for. Nobody waits for that row.

    due ──plan──▶ late? ──▶ its turn ──claim, as many as there is room──▶ sent ──▶ late? …
                                                                            └──▶ due, as ever

One tick of a schedule goes at a turn, or a few where hardly anybody waits; then it goes behind the
others. A late tick never overtakes the one before it: a schedule of which one is recorded and not
known to be sent, because a replica died just then, is looked at again a little later.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_dbbeat.clock import monotonic
from celery_dbbeat.rules.pace import BETWEEN_BATCHES, Room, rate, room, shares
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import cursors, pace
from celery_dbbeat.store.cursors import Due, Holding, Outlook
from celery_dbbeat.store.database import Database, Transaction

_NONE_FOUND = 0.25
#: What is on time waits for the end of a batch, so one of late ticks is short beside the usual one.
_PART_OF_A_BATCH = 4
#: While there is no end of what is due, nobody asks whether anything is late.
_LONGEST_WITHOUT_LOOK = 1.0
_NOTE_EVERY = 60.0


@dataclass(frozen=True, slots=True)
class Turn:
    """Late ones whose turn has come, each with how many ticks it may send."""

    now: datetime
    room: Room
    due: Sequence[tuple[Due, int]]


class CatchUp:
    """The queue of what is late, for one replica."""

    def __init__(self, settings: Settings) -> None:
        """Look at the first batch."""
        self._asked = settings.catch_up_rate
        self._hedge = timedelta(seconds=settings.hedge_after)
        self._look_at = self._observed_at = self._in_vain_until = float("-inf")

    @property
    def seconds_until_next(self) -> float:
        """How long until the next look."""
        return max(0.0, self._look_at - monotonic())

    def hurry(self) -> None:
        """Some became late just now."""
        self._look_at = min(self._look_at, monotonic())

    def observe(self, outlook: Outlook, holding: Holding) -> None:
        """Look when the next one may go, if there is any."""
        self._observed_at = monotonic()
        self._look_at = float("inf")
        if outlook.late_at is not None:
            wait = outlook.late_at + self._patience(holding) - outlook.now
            # What is locked by somebody else is not asked for again and again.
            self._look_at = max(monotonic() + wait.total_seconds(), self._in_vain_until)

    def claim(
        self, transaction: Transaction, holding: Holding, most: int, *, busy: bool
    ) -> Turn | None:
        """Take those whose turn has come, for this transaction, if it is time to look."""
        overdue = busy and monotonic() > self._observed_at + _LONGEST_WITHOUT_LOOK
        if most < 1 or not (overdue or monotonic() >= self._look_at):
            return None
        self._look_at = monotonic() + BETWEEN_BATCHES.total_seconds()
        taken = pace.take(transaction, self._patience(holding))
        if taken is None:
            self._in_vain_until = self._look_at
            return None
        asked = rate(self._asked, taken.usual)
        there_is = room(taken.free_at, taken.now, asked, max(1, most // _PART_OF_A_BATCH))
        due = cursors.claim_late(transaction, holding, there_is.ticks)
        if not due:
            self._observed_at = monotonic()
            self._look_at = self._in_vain_until = monotonic() + _NONE_FOUND
            return None
        return Turn(
            taken.now, there_is, list(zip(due, shares(there_is.ticks, len(due)), strict=True))
        )

    def _patience(self, holding: Holding) -> timedelta:
        return BETWEEN_BATCHES if holding.epochs else self._hedge


class Usual:
    """Keeps the average of what is sent on time, from which the rate comes where none is set."""

    def __init__(self, database: Database) -> None:
        """Begin with the next minute."""
        self._database = database
        self._noted = 0
        self._note_at = monotonic() + _NOTE_EVERY

    def keep(self, sent: int) -> None:
        """Once a minute, note how many there were; `sent` only grows."""
        if monotonic() >= self._note_at:
            self._note_at = monotonic() + _NOTE_EVERY
            if pace.note_usual(self._database, sent - self._noted):
                self._noted = sent
