"""Whether a run is asked to end, for a newer tick of its schedule.

The task asks, so that one which cannot end early pays nothing. The answer is kept for a moment:
who asks in each turn of a loop must not ask the database each time.
"""

import logging
from uuid import UUID

from celery_dbbeat.clock import monotonic
from celery_dbbeat.errors import DbbeatError
from celery_dbbeat.store import runs
from celery_dbbeat.worker.connections import Connections

logger = logging.getLogger(__name__)

_ASK_EVERY = 0.5


class Asked:
    """What is known of one run."""

    def __init__(self, connections: Connections, task_id: UUID) -> None:
        """Nothing is asked yet."""
        self._connections = connections
        self._task_id = task_id
        self._cancelled = False
        self._ask_at = float("-inf")

    def to_end(self) -> bool:
        """Whether it was asked to end; while the database is away, as far as is known."""
        if not self._cancelled and monotonic() >= self._ask_at:
            self._ask_at = monotonic() + _ASK_EVERY
            try:
                with self._connections.one() as database:
                    self._cancelled = runs.is_cancelled(database, self._task_id)
            except DbbeatError as error:
                logger.debug("whether %s is cancelled cannot be seen: %s", self._task_id, error)
        return self._cancelled
