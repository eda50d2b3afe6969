"""Whether a loop goes round, and whether its last round went well.

Lives: a round ended, or a rest was begun, not long ago. Postgres or a broker that are away do not
change that: each wait for them has a time-out, and starting the process anew would not bring them
back. Ready: the last round reached both.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from celery_dbbeat.clock import monotonic

#: A pass has time-outs everywhere, each below the lease's time: after so many of them it is stuck.
_LEASES = 6
_AT_LEAST = 60.0


def stuck_after(lease_ttl: float) -> float:
    """How long one round may take."""
    return max(_AT_LEAST, _LEASES * lease_ttl)


@dataclass(frozen=True, slots=True)
class Condition:
    """What one round found; `reason` says why it is not ready."""

    ready: bool
    reason: str = ""
    leads: bool = False


class Pulse:
    """Written by the loop, one whole value at a time; read by anybody."""

    def __init__(self, patience: float) -> None:
        """`patience` is how long one round may take before it counts as stuck."""
        self._patience = patience
        self._until = monotonic() + patience
        self.condition = Condition(ready=False, reason="it has made no pass yet")

    @property
    def lives(self) -> bool:
        """Whether the loop goes round."""
        return monotonic() < self._until

    @property
    def ready(self) -> bool:
        """Whether it lives, and its last round went well."""
        return self.lives and self.condition.ready

    @property
    def reason(self) -> str:
        """Why it is not ready."""
        return self.condition.reason if self.lives else "it is stuck: its loop makes no pass"

    def expect(self, seconds: float = 0.0) -> None:
        """The next round ends within so many seconds, and the patience."""
        self._until = monotonic() + seconds + self._patience

    @contextmanager
    def take_time(self) -> Iterator[None]:
        """What is done in the block may take as long as it likes."""
        self._until = float("inf")
        try:
            yield
        finally:
            self.expect()

    def found(self, condition: Condition) -> None:
        """A round is over."""
        self.condition = condition
        self.expect()
