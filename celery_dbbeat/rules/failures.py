"""When a schedule has failed often enough to be paused."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ended:
    """How one of a schedule's ticks ended, and why it failed where it did."""

    failed: bool
    reason: str | None = None


def why_pause(newest: Sequence[Ended], pause_after: int) -> str | None:
    """The note to pause it with, or None to let it go on; the newest fire time comes first.

    Only what ended since the schedule last changed counts: who resumes or mends it begins anew.
    """
    if len(newest) < pause_after or not all(one.failed for one in newest[:pause_after]):
        return None
    last = newest[0].reason or "no reason is known"
    if pause_after == 1:
        return f"1 tick failed: {last}"
    return f"{pause_after} ticks in a row failed, the last one: {last}"
