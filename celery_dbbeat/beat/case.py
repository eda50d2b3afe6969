"""A suspected tick together with what limits it: its schedule, its options, the settings."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.rules.recovery import Limits, Open
from celery_dbbeat.rules.tick import ORDERED, Tick
from celery_dbbeat.settings import Settings
from celery_dbbeat.store.awaited import Suspect
from celery_dbbeat.store.cursors import Outgoing


@dataclass(frozen=True, slots=True)
class Case:
    """What a verdict rests on, but for the queue's state; `queue` is None where it is not known."""

    suspect: Suspect
    limits: Limits
    queue: str | None = None


def case_of(suspect: Suspect, publisher: Publisher, settings: Settings) -> Case:
    """Put together what limits this tick."""
    patience = timedelta(seconds=settings.resend_after)
    schedule, tick = suspect.schedule, suspect.open
    if schedule is None:
        # Nobody can say any more what to send: it is not begun a second time.
        return Case(suspect, Limits(max_attempts=1, resend_after=patience))
    identity = Tick(suspect.task_id, suspect.nominal_at, tick.due_at)
    delivery = publisher.delivery_of(Outgoing(schedule, identity))
    limits = Limits(
        max_attempts=suspect.max_attempts or settings.max_attempts,
        resend_after=suspect.resend_after or patience,
        own_resend_after=suspect.resend_after is not None,
        on_failure=suspect.on_failure or "dead",
        misfire_grace=None if suspect.kind in ORDERED else schedule.misfire_grace,
        expires_at=_instant(delivery.expires, _first_sent(tick)),
        not_before=_instant(delivery.delay, tick.claimed_at),
    )
    return Case(suspect, limits, delivery.queue)


def _first_sent(tick: Open) -> datetime:
    # A replay starts anew: its losses are none, and its claim is its sending.
    return tick.sent_at if tick.losses else tick.claimed_at


def _instant(limit: timedelta | datetime | None, since: datetime) -> datetime | None:
    try:
        return since + limit if isinstance(limit, timedelta) else limit
    except OverflowError:  # beyond the calendar: never
        return None
