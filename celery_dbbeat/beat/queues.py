"""What is known of the queues of overdue ticks: asked once a pass, and only where it counts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from celery_dbbeat.beat.case import Case
from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.rules.recovery import Queue, overdue
from celery_dbbeat.store import awaited
from celery_dbbeat.store.awaited import Readers
from celery_dbbeat.store.database import Database

#: Of a tick whose queue does not matter yet.
UNASKED = Queue(guarded=False)


class Queues:
    """What one pass has learned of queues."""

    def __init__(self, database: Database, publisher: Publisher) -> None:
        """Nothing is asked here."""
        self._database = database
        self._publisher = publisher
        self._known_readers: Mapping[str, Readers] | None = None
        self._depths: dict[str, int | None] = {}

    def facts(self, cases: Sequence[Case], now: datetime) -> dict[UUID, Queue]:
        """What speaks for and against the waiting of each tick, by its task id."""
        late = [case for case in cases if overdue(case.suspect.open, case.limits, now)]
        facts = {case.suspect.task_id: self._facts(case) for case in late}
        waiting = [case.suspect for case in late if facts[case.suspect.task_id].empty is False]
        if waiting:
            for task_id in awaited.overtaken(self._database, waiting):
                facts[task_id] = replace(facts[task_id], overtaken=True)
        return facts

    def _facts(self, case: Case) -> Queue:
        readers = self._readers()
        if case.queue is None:
            live = any(one.live for one in readers.values())
            held = any(one.holding for one in readers.values())
            return Queue(guarded=live, deserted=not readers, held=held)
        known = readers.get(case.queue)
        if known is None or not known.live:
            return Queue(guarded=False, deserted=known is None)
        depth = None if case.limits.own_resend_after else self._depth(case.queue)
        return Queue(guarded=True, empty=None if depth is None else depth == 0, held=known.holding)

    def _readers(self) -> Mapping[str, Readers]:
        if self._known_readers is None:
            self._known_readers = awaited.queue_readers(self._database)
        return self._known_readers

    def _depth(self, queue: str) -> int | None:
        if queue not in self._depths:
            self._depths[queue] = self._publisher.depth(queue)
        return self._depths[queue]
