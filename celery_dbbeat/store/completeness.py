"""Every fire time of every schedule held against the history, a page of schedules at a time.

Of a page the stories are read first, with the cursors of the same moment, and the history after
them: what a cursor has gone past is in the history by then. Each reading is a short transaction of
its own, as the reckoning between them may take long.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any
from uuid import UUID

from celery_dbbeat.rules.completeness import Decided, Gap, Reckoning, windows
from celery_dbbeat.store.audit import Story, stories
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.rows import UTC, utc

#: What is due since so lately may be under way.
SETTLE = timedelta(seconds=30)

_SCHEDULES = 200
_ROWS = 5000
_FIRST = UUID(int=0)
_EARLIEST = datetime(1, 1, 2, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Completeness:
    """What a check found; `gaps` are the first of `missing`.

    `since` is later than what was asked for where the history does not go back so far. `unreadable`
    tells of schedules whose fire times nobody can work out, each with the reason.
    """

    since: datetime
    until: datetime
    schedules: int
    fire_times: int
    missing: int
    gaps: tuple[Gap, ...]
    unreadable: tuple[tuple[str, str], ...]

    @property
    def complete(self) -> bool:
        """Whether each fire time has its tick or its reason."""
        return not self.missing


def check(
    database: Database,
    since: datetime,
    until: datetime,
    retention: timedelta,
    limit: int,
) -> Completeness:
    """Look for fire times from `since` on, before `until`, that have neither tick nor reason."""
    now = database.now().astimezone(UTC)
    # What is older than the retention goes by whole days.
    oldest = datetime.combine((now - retention).date(), time(), UTC)
    settled = now - SETTLE
    found = Completeness(
        max(since, oldest),
        min(until, now),
        0,
        0,
        0,
        (),
        (),
    )
    after = _FIRST
    while page := _page(database, after, found.since):
        after = page[-1]
        found = _check_page(database, page, settled, found, limit)
    return found


def _page(database: Database, after: UUID, since: datetime) -> list[UUID]:
    with database.transaction() as transaction:
        rows = transaction.run("schedules_after", after=after, since=since, limit=_SCHEDULES).all
    return [row["schedule_id"] for row in rows]


def _check_page(
    database: Database, page: list[UUID], settled: datetime, found: Completeness, limit: int
) -> Completeness:
    told = stories(database, page)
    reckonings = {one.schedule_id: _reckoning(one, settled) for one in told}
    for row in _ranges(database, page, found.since):
        if row["schedule_id"] in reckonings:
            reckonings[row["schedule_id"]].covered_until = utc(row["last_at"])
    gaps, missing = list(found.gaps), found.missing
    for start, end in windows(found.since, found.until):
        rows = _by_schedule(database, page, start, end)
        ahead = next(rows, None)
        for schedule_id, reckoning in reckonings.items():
            while ahead is not None and ahead[0] < schedule_id:
                ahead = next(rows, None)
            mine = ahead[1] if ahead is not None and ahead[0] == schedule_id else iter(())
            for gap in reckoning.look(start, end, mine):
                missing += 1
                if len(gaps) < limit:
                    gaps.append(gap)
    unreadable = [
        (one.name, reason) for one in told if (reason := reckonings[one.schedule_id].unreadable)
    ]
    return replace(
        found,
        schedules=found.schedules + len(told),
        fire_times=found.fire_times + sum(one.fire_times for one in reckonings.values()),
        missing=missing,
        gaps=tuple(gaps),
        unreadable=(*found.unreadable, *unreadable),
    )


def _reckoning(story: Story, settled: datetime) -> Reckoning:
    due = story.cursor.due_at if story.cursor else None
    return Reckoning(story.stretches, settled, overdue=due is not None and due <= settled)


def _ranges(database: Database, page: list[UUID], instant: datetime) -> list[dict[str, Any]]:
    with database.transaction() as transaction:
        return transaction.run("ranges_over", schedule_ids=page, instant=instant).all


def _by_schedule(
    database: Database, page: list[UUID], since: datetime, before: datetime
) -> Iterator[tuple[UUID, Iterator[Decided]]]:
    rows = _rows(database, page, since, before)
    for schedule_id, group in groupby(rows, itemgetter("schedule_id")):
        yield schedule_id, (_decided(row) for row in group)


def _rows(
    database: Database, page: list[UUID], since: datetime, before: datetime
) -> Iterator[dict[str, Any]]:
    place: dict[str, Any] = {
        "schedule_id": page[0],
        "nominal_at": _EARLIEST,
        "task_id": _FIRST,
    }
    while True:
        with database.transaction() as transaction:
            rows = transaction.run(
                "decided", last_id=page[-1], since=since, before=before, limit=_ROWS, **place
            ).all
        yield from rows
        if len(rows) < _ROWS:
            return
        place = {name: rows[-1][name] for name in place}


def _decided(row: dict[str, Any]) -> Decided:
    return Decided(
        row["nominal_at"].astimezone(UTC), utc(row["last_at"]), row["task_id"], row["state"]
    )
