"""Which ticks of a schedule are on their way or running, and what waits for their end."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from uuid import UUID

from celery_dbbeat.rules.decision import Stop
from celery_dbbeat.rules.overlap import Running
from celery_dbbeat.store.cursors import Outgoing
from celery_dbbeat.store.database import Database, Transaction, in_transaction
from celery_dbbeat.store.rows import UTC, plain, tick_keys


@dataclass(frozen=True, slots=True)
class Place:
    """Where a slice ends, in the order in which they began to wait."""

    waits_since: datetime
    schedule_id: UUID


BEGINNING = Place(datetime(1, 1, 2, tzinfo=timezone.utc), UUID(int=0))


@dataclass(frozen=True, slots=True)
class Slice:
    """Schedules that wait for a run, each with how many may run at once."""

    end: Place
    at_once: Mapping[UUID, int]


def open_ticks(database: Database | Transaction, outgoing: Sequence[Outgoing]) -> None:
    """Let these count as on their way, where their schedules ask for that."""
    asked = [one for one in outgoing if one.schedule.overlap != "allow"]
    if asked:
        with in_transaction(database) as transaction:
            transaction.run(
                "open_ticks",
                schedule_ids=[one.schedule.id for one in asked],
                nominals=[one.tick.nominal_at for one in asked],
                task_ids=[one.tick.task_id for one in asked],
            )


def running(transaction: Transaction, schedule_ids: Sequence[UUID]) -> Mapping[UUID, list[Running]]:
    """The ticks of these schedules that are not done."""
    found: dict[UUID, list[Running]] = defaultdict(list)
    rows = transaction.run("open_of", schedule_ids=list(schedule_ids)).all
    for row in transaction.run("close_ended", **tick_keys(rows)).all if rows else []:
        nominal = row["nominal_at"].astimezone(UTC)
        found[row["schedule_id"]].append(
            Running(nominal, row["task_id"], begun=row["begun"], asked=row["asked"])
        )
    return found


def cancel(transaction: Transaction, stops: Sequence[tuple[UUID, Stop]]) -> None:
    """Let ticks of these schedules end for newer ones."""
    keys = [
        {
            "schedule_id": schedule_id,
            "nominal_at": stop.tick.nominal_at,
            "task_id": stop.tick.task_id,
        }
        for schedule_id, stop in stops
    ]
    reasons = [plain(stop.reason) for _, stop in stops]
    transaction.run("cancel_ticks", reasons=reasons, **tick_keys(keys))


def waiting(transaction: Transaction, after: Place, limit: int) -> Slice:
    """The next schedules that wait for a run."""
    rows = transaction.run(
        "waiting_slice", waits_since=after.waits_since, schedule_id=after.schedule_id, limit=limit
    ).all
    full = len(rows) == limit
    end = Place(rows[-1]["waits_since"], rows[-1]["schedule_id"]) if full else BEGINNING
    return Slice(end, {row["schedule_id"]: row["max_concurrent"] for row in rows})


def let_go(transaction: Transaction, schedule_ids: Sequence[UUID]) -> int:
    """Make these due; says how many it was."""
    return transaction.run("let_go", schedule_ids=list(schedule_ids)).count
