"""How it all stands: who dispatches, what is to be done, what went wrong."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery_dbbeat.store.database import Transaction
from celery_dbbeat.store.rows import UTC, utc

#: No count goes further.
MOST = 10_000


@dataclass(frozen=True, slots=True)
class ReplicaStatus:
    """A beat process seen within the hour; `shards` of the 256 are those it goes first on."""

    id: str
    hostname: str
    pid: int
    release: str
    ready: bool
    alive: bool
    started: datetime
    seen: datetime
    shards: int
    leads_since: datetime | None


@dataclass(frozen=True, slots=True)
class Number:
    """How many: `exact`, or else an estimate, of at least `MOST`."""

    value: int
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.value:,}" if self.exact else f"about {self.value:,}"


@dataclass(frozen=True, slots=True)
class Status:
    """One look at all of it; a count of `MOST` means: that many, or more.

    `due` have a fire time to dispatch, `late` are those of them that are overdue by more than a
    moment; `held_back` are late ones that wait for room, `waiting` wait for a run to end; `unsent`
    were recorded and not yet sent. `sent_a_minute` were recorded to be sent within the last minute.
    `workers` are those with the guard.
    """

    now: datetime
    replicas: tuple[ReplicaStatus, ...]
    schedules: dict[str, Number]
    due: int
    late: int
    held_back: int
    waiting: int
    next_due: datetime | None
    unsent: int
    oldest_unsent: datetime | None
    awaited: int
    dead: int
    sent_a_minute: int
    workers: int


def look(transaction: Transaction, lease_ttl: timedelta, late: timedelta) -> Status:
    """Look once."""
    replicas = transaction.run("status_replicas", lease_ttl=lease_ttl).all
    states = transaction.run("status_schedules", most=MOST).all
    ticks = transaction.run("status_ticks", most=MOST, late=late).one()
    return Status(
        **_instants(ticks, "now", "next_due", "oldest_unsent"),
        replicas=tuple(_replica(row) for row in replicas),
        schedules={row["state"]: Number(row["number"], row["counted"]) for row in states},
    )


def _replica(row: dict[str, Any]) -> ReplicaStatus:
    return ReplicaStatus(
        id=row["id"],
        hostname=row["hostname"],
        pid=row["pid"],
        release=row["release"],
        ready=row["ready"],
        alive=row["alive"],
        started=row["started_at"].astimezone(UTC),
        seen=row["seen_at"].astimezone(UTC),
        shards=row["shards"],
        leads_since=utc(row["leads_since"]),
    )


def _instants(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**row, **{name: utc(row[name]) for name in names}}
