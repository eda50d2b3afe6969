"""What people order of a schedule: checked before it is written down, and shown in a dry run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, get_args
from uuid import UUID

from celery_dbbeat.api.definition import Definitions
from celery_dbbeat.api.reading import get_one
from celery_dbbeat.clock import monotonic
from celery_dbbeat.errors import FieldError, NotFound, ScheduleError
from celery_dbbeat.rules.backfill import FireTime, Order, Reprocess, decide, stretch_of
from celery_dbbeat.rules.firetimes import INSTANT
from celery_dbbeat.rules.once import parse_once
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.tick import UTC, task_id
from celery_dbbeat.rules.zone import find_zone, to_instant
from celery_dbbeat.store import backfills, orders, slices
from celery_dbbeat.store.backfills import Backfill, Wish
from celery_dbbeat.store.database import Transaction
from celery_dbbeat.store.rows import schedule_of

REPROCESS: tuple[Reprocess, ...] = get_args(Reprocess)
OVERLAPS = ("allow", "buffer_all")
MOST_CONCURRENT = 1000
SLOWEST, FASTEST = 0.001, 10_000.0

#: Counting stops after so long: some triggers count by arithmetic, others one by one.
_COUNT_FOR = 1.0
_COUNT_STEP = 2_000


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a backfill would do: how many fire times there are, and the first of them.

    `complete` is False where there were too many to count at once: then there are at least
    `count`. `following` is where the list goes on, None where it holds all of them.
    """

    count: int
    complete: bool
    fire_times: tuple[FireTime, ...]
    following: datetime | None

    @property
    def to_send(self) -> int:
        """How many of those in the list would be sent."""
        return sum(one.action != "skip" for one in self.fire_times)


@dataclass(frozen=True, slots=True)
class Asked:
    """How a backfill is to be done, as it was asked for."""

    reprocess: str = "none"
    max_concurrent: int = 1
    rate: float | None = None
    overlap: str = "allow"
    note: str | None = None

    def check(self) -> Reprocess:
        """Refuse what cannot be done, with what can."""
        for reprocess in REPROCESS:
            if self.reprocess == reprocess:
                break
        else:
            raise FieldError(
                "reprocess", f"reprocess is {self.reprocess!r}; allowed is {', '.join(REPROCESS)}"
            )
        if self.overlap not in OVERLAPS:
            raise FieldError(
                "overlap", f"overlap is {self.overlap!r}; allowed is {', '.join(OVERLAPS)}"
            )
        most = self.max_concurrent
        if type(most) is not int or not 1 <= most <= MOST_CONCURRENT:
            raise FieldError(
                "max_concurrent", f"max_concurrent is {most!r}; allowed is 1 to {MOST_CONCURRENT}"
            )
        rate = self.rate
        is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
        if rate is not None and not (is_number and SLOWEST <= rate <= FASTEST):
            raise FieldError(
                "rate",
                f"rate is {rate!r}; allowed is None, or {SLOWEST:g} to {FASTEST:g} ticks a second",
            )
        return reprocess


def trigger(
    transaction: Transaction,
    definitions: Definitions,
    name: str,
    args: Sequence[Any] | None,
    kwargs: Mapping[str, Any] | None,
) -> UUID:
    """Record a tick to be sent now; arguments that are no JSON, or not the task's, are refused."""
    if args is not None:
        if isinstance(args, str | bytes) or not isinstance(args, Sequence):
            raise FieldError("args", f"args is {args!r:.200}; allowed is a list or a tuple")
        _check_json("args", args := list(args))
    if kwargs is not None:
        if not isinstance(kwargs, Mapping):
            raise FieldError("kwargs", f"kwargs is {kwargs!r:.200}; allowed is a dict")
        _check_json("kwargs", kwargs := dict(kwargs))
    given = {"args": args, "kwargs": kwargs}
    changes = {field: value for field, value in given.items() if value is not None}
    if changes:
        definitions.draft(changes, get_one(transaction, name).draft())
    return orders.trigger(transaction, name, args, kwargs)


def resume(transaction: Transaction, name: str, *, catch_up: bool) -> Backfill | None:
    """Resume a schedule; with `catch_up` the time it was paused is ordered to be backfilled."""
    schedule, _ = _find(transaction, name)
    if not orders.resume(transaction, name) or not catch_up:
        return None
    wish = Wish(None, None, note="caught up on after a pause")
    number = backfills.order(transaction, schedule.id, wish)
    return None if number is None else show(transaction, number)


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of time of a schedule, both ends included, none of it still to come."""

    schedule: Schedule
    start: datetime
    end: datetime
    now: datetime


def find_range(
    transaction: Transaction, name: str, start: datetime | str, end: datetime | str
) -> Range:
    """Read both ends; what is still to come is left out, and left to the schedule."""
    schedule, now = _find(transaction, name)
    first = _instant("start", start, schedule, is_end=False)
    last = _instant("end", end, schedule, is_end=True)
    if last < first:
        raise FieldError(
            "end",
            f"end is {last.isoformat()}, before start {first.isoformat()}; allowed is the same or "
            "later",
        )
    if first > now:
        raise FieldError(
            "start", f"start is {first.isoformat()}, which is still to come; allowed is up to now"
        )
    return Range(schedule, first, min(last, now), now)


def dry_run(transaction: Transaction, stretch: Range, reprocess: Reprocess, limit: int) -> DryRun:
    """What would become of the first fire times, and how many there are."""
    schedule = stretch.schedule
    count, complete = count_fire_times(stretch)
    found = stretch_of(schedule, stretch.start, stretch.end, limit)
    keys = [(nominal, task_id(schedule.id, nominal)) for nominal in found.nominals]
    rows = slices.known(transaction, schedule.id, keys)
    before = slices.range_before(transaction, schedule.id, stretch.start)
    known = {past.nominal_at: past for past in rows.values()}
    decided = decide(Order(schedule.id, 0, reprocess), found, known, before)
    following = found.following if len(found.nominals) == limit else None
    if following is not None and following > stretch.end:
        following = None
    return DryRun(count, complete, tuple(decided), following)


def order(transaction: Transaction, stretch: Range, asked: Asked) -> Backfill:
    """Write the order down."""
    count, complete = count_fire_times(stretch)
    wish = Wish(
        stretch.start,
        stretch.end,
        asked.reprocess,
        asked.max_concurrent,
        asked.rate,
        asked.overlap,
        asked.note,
        count if complete else None,
    )
    number = backfills.order(transaction, stretch.schedule.id, wish)
    if number is None:
        raise NotFound(f"the schedule {stretch.schedule.name!r} was deleted just now")
    return show(transaction, number)


def check_kept(stretch: Range, retention: timedelta) -> None:
    """Refuse, unless it is confirmed, what is older than anything that is remembered."""
    if stretch.start < stretch.now - retention:
        raise FieldError(
            "start",
            f"start is {stretch.start.isoformat()}, older than dbbeat_retention "
            f"({retention.days} days): what ran before then is forgotten, and would be run again; "
            "allowed with force=True (on the command line: --yes)",
        )


def count_fire_times(stretch: Range) -> tuple[int, bool]:
    """How many fire times there are, and whether that is all: counting stops after a while."""
    schedule, until = stretch.schedule, stretch.end
    if schedule.end_at is not None:
        until = min(until, schedule.end_at)
    since = stretch.start if schedule.start_at is None else max(stretch.start, schedule.start_at)
    trigger = schedule.trigger
    first = trigger.next(since - INSTANT)
    count, step, stop_at = 0, _COUNT_STEP, monotonic() + _COUNT_FOR
    while first is not None and first <= until:
        if monotonic() > stop_at:
            return count, False
        walk = trigger.walk(first, until, step)
        count, first = count + walk.count, walk.following
        # Where counting is arithmetic, a larger step costs no more.
        step = min(step * 2, 1 << 16)
    return count, True


def listed(transaction: Transaction, name: str | None, limit: int) -> list[Backfill]:
    """Backfills of a schedule or of all, the newest first."""
    schedule_id = None if name is None else _find(transaction, name)[0].id
    return backfills.listed(transaction, schedule_id=schedule_id, limit=limit)


def turn(transaction: Transaction, number: int, wanted: str) -> Backfill:
    """Stop one that is running, or let one go on that was stopped; what is so already stays so."""
    only_from = "running" if wanted == "stopped" else "stopped"
    turned = backfills.turn(transaction, number, wanted, only_from)
    found = show(transaction, number)
    if not turned and found.state != wanted:
        raise ScheduleError(f"backfill {number} is {found.state}; allowed is {only_from}")
    return found


def show(transaction: Transaction, number: int) -> Backfill:
    """One backfill, by its number."""
    found = backfills.listed(transaction, number=number)
    if not found:
        raise NotFound(f"there is no backfill {number}")
    return found[0]


def _find(transaction: Transaction, name: str) -> tuple[Schedule, datetime]:
    rows = transaction.run("schedule_by_name", name=name).all
    if not rows:
        raise NotFound(f"there is no schedule {name!r}")
    return schedule_of(rows[0]), rows[0]["now"].astimezone(UTC)


def _instant(field: str, value: datetime | str, schedule: Schedule, *, is_end: bool) -> datetime:
    """Text without an offset is local time of the schedule; a day alone is the whole of it."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise FieldError(field, f"{field} is {value!r}; allowed is a datetime with a time zone")
        return value.astimezone(UTC)
    zone = find_zone(schedule.timezone)
    try:
        day = date.fromisoformat(value)
    except ValueError:
        try:
            return parse_once(value, zone).at
        except ScheduleError:
            raise FieldError(
                field,
                f"{field} is {value!r}; allowed is an ISO-8601 instant such as "
                "'2030-01-31T09:30:00+01:00', the same without an offset in the schedule's "
                f"time zone {schedule.timezone}, or a day such as '2030-01-31'",
            ) from None
    midnight = datetime(day.year, day.month, day.day) + timedelta(days=is_end)  # noqa: DTZ001 - local
    return to_instant(midnight, zone) - is_end * INSTANT


def _check_json(field: str, value: object) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise FieldError(field, f"{field} cannot be JSON: {error}") from None
