"""From entries to rows: what becomes of each is decided purely, then done in one transaction."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

from celery_dbbeat.contrib.importers.entry import INSTANT, Entry, Refused
from celery_dbbeat.rules.trigger import parse_trigger
from celery_dbbeat.store import imports
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.imports import Existing, ImportedSchedule, Write

#: What becomes of an entry, and what it means.
OUTCOMES = {
    "new": "a schedule is made",
    "updated": "its schedule is written again: it changed over there since it was imported",
    "unchanged": "its schedule is there, and nothing changed",
    "kept": "its schedule was changed here since it was imported, and stays as it is",
    "taken": "another schedule has that name, and stays as it is",
    "refused": "it cannot be carried over",
    "needless": "it need not be carried over",
    "gone": "it is no longer over there; its schedule stays as it is",
}

# What an imported schedule gets, as every other that does not say otherwise.
_GRACE = timedelta(hours=1)
# Fire times that are too late to be sent get a row in the history, unless they are very many.
_TOLD = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What becomes of one entry; `remarks` say what will be different, or why it is not so."""

    name: str
    outcome: str
    schedule: ImportedSchedule | None = None
    go_on_from: datetime | None = None
    remarks: tuple[str, ...] = ()
    write: Write | None = None


def transfer(
    database: Database, source: str, entries: Sequence[Entry | Refused], *, dry_run: bool
) -> list[Outcome]:
    """Write what is new or has changed over there; all of it, or nothing."""
    names = [one.schedule.name for one in entries if isinstance(one, Entry)]
    found = imports.earlier(database, source, names)
    outcomes = decide(source, entries, found, database.now())
    writes = [one.write for one in outcomes if one.write is not None]
    if dry_run or not writes:
        return outcomes
    with database.transaction() as transaction:
        transaction.run("act_as", user="", source="import")
        won = imports.write(transaction, source, writes)
    return [
        replace(one, outcome="taken", remarks=("somebody else wrote it just now",), write=None)
        if one.write is not None and one.name not in won
        else one
        for one in outcomes
    ]


def decide(
    source: str, entries: Iterable[Entry | Refused], found: Iterable[Existing], now: datetime
) -> list[Outcome]:
    """What becomes of each entry, and of what was imported before and is no longer there."""
    existing = list(found)
    by_name = {row.name: row for row in existing}
    by_id = {row.source_id: row for row in existing if row.source == source}
    outcomes, seen = [], set()
    for one in entries:
        if isinstance(one, Refused):
            seen.add(one.source_id)
            outcome = "needless" if one.needless else "refused"
            outcomes.append(Outcome(one.name, outcome, remarks=(one.reason,)))
            continue
        seen.add(one.schedule.source_id)
        at_name, at_id = by_name.get(one.schedule.name), by_id.get(one.schedule.source_id)
        outcomes.append(_decide_one(one, at_name, at_id, now))
    gone = [row for row in existing if row.source == source and row.source_id not in seen]
    return outcomes + [Outcome(row.name, "gone", remarks=(OUTCOMES["gone"],)) for row in gone]


def _decide_one(
    entry: Entry, at_name: Existing | None, at_id: Existing | None, now: datetime
) -> Outcome:
    schedule, digest = entry.schedule, digest_of(entry)
    named = at_id or at_name
    # A row of the code's that beat wrote before the import takes over its last run, and stays the
    # code's; everything else under that name that did not come from there is somebody's own.
    adopted = at_id is None and at_name is not None and at_name.owner == schedule.owner == "code"
    if at_name is not None and (at_name is not named or not (adopted or at_id)):
        return Outcome(schedule.name, "taken", schedule, remarks=(OUTCOMES["taken"],))
    if named is None:
        return _write(entry, Write(schedule, digest, None), now, "new")
    if adopted:
        kept = replace(schedule, state=named.state)
        return _write(entry, Write(kept, digest, None, named), now, "updated")
    if named.digest == digest or named.state == schedule.state == "finished":
        return Outcome(schedule.name, "unchanged", schedule, entry.go_on_from)
    if not named.is_as_imported:
        return Outcome(schedule.name, "kept", schedule, remarks=(OUTCOMES["kept"],))
    return _write(entry, Write(schedule, digest, None, named), now, "updated")


def digest_of(entry: Entry) -> str:
    """What tells whether an entry changed over there: what is written of it, and its last run."""
    values = {**asdict(entry.schedule), "go_on_from": entry.go_on_from}
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _write(entry: Entry, write: Write, now: datetime, outcome: str) -> Outcome:
    since, told = _go_on(entry, now) if write.schedule.state == "active" else (None, ())
    return Outcome(
        write.schedule.name,
        outcome,
        write.schedule,
        entry.go_on_from,
        (*entry.remarks, *told),
        replace(write, go_on_from=since),
    )


def _go_on(entry: Entry, now: datetime) -> tuple[datetime | None, tuple[str, ...]]:
    """From when on fire times are decided here, and what that means for those that have passed."""
    schedule, since = entry.schedule, entry.go_on_from
    if since is None:
        return None, ()
    if schedule.start_at is not None:
        since = max(since, schedule.start_at - INSTANT)
    trigger = parse_trigger(
        schedule.kind, schedule.expression, schedule.timezone, schedule.start_at
    )
    first = trigger.next(since)
    if first is None or first > now or (schedule.end_at is not None and first > schedule.end_at):
        return since, ()
    too_late = now - _GRACE
    if first >= too_late:
        return since, (f"due since {_minute(first)}: sent if beat starts within an hour of it",)
    late = trigger.walk(first, too_late, _TOLD)
    told = f"due since {_minute(first)}: what is older than an hour is not sent"
    return (too_late if late.count >= _TOLD else since), (told,)


def _minute(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M UTC")
