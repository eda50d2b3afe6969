"""Whether the promise was kept, from the tables and the messages alone.

For each schedule with an interval, its fire times are worked out here by plain arithmetic: anchor
plus n times the interval, from when it was inserted until where its cursor stands. Each of them
must be covered by a tick, or by a range that was not sent and says why.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid5

from tests.faults.inbox import Received
from tests.faults.tables import Tables

SCHEDULES = """
    SELECT s.id, s.name, s.expression, s.start_at, s.created_at, c.nominal_at AS until
    FROM dbbeat_schedule s LEFT JOIN dbbeat_cursor c ON c.schedule_id = s.id
    WHERE s.kind = 'interval' AND s.state <> 'invalid'
"""
TICKS = """
    SELECT schedule_id, nominal_at, last_at, task_id, state, due_at, sent_at, reason, kind
    FROM dbbeat_tick ORDER BY nominal_at
"""
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# A fire time in the very moment of the insert may or may not count.
MOMENT = timedelta(milliseconds=100)

FireTime = tuple[UUID, datetime]


@dataclass(frozen=True)
class Schedule:
    """What of a schedule tells its fire times; known before it is deleted."""

    id: UUID
    every: timedelta
    anchor: datetime
    since: datetime
    until: datetime | None

    def fire_times(self, until: datetime) -> Iterable[datetime]:
        """From its insertion until before `until`."""
        steps = -((self.anchor - self.since) // self.every)
        at = self.anchor + steps * self.every
        while at < until:
            if at >= self.since:
                yield at
            at += self.every


@dataclass
class Report:
    """The count. What may not be is a list, so that a failure shows which."""

    expected: int = 0
    sent: int = 0
    not_sent: int = 0
    messages: int = 0
    #: Messages beyond the first of a task id; only faults may cause them.
    doubled: int = 0
    lost: list[FireTime] = field(default_factory=list)
    two_ids: list[FireTime] = field(default_factory=list)
    wrong_ids: list[UUID] = field(default_factory=list)
    sent_and_not_sent: list[FireTime] = field(default_factory=list)
    without_reason: list[FireTime] = field(default_factory=list)
    not_arrived: list[UUID] = field(default_factory=list)
    stray: list[UUID] = field(default_factory=list)
    #: Seconds from due to known to be sent, and to the arrival of the first message.
    late: list[float] = field(default_factory=list)
    arrived_late: list[float] = field(default_factory=list)

    def check(self) -> None:
        """Fail on anything that no fault excuses."""
        assert self.expected > 0, "there was nothing to do"
        wrong = {
            name: (len(found), found[:5])
            for name, found in vars(self).items()
            if isinstance(found, list) and found and not name.endswith("late")
        }
        assert not wrong, f"{wrong} in {self}"

    def __str__(self) -> str:
        return (
            f"{self.expected} fire times: {self.sent} sent, {self.not_sent} not sent, "
            f"{len(self.lost)} lost, {len(self.two_ids)} with two ids; {self.messages} messages, "
            f"{self.doubled} doubled; late by {max(self.late, default=0):.2f} s at most, "
            f"arrived by {max(self.arrived_late, default=0):.2f} s"
        )


def check(tables: Tables, received: Sequence[Received], deleted: Sequence[Schedule] = ()) -> Report:
    """Count everything; `deleted` are schedules that stand in no table any more."""
    report = Report()
    rows = tables.rows(TICKS)
    _count_fire_times(report, [*schedules(tables), *deleted], rows)
    _count_messages(report, rows, received)
    return report


def schedules(tables: Tables) -> list[Schedule]:
    """All schedules with an interval, as they stand now."""
    return [
        Schedule(
            row["id"],
            timedelta(seconds=float(row["expression"])),
            row["start_at"] or EPOCH,
            row["created_at"] + MOMENT,
            row["until"],
        )
        for row in tables.rows(SCHEDULES)
    ]


def _count_fire_times(
    report: Report, known: Sequence[Schedule], rows: Sequence[dict[str, Any]]
) -> None:
    by_schedule = defaultdict(list)
    for row in rows:
        by_schedule[row["schedule_id"]].append(row)
    for schedule in known:
        _count_one(report, schedule, by_schedule[schedule.id])


def _count_one(report: Report, schedule: Schedule, rows: Sequence[dict[str, Any]]) -> None:
    ids = defaultdict(set)
    for row in rows:
        if row["state"] in {"recorded", "sent"}:
            ids[row["nominal_at"]].add(row["task_id"])
            if row["task_id"] != uuid5(schedule.id, row["nominal_at"].isoformat()):
                report.wrong_ids.append(row["task_id"])
        elif not row["reason"]:
            report.without_reason.append((schedule.id, row["nominal_at"]))
    ranges = [row for row in rows if row["state"] not in {"recorded", "sent"}]
    ends = [row["last_at"] or row["nominal_at"] for row in rows]
    until = schedule.until or max(ends, default=schedule.since) + timedelta(microseconds=1)
    for at in schedule.fire_times(until):
        excused = any(row["nominal_at"] <= at <= (row["last_at"] or at) for row in _of(ranges, at))
        _count_fire_time(report, (schedule.id, at), len(ids.get(at, ())), excused=excused)


def _of(ranges: Sequence[dict[str, Any]], at: datetime) -> Iterable[dict[str, Any]]:
    return (row for row in ranges if row["last_at"] is not None or row["nominal_at"] == at)


def _count_fire_time(report: Report, fire_time: FireTime, ids: int, *, excused: bool) -> None:
    report.expected += 1
    report.sent += bool(ids)
    report.not_sent += excused
    if not ids and not excused:
        report.lost.append(fire_time)
    if ids > 1:
        report.two_ids.append(fire_time)
    if ids and excused:
        report.sent_and_not_sent.append(fire_time)


def _count_messages(
    report: Report, rows: Sequence[dict[str, Any]], received: Sequence[Received]
) -> None:
    copies = Counter(message.task_id for message in received)
    first: dict[UUID, Received] = {}
    for message in received:
        first.setdefault(message.task_id, message)
    report.messages = len(received)
    report.doubled = len(received) - len(copies)
    ticks = {row["task_id"]: row for row in rows}
    for task_id, message in first.items():
        tick = ticks.get(task_id)
        if tick is None or tick["nominal_at"] != message.nominal_at:
            report.stray.append(task_id)
        else:
            late = message.arrived_at - tick["due_at"]
            report.arrived_late.append(late.total_seconds())
    for task_id, tick in ticks.items():
        if tick["state"] == "sent":
            report.late.append((tick["sent_at"] - tick["due_at"]).total_seconds())
            if task_id not in copies:
                report.not_arrived.append(task_id)
