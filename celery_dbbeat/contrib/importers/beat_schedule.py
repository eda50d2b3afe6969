"""The app's own `beat_schedule`, and the last runs that Celery's own beat kept of it in a file.

Beat writes the app's entries into the table by itself, when it starts. So there is nothing to
import but their last runs, without which a daily entry that was due while nobody was sending
would be left out, and an interval would begin anew. The rows stay the code's, unless they are to
become people's, so that the code may drop them.

Other sources hold copies of these entries, which their schedulers wrote there at each start. They
become the code's rows as well, with the last runs of the copies.
"""

import dbm
import pickle
import shelve
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from celery import Celery

from celery_dbbeat.beat.static import app_zone, code_schedule
from celery_dbbeat.contrib.importers.clock_changes import clock_changes_matter
from celery_dbbeat.contrib.importers.entry import UTC, Entry, Refused
from celery_dbbeat.contrib.importers.relative import first_rounded
from celery_dbbeat.errors import ScheduleError, SourceError
from celery_dbbeat.rules.zone import find_zone, to_instant
from celery_dbbeat.store.imports import ImportedSchedule
from celery_dbbeat.store.schedules import CodeSchedule

SOURCE = "beat-schedule"
_UNREADABLE = (OSError, EOFError, ImportError, AttributeError, KeyError, TypeError, ValueError)
_COLUMNS = tuple(field for field in CodeSchedule.__slots__ if field != "digest")


@dataclass(frozen=True, slots=True)
class Code:
    """What the app's code says, by name, as it would be written by beat."""

    app: Celery
    entries: Mapping[str, Any]
    today: date

    def __contains__(self, name: str) -> bool:
        """Whether the code has an entry of that name."""
        return name in self.entries

    def convert(
        self, name: str, last_run_at: datetime | None, *, source_id: str, owner: str = "code"
    ) -> Entry | Refused:
        """The row that beat would write, going on from that run."""
        try:
            row = code_schedule(self.app, name, self.entries[name])
        except ScheduleError as error:
            return Refused(source_id, name, str(error))
        imported = ImportedSchedule(
            source_id=source_id,
            **{column: getattr(row, column) for column in _COLUMNS},
            owner=owner,
            code_digest=row.digest if owner == "code" else None,
            start_at=self._first(row, last_run_at),
        )
        differs = None
        if row.kind == "crontab":
            differs = clock_changes_matter(row.expression, row.timezone, self.today)
        return Entry(imported, last_run_at, (differs,) if differs else ())

    def _first(self, row: CodeSchedule, last_run_at: datetime | None) -> datetime | None:
        """Of an interval the next run, from which it counts on."""
        if row.kind != "interval" or last_run_at is None:
            return None
        every = timedelta(seconds=float(row.expression))
        if _is_relative(self.entries[row.name]):
            return first_rounded(last_run_at.astimezone(find_zone(row.timezone)), every)
        return last_run_at + every


def code_of(app: Celery, today: date) -> Code:
    """The entries that beat would install: the app's own, and Celery's default one."""
    from celery_dbbeat.beat.scheduler import DatabaseScheduler  # noqa: PLC0415 - brings Celery's beat

    return Code(app, DatabaseScheduler(app=app, lazy=True).code_entries(), today)


def last_runs(app: Celery, path: Path) -> dict[str, datetime]:
    """When each entry was last sent, as Celery's beat noted it."""
    try:
        # The file of the user's own beat, which reads it in the same way.
        with shelve.open(str(path), flag="r") as store:  # noqa: S301
            entries = dict(store["entries"])
            found = {name: entry.last_run_at for name, entry in entries.items()}
    except (*dbm.error, pickle.UnpicklingError, *_UNREADABLE) as error:
        raise SourceError(
            f"the file {path} of beat's last runs cannot be read: {type(error).__name__}: {error}; "
            "allowed is --file PATH, the file of a beat that was stopped"
        ) from None
    zone = find_zone(app_zone(app))
    return {
        name: to_instant(instant, zone) if instant.tzinfo is None else instant.astimezone(UTC)
        for name, instant in found.items()
        if isinstance(instant, datetime)
    }


def _is_relative(entry: Any) -> bool:  # noqa: ANN401 - a dictionary, or an entry of Celery's
    given = entry if isinstance(entry, Mapping) else vars(entry)
    return bool(given.get("relative") or getattr(given.get("schedule"), "relative", False))
