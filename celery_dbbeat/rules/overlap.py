"""The decision: what becomes of a tick while earlier ones of its schedule are not done.

| overlap | while `max_concurrent` ticks are on their way or running |
|---|---|
| `allow` | sent (nothing is looked at) |
| `skip` | not sent |
| `buffer_one` | waits for one to end; others that come meanwhile are not sent |
| `buffer_all` | waits, and so do all that come meanwhile, in order |
| `cancel_other` | the oldest are asked to end, and it waits for that; a newer one takes its place |
| `terminate_other` | the oldest are ended by force, and it is sent at once |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Running:
    """A tick on its way or running.

    `begun`: a worker has it now. `asked`: it was asked to end, or ended by force, and has not yet.
    """

    nominal_at: datetime
    task_id: UUID
    begun: bool = False
    asked: bool = False


@dataclass(frozen=True, slots=True)
class Overlap:
    """What to do with the next tick, and which others are to end for it."""

    action: Literal["send", "skip", "wait"]
    stop: tuple[Running, ...] = ()


SEND = Overlap("send")

#: What waits for a run goes on by what the schedule says of overlap, not of catching up.
WAITING = frozenset({"buffer_one", "buffer_all", "cancel_other"})


def decide(policy: str, max_concurrent: int, running: Sequence[Running]) -> Overlap:
    """Decide about the next tick."""
    if policy == "terminate_other":
        # What was ended before is as good as gone, whatever its worker makes of it.
        left = [one for one in running if not one.asked]
        return Overlap("send", _oldest(left, len(left) - max_concurrent + 1))
    if policy == "allow" or len(running) < max_concurrent:
        return SEND
    if policy == "skip":
        return Overlap("skip")
    if policy == "cancel_other":
        too_many = _oldest(running, len(running) - max_concurrent + 1)
        return Overlap("wait", tuple(one for one in too_many if not one.asked))
    return Overlap("wait")


def _oldest(running: Sequence[Running], number: int) -> tuple[Running, ...]:
    if number <= 0:
        return ()
    return tuple(sorted(running, key=lambda one: (one.nominal_at, one.task_id))[:number])
