"""Schedules from another beat, many at once.

A row remembers where it came from in three labels: `imported_from` and `imported_id`, which are its
identity over there, and `imported_as`, the version it had when it was last written from there and
a digest of what was written. So a later import knows what changed there, and what changed here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from celery_dbbeat.store.database import Database, Transaction

#: So many rows are written by one statement.
BATCH = 1000


@dataclass(frozen=True, slots=True)
class ImportedSchedule:
    """A row as it is to be written; the JSON columns as text."""

    source_id: str
    name: str
    task: str
    kind: str
    expression: str
    timezone: str
    args: str = "[]"
    kwargs: str = "{}"
    options: str = "{}"
    state: str = "active"
    reason: str | None = None
    note: str | None = None
    description: str = ""
    start_at: datetime | None = None
    end_at: datetime | None = None
    max_runs: int | None = None
    owner: str = "people"
    code_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Existing:
    """A row that is there already, under a name that is to be imported or from the same source."""

    id: UUID
    name: str
    owner: str
    state: str
    version: int
    source: str | None
    source_id: str | None
    imported_as: str | None

    @property
    def digest(self) -> str | None:
        """The digest of what was last written from the source."""
        return self.imported_as.partition(":")[2] if self.imported_as else None

    @property
    def is_as_imported(self) -> bool:
        """Whether nobody changed it since."""
        return self.imported_as == f"{self.version}:{self.digest}"


@dataclass(frozen=True, slots=True)
class Write:
    """One row to write, over `existing` or new, and from when on it is sent here."""

    schedule: ImportedSchedule
    digest: str
    go_on_from: datetime | None
    existing: Existing | None = None


def earlier(database: Database | Transaction, source: str, names: Sequence[str]) -> list[Existing]:
    """Find what stands under these names, and what was imported from the source before."""
    rows = database.run("earlier_imports", source=source, names=list(names)).all
    return [Existing(**row) for row in rows]


def write(transaction: Transaction, source: str, writes: Sequence[Write]) -> set[str]:
    """Write rows and set where they go on from; returns the names it won."""
    won: set[str] = set()
    for over in (False, True):
        chosen = [one for one in writes if (one.existing is not None) == over]
        for start in range(0, len(chosen), BATCH):
            won |= _write_batch(transaction, source, chosen[start : start + BATCH])
    return won


def _write_batch(transaction: Transaction, source: str, writes: Sequence[Write]) -> set[str]:
    found = [one.existing for one in writes if one.existing is not None]
    if found:
        over = {"ids": [one.id for one in found], "versions": [one.version for one in found]}
        rows = transaction.run("update_imports", source=source, **_columns(writes), **over).all
    else:
        rows = transaction.run("insert_imports", source=source, **_columns(writes)).all
    ids = {row["name"]: row["id"] for row in rows}
    going_on = {
        ids[one.schedule.name]: one.go_on_from
        for one in writes
        if one.go_on_from is not None and one.schedule.name in ids
    }
    if going_on:
        transaction.run("go_on_from", ids=list(going_on), instants=list(going_on.values()))
    return set(ids)


def _columns(writes: Sequence[Write]) -> Mapping[str, list[object]]:
    rows = [one.schedule for one in writes]
    plural = {"args": "args", "kwargs": "kwargs", "options": "options", "max_runs": "max_runs"}
    plural |= {"start_at": "starts", "end_at": "ends"}
    fields = ImportedSchedule.__slots__
    columns = {
        plural.get(field, f"{field}s"): [getattr(row, field) for row in rows] for field in fields
    }
    return {**columns, "digests": [one.digest for one in writes]}
