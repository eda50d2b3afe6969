"""Guarded workers as beat sees them: rows in the tables that workers write, and nothing else."""

from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID


class Does(Protocol):
    """Somebody who can run plain SQL."""

    def do(self, statement: str, *parameters: object) -> list[dict[str, Any]]:
        """Run a statement."""
        ...


RUN = """
    INSERT INTO dbbeat_dedup (task_id, nominal_at, schedule, status, attempt, worker, lease_until,
                              ended_at, error)
    SELECT task_id, nominal_at, 'one', %(status)s, coalesce(%(attempt)s, attempt), 'w',
           now() + %(lease)s, CASE WHEN %(status)s IN ('done', 'failed') THEN now() END, %(error)s
    FROM dbbeat_tick WHERE schedule_id = %(schedule_id)s
      AND state NOT IN ('missed', 'coalesced', 'paused')
    ON CONFLICT (task_id, nominal_at) DO UPDATE
    SET status = excluded.status, attempt = excluded.attempt, lease_until = excluded.lease_until,
        ended_at = excluded.ended_at, error = excluded.error
"""


def run(
    person: Does,
    schedule_id: UUID,
    status: str = "running",
    *,
    lease: timedelta = timedelta(minutes=1),
    attempt: int | None = None,
    error: str | None = None,
) -> None:
    """Take every tick of a schedule, for the attempt that was sent, or say how its run ended."""
    given = {"status": status, "lease": lease, "attempt": attempt, "error": error}
    person.do(RUN, {**given, "schedule_id": schedule_id})


def read_queue(
    person: Does, queue: str = "celery", *, silent_for: timedelta = timedelta(0)
) -> None:
    """Let a guarded worker read a queue, that was last heard of so long ago."""
    person.do(
        "INSERT INTO dbbeat_worker (id, queues, release, seen_at)"
        " VALUES ('w of ' || %(queue)s, ARRAY[%(queue)s], '0.1.0', now() - %(silent_for)s)"
        " ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at",
        {"queue": queue, "silent_for": silent_for},
    )


def age(person: Does, by: timedelta) -> None:
    """Let everything that was sent and run so far be so much longer ago."""
    person.do(
        "UPDATE dbbeat_tick SET claimed_at = claimed_at - %(by)s, sent_at = sent_at - %(by)s,"
        " due_at = due_at - %(by)s",
        {"by": by},
    )
    person.do(
        "UPDATE dbbeat_dedup SET lease_until = lease_until - %(by)s, ended_at = ended_at - %(by)s",
        {"by": by},
    )
