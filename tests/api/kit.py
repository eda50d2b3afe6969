"""Ticks and runs as beat and workers leave them, written by plain SQL."""

from datetime import datetime, timedelta, timezone
from uuid import UUID, uuid4

from psycopg.types.json import Jsonb

from tests.store.kit import Person

NOON = datetime(2026, 1, 10, 12, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)


class Clerk(Person):
    """Somebody who writes what beat and workers would."""

    def tick(
        self, schedule: UUID, nominal: datetime = NOON, state: str = "sent", **columns: object
    ) -> UUID:
        """Write a tick, sent half a second late unless told otherwise; returns its task id."""
        given = {
            "schedule_id": schedule,
            "nominal_at": nominal,
            "task_id": uuid4(),
            "state": state,
            "due_at": nominal,
            "sent_at": nominal + SECOND / 2,
            "replica": "a",
            **columns,
        }
        return self._insert("dbbeat_tick", given)

    def run(
        self, task_id: UUID, nominal: datetime = NOON, status: str = "done", **columns: object
    ) -> UUID:
        """Write the run of a tick, two seconds long unless told otherwise."""
        given = {
            "task_id": task_id,
            "nominal_at": nominal,
            "schedule": "nightly",
            "status": status,
            "attempt": 1,
            "worker": "celery@one",
            "lease_until": nominal,
            "started_at": nominal + SECOND,
            "ended_at": nominal + 3 * SECOND,
            **columns,
        }
        return self._insert("dbbeat_dedup", given)

    def dead(self, schedule: UUID, nominal: datetime = NOON, **columns: object) -> UUID:
        """Write a tick that was given up because its task failed, with that run."""
        reason = {"reason": "the task failed", "outcome": "failed", "losses": 2, **columns}
        task_id = self.tick(schedule, nominal, "dead", **reason)
        return self.run(
            task_id, nominal, "failed", result="FAILURE", error="ValueError: no", traceback="Trace"
        )

    def _insert(self, table: str, given: dict[str, object]) -> UUID:
        values = [Jsonb(value) if isinstance(value, list) else value for value in given.values()]
        columns, places = ", ".join(given), ", ".join(["%s"] * len(given))
        statement = f"INSERT INTO {table} ({columns}) VALUES ({places}) RETURNING task_id"  # noqa: S608 - names of our own
        identity: UUID = self.value(statement, *values)
        return identity
