"""The decision about a tick that was sent and is not known to have ended.

Workers with the guard take a tick's id before they run it, and say how the run ended. So beat can
look at each tick that it sent, and tell these apart:

    sent ──▶ untaken ──▶ running ──▶ done
               │            │  └────▶ failed ──▶ dead, or sent again after a while
               │            └───────▶ lost   ──▶ sent again at once
               └──▶ waiting, or gone from its queue ──▶ sent again
                                                          … until max_attempts, then dead

*Lost* is a run whose lease ran out after the tick was last sent: its worker died, hangs or is cut
off. Sending again is safe, because a run that comes back finds its attempt fenced. A lease or a
failure from before the last sending says nothing of it: that tick is untaken again. A task that
retries by itself has sent a message, too: that one counts as gone by the same signs as below.

*Untaken* is the hard case, because a message cannot be looked for in a queue. It may still be
waiting, and a long queue must not make recovery send everything once more. So an untaken tick
counts as gone only if all of these hold:

- it could have been taken for `resend_after`, four times as long after each time it was sent again;
- a live worker with the guard reads its queue: others run ticks without saying so;
- nothing speaks for its waiting: by the broker's own count the queue is empty, or a later tick of
  the same schedule was sent later and has been taken. Where the broker cannot count, or the queue
  is not known, age has to do; and it does where the schedule has a `resend_after` of its own.

Workers also take messages out of a queue in advance. So while one of them holds some, a tick is
sent again but never given up.

What is gone is not sent again when it is later than its misfire grace: it is dead, with that
reason. What has `expires` is not sent again after that instant: it expired in its queue, where
workers discard it, and any other message with its id. And where nobody with the guard has read a
queue for a day, its ticks are not awaited any more: nothing will ever be said of them.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Literal

#: The first wait before a failed tick is run again; it doubles each time, up to the longest.
FIRST_BACK_OFF = timedelta(seconds=10)
LONGEST_BACK_OFF = timedelta(hours=1)

#: After so long without a guarded worker nothing is awaited from a queue.
DESERTED_AFTER = timedelta(days=1)

#: For clocks that differ, and for a worker that is just beginning with it.
EXPIRY_MARGIN = timedelta(seconds=10)

#: From here on growing waits are longer than anything is kept.
_MOST_DOUBLINGS = 20


@dataclass(frozen=True, slots=True)
class Open:
    """What is known of an awaited tick, and of its run where a worker has taken it."""

    attempt: int
    losses: int
    due_at: datetime
    claimed_at: datetime
    sent_at: datetime
    status: str | None = None
    run_attempt: int = 0
    lease_until: datetime | None = None
    ended_at: datetime | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What the schedule, its options and the settings say of sending again."""

    max_attempts: int
    resend_after: timedelta
    own_resend_after: bool = False
    on_failure: str = "dead"
    misfire_grace: timedelta | None = None
    #: After this instant workers discard the message.
    expires_at: datetime | None = None
    #: Before this instant workers do not begin with it.
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Queue:
    """What is known of the queue that a tick was sent to."""

    #: A live worker with the guard reads it.
    guarded: bool
    #: No worker with the guard has read it for a day.
    deserted: bool = False
    #: By the broker's own count; None: it cannot tell.
    empty: bool | None = None
    #: A later tick of the schedule was sent later, and has been taken.
    overtaken: bool = False
    #: A worker that reads it holds messages that it has not begun with; these are in no count.
    held: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a tick, and why; `failed`: its task ran, and failed."""

    action: Literal["wait", "resend", "bury", "expire", "forget"]
    reason: str = ""
    failed: bool = False


WAIT = Verdict("wait")
FORGET = Verdict("forget")


class Standing(Enum):
    """How far a tick has come."""

    ENDED_WELL = "done"
    FAILED = "failed"
    RUNNING = "running"
    LOST = "lost"
    UNTAKEN = "untaken"


def standing(tick: Open, now: datetime) -> Standing:
    """How far a tick has come, by what its worker said last."""
    if tick.status == "done":
        return Standing.ENDED_WELL
    if tick.status == "failed":
        return Standing.FAILED if tick.run_attempt >= tick.attempt else Standing.UNTAKEN
    return _by_lease(tick.lease_until, tick.claimed_at, now)


def suspicious(
    status: str | None,
    lease_until: datetime | None,
    claimed_at: datetime,
    now: datetime,
    patience: timedelta,
) -> bool:
    """Whether a tick is worth a closer look; patience is the shortest `resend_after` there is."""
    if status in {"done", "failed"}:
        return status == "failed"
    stand = _by_lease(lease_until, claimed_at, now)
    return stand is Standing.LOST or (stand is Standing.UNTAKEN and now - claimed_at > patience)


def overdue(tick: Open, limits: Limits, now: datetime) -> bool:
    """Whether a tick is untaken for so long that its queue has to be asked about."""
    stand = standing(tick, now)
    if stand is not Standing.UNTAKEN:
        return stand is Standing.LOST and tick.status == "retry"
    if limits.expires_at is not None and now >= limits.expires_at:
        return True
    since = max(tick.claimed_at, limits.not_before or tick.claimed_at)
    return now - since > limits.resend_after * (1 << min(2 * tick.losses, _MOST_DOUBLINGS))


def judge(tick: Open, limits: Limits, queue: Queue, now: datetime) -> Verdict:
    """Decide; whoever asks has to carry it out only if the tick still stands as it was seen."""
    stand = standing(tick, now)
    if stand is Standing.FAILED:
        return _after_failure(tick, limits, now)
    if stand is Standing.LOST and tick.status == "retry":
        return _when_gone(tick, limits, queue, "no worker took its retry", now)
    if stand is Standing.LOST:
        given_back = tick.status == "released" and tick.error is not None
        why = f"it was given back: {tick.error}" if given_back else "its worker was lost"
        return _again(tick, limits, why, now)
    if stand is Standing.UNTAKEN and overdue(tick, limits, now):
        return _when_untaken(tick, limits, queue, now)
    return WAIT


def back_off(losses: int) -> timedelta:
    """How long a failed tick rests before it is run again."""
    return min(FIRST_BACK_OFF * (1 << min(losses, _MOST_DOUBLINGS)), LONGEST_BACK_OFF)


def _by_lease(lease_until: datetime | None, claimed_at: datetime, now: datetime) -> Standing:
    if lease_until is None:
        return Standing.UNTAKEN
    if lease_until >= now:
        return Standing.RUNNING
    return Standing.LOST if claimed_at < lease_until else Standing.UNTAKEN


def _after_failure(tick: Open, limits: Limits, now: datetime) -> Verdict:
    error = tick.error or "its task failed, and left no error"
    if limits.on_failure != "retry" or tick.losses + 1 >= limits.max_attempts:
        return Verdict("bury", error, failed=True)
    if now < (tick.ended_at or tick.claimed_at) + back_off(tick.losses):
        return WAIT
    if _has_expired(limits, now):
        return Verdict("bury", f"{error}; and its expires has passed since", failed=True)
    return Verdict("resend", "its task failed")


def _when_untaken(tick: Open, limits: Limits, queue: Queue, now: datetime) -> Verdict:
    grace = limits.misfire_grace
    if queue.guarded and _has_expired(limits, now):
        over = now - EXPIRY_MARGIN >= (limits.expires_at or now)
        return Verdict("expire", "it expired in its queue, no worker took it") if over else WAIT
    verdict = _when_gone(tick, limits, queue, "no worker took it", now)
    if verdict in {WAIT, FORGET} or grace is None or now - tick.due_at <= grace:
        return verdict
    return Verdict("bury", f"no worker took it within misfire_grace {grace}")


def _when_gone(tick: Open, limits: Limits, queue: Queue, why: str, now: datetime) -> Verdict:
    """Send again or give up, but only what is not waiting in its queue."""
    if not queue.guarded:
        forgotten = queue.deserted and now - tick.claimed_at > DESERTED_AFTER
        return FORGET if forgotten else WAIT
    if not limits.own_resend_after and queue.empty is False and not queue.overtaken:
        return WAIT
    verdict = _again(tick, limits, why, now)
    # It may be in a busy worker's hands: sending again does no harm, giving up would.
    return WAIT if verdict.action == "bury" and queue.held else verdict


def _again(tick: Open, limits: Limits, why: str, now: datetime) -> Verdict:
    sent = tick.losses + 1
    if sent >= limits.max_attempts:
        times = "once" if sent == 1 else f"{sent} times"
        return Verdict("bury", f"{why}; sent {times}, max_attempts is {limits.max_attempts}")
    if _has_expired(limits, now):
        return Verdict("bury", f"{why}, and its expires has passed since")
    return Verdict("resend", why)


def _has_expired(limits: Limits, now: datetime) -> bool:
    return limits.expires_at is not None and now >= limits.expires_at
