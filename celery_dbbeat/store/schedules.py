"""What beat may write of a schedule: that it ended, and what the app's code says of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.rows import plain


@dataclass(frozen=True, slots=True)
class Ending:
    """That a schedule is `finished` or `invalid`, and why."""

    schedule: Schedule
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class CodeSchedule:
    """One entry of the app's `beat_schedule`, as a row."""

    name: str
    task: str
    kind: str
    expression: str
    timezone: str
    args: str
    kwargs: str
    options: str
    digest: str


@dataclass(frozen=True, slots=True)
class CodeSync:
    """What a sync changed, and the names it left alone because people own them."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    taken: tuple[str, ...]


def end(database: Database | Transaction, endings: Sequence[Ending]) -> set[UUID]:
    """Set state and reason, unless the row changed or somebody holds it; returns the ids it won."""
    rows = database.run(
        "end_schedules",
        schedule_ids=[ending.schedule.id for ending in endings],
        versions=[ending.schedule.version for ending in endings],
        states=[ending.state for ending in endings],
        reasons=[plain(ending.reason) for ending in endings],
    ).all
    return {row["id"] for row in rows}


def sync_code(transaction: Transaction, wanted: Mapping[str, CodeSchedule]) -> CodeSync:
    """Make the rows that the code owns be as the code says; people's rows are never touched."""
    found = {row["name"]: row for row in transaction.run("code_schedules", names=list(wanted)).all}
    taken = tuple(sorted(name for name in wanted if found.get(name, {}).get("owner") == "people"))
    removed = tuple(sorted(found.keys() - wanted.keys()))
    changed = [
        entry
        for name, entry in sorted(wanted.items())
        if name not in taken and found.get(name, {}).get("code_digest") != entry.digest
    ]
    for entry in changed:
        transaction.run(
            "put_code_schedule", **{name: getattr(entry, name) for name in entry.__slots__}
        )
    if removed:
        transaction.run("drop_code_schedules", names=list(removed))
    return CodeSync(tuple(entry.name for entry in changed), removed, taken)
