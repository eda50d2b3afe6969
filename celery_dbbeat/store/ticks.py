"""Ticks change state only here, and only from `recorded`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from celery_dbbeat.rules.tick import Tick
from celery_dbbeat.store.cursors import Outgoing
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.rows import UTC, plain, schedule_of, utc


@dataclass(frozen=True, slots=True)
class Adopted:
    """What was taken over from other replicas."""

    now: datetime | None
    outgoing: list[Outgoing]


def mark_sent(database: Database | Transaction, sent: Sequence[Outgoing]) -> int:
    """Mark as sent; returns how many it won."""
    return database.run("mark_sent", **_keys(sent)).count


def give_up(database: Database | Transaction, reasons: Mapping[Outgoing, str]) -> int:
    """Mark as not to be sent any more, each with its reason; returns how many it won."""
    told = [plain(reason) for reason in reasons.values()]
    return database.run("give_up", reasons=told, **_keys(list(reasons))).count


def adopt_unsent(
    transaction: Transaction, replica: str, lease_ttl: timedelta, limit: int, *, own_too: bool
) -> Adopted:
    """Take over what others recorded and did not send; what has no schedule is given up."""
    rows = transaction.run(
        "adopt_unsent", replica=replica, lease_ttl=lease_ttl, limit=limit, own_too=own_too
    ).all
    deleted = [row for row in rows if row["deleted"]]
    if deleted:
        transaction.run(
            "give_up",
            schedule_ids=[row["schedule_id"] for row in deleted],
            nominals=[row["tick_nominal_at"] for row in deleted],
            task_ids=[row["task_id"] for row in deleted],
            reasons=["the schedule was deleted before this tick was known to be sent"]
            * len(deleted),
        )
    outgoing = [
        Outgoing(
            schedule_of(row),
            Tick(
                row["task_id"],
                row["tick_nominal_at"].astimezone(UTC),
                row["tick_due_at"].astimezone(UTC),
                "recovery",
                row["attempt"],
            ),
        )
        for row in rows
        if not row["deleted"]
    ]
    return Adopted(utc(rows[0]["now"]) if rows else None, outgoing)


def _keys(outgoing: Sequence[Outgoing]) -> dict[str, object]:
    return {
        "schedule_ids": [one.schedule.id for one in outgoing],
        "nominals": [one.tick.nominal_at for one in outgoing],
        "task_ids": [one.tick.task_id for one in outgoing],
    }
