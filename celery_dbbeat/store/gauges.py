"""What beat shows of all tables together, by bounded counts and estimates."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from celery_dbbeat.observe.board import Reading
from celery_dbbeat.observe.catalogue import CLUSTER
from celery_dbbeat.settings import Settings
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.workers import ALIVE

#: Nothing is counted beyond.
MOST = 10_000
_LATE_AFTER_HEDGES = 5


@dataclass(frozen=True, slots=True)
class Seen:
    """A replica, as its host sees it in the tables."""

    id: str
    pid: int
    ready: bool
    fresh: bool
    seen_ago: float


def read(database: Database, settings: Settings) -> list[Reading]:
    """All gauges of the tables, in the catalogue's order; what is not known is left out."""
    with database.transaction() as transaction:
        counted = backlog(transaction, settings)
    # One more than is counted exactly, to see that there are more.
    states = database.run("schedule_states", most=MOST + 1).all
    known = _numbers(counted, {row["state"]: row["number"] for row in states})
    return [
        Reading(metric, value, [number])
        for metric in CLUSTER
        for value in metric.values
        if (number := known.get((metric.name, value))) is not None
    ]


def backlog(transaction: Transaction, settings: Settings) -> Mapping[str, Any]:
    """What can be counted up to a bound, on indexes."""
    return transaction.run(
        "backlog",
        most=MOST,
        late=timedelta(seconds=_LATE_AFTER_HEDGES * settings.hedge_after),
        lease_ttl=timedelta(seconds=settings.lease_ttl),
        worker_alive=ALIVE,
    ).one()


def replicas_of(database: Database, hostname: str, fresh: float) -> list[Seen]:
    """Replicas that were seen on this host, the newest word first; `fresh`: seconds."""
    rows = database.run("replicas_of_host", hostname=hostname, fresh=timedelta(seconds=fresh)).all
    return [Seen(**row) for row in rows]


def _numbers(row: Mapping[str, Any], states: Mapping[str, float]) -> dict[tuple[str, str], float]:
    (schedules,) = (metric for metric in CLUSTER if metric.name == "dbbeat_schedules")
    return {
        ("dbbeat_replicas", "ready"): row["ready"],
        ("dbbeat_replicas", "not_ready"): row["not_ready"],
        ("dbbeat_workers", ""): row["workers"],
        ("dbbeat_due_schedules", ""): row["due"],
        ("dbbeat_late_schedules", ""): row["late"],
        ("dbbeat_oldest_due_seconds", ""): row["oldest_due"] or 0.0,
        ("dbbeat_unsent_ticks", ""): row["unsent"],
        ("dbbeat_awaited_ticks", ""): row["awaited"],
        ("dbbeat_dead_ticks", ""): row["dead"],
        **{("dbbeat_schedules", state): states.get(state, 0.0) for state in schedules.values},
        # These are few, and each is one that somebody should mend: there is an index of them.
        ("dbbeat_schedules", "invalid"): row["invalid"],
    }
