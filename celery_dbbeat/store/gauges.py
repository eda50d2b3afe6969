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
_STATES = "dbbeat_schedules"


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
        known = _numbers(backlog(transaction, settings), states(transaction))
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


def states(transaction: Transaction) -> dict[str, float]:
    """How many schedules are in each state; more than can be counted are estimated."""
    wanted = [value for one in CLUSTER if one.name == _STATES for value in one.values]
    rows = transaction.run("schedule_states", states=wanted, most=MOST).all
    return {row["state"]: row["number"] for row in rows}


def replicas_of(database: Database, hostname: str, fresh: float) -> list[Seen]:
    """Replicas that were seen on this host, the newest word first; `fresh`: seconds."""
    rows = database.run("replicas_of_host", hostname=hostname, fresh=timedelta(seconds=fresh)).all
    return [Seen(**row) for row in rows]


def _numbers(row: Mapping[str, Any], states: Mapping[str, float]) -> dict[tuple[str, str], float]:
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
        **{(_STATES, state): number for state, number in states.items()},
    }
