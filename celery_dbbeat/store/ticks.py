"""Ticks that are recorded: sent, given up, or taken over from whoever did not send them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from celery_dbbeat.rules.tick import Tick
from celery_dbbeat.store.cursors import Outgoing
from celery_dbbeat.store.database import Database, Transaction, in_transaction
from celery_dbbeat.store.rows import UTC, plain, schedule_of, tick_keys, utc


@dataclass(frozen=True, slots=True)
class Adopted:
    """What was taken over from other replicas."""

    now: datetime | None
    outgoing: list[Outgoing]


@dataclass(frozen=True, slots=True)
class Adopter:
    """Who takes over, and how long others have for what they recorded.

    A replica that is not known to be gone has `patience`; this one itself has the lease's time.
    """

    replica: str
    lease_ttl: timedelta
    patience: timedelta


def mark_sent(
    database: Database | Transaction, sent: Sequence[Outgoing], *, guarded: bool = False
) -> int:
    """Mark as sent, and as awaited where workers have the guard; returns how many it won."""
    if not sent:
        return 0
    with in_transaction(database) as transaction:
        return transaction.run("mark_sent", guarded=guarded, **_keys(sent)).count


def give_up(database: Database | Transaction, reasons: Mapping[Outgoing, str]) -> int:
    """Mark as not to be sent any more, each with its reason; returns how many it won."""
    if not reasons:
        return 0
    told = [plain(reason) for reason in reasons.values()]
    with in_transaction(database) as transaction:
        return transaction.run("give_up", reasons=told, **_keys(list(reasons))).count


def adopt_unsent(
    transaction: Transaction, adopter: Adopter, limit: int, *, own_too: bool
) -> Adopted:
    """Take over what others recorded and did not send; what has no schedule is given up."""
    lost = transaction.run(
        "lost_unsent",
        replica=adopter.replica,
        lease_ttl=adopter.lease_ttl,
        patience=adopter.patience,
        limit=limit,
        own_too=own_too,
    ).all
    if not lost:
        return Adopted(None, [])
    rows = transaction.run("adopt_unsent", replica=adopter.replica, **tick_keys(lost)).all
    deleted = [row for row in rows if row["deleted"]]
    if deleted:
        transaction.run(
            "give_up",
            attempts=[row["attempt"] for row in deleted],
            reasons=["the schedule was deleted before this tick was known to be sent"]
            * len(deleted),
            **tick_keys(deleted, "tick_nominal_at"),
        )
    outgoing = [Outgoing(schedule_of(row), _tick(row)) for row in rows if not row["deleted"]]
    return Adopted(utc(rows[0]["now"]), outgoing)


def _tick(row: Mapping[str, Any]) -> Tick:
    return Tick(
        row["task_id"],
        row["tick_nominal_at"].astimezone(UTC),
        row["tick_due_at"].astimezone(UTC),
        row["tick_kind"],
        row["attempt"],
        row["waited"],
    )


def _keys(outgoing: Sequence[Outgoing]) -> dict[str, object]:
    nominals = [one.tick.nominal_at for one in outgoing]
    return {
        "schedule_ids": [one.schedule.id for one in outgoing],
        "nominals": nominals,
        "task_ids": [one.tick.task_id for one in outgoing],
        "attempts": [one.tick.attempt for one in outgoing],
        "first": min(nominals),
    }
