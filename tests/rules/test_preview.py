"""The next fire times of a schedule, and what clocks did at them."""

from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from celery_dbbeat.errors import ScheduleError, TriggerError
from celery_dbbeat.rules.plan import plan
from celery_dbbeat.rules.preview import dst_case, preview
from celery_dbbeat.rules.schedule import Cursor, Schedule
from tests.rules.oracle import UTC

NEW_YORK = Schedule(UUID(int=1), 1, "s", "t", "cron", "30 2 * * *", "America/New_York")


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "expression", "after", "expected"),
    [
        ("cron", "30 2 * * *", "2026-03-08 00:00", ["03:00 gap", "02:30 none"]),
        ("cron", "0 2,3 * * *", "2026-03-08 00:00", ["03:00 gap", "02:00 none"]),
        ("cron", "0 3 * * *", "2026-03-08 00:00", ["03:00 none", "03:00 none"]),
        ("cron", "0 */3 * * *", "2026-03-08 05:01", ["03:00 none", "06:00 none"]),
        ("cron", "30 1 * * *", "2026-11-01 00:00", ["01:30 fold", "01:30 none"]),
        ("cron", "30 * * * *", "2026-11-01 05:00", ["01:30 fold", "01:30 fold", "02:30 none"]),
        ("crontab", '{"minute": 30, "hour": 2}', "2026-03-08 00:00", ["03:00 gap", "02:30 none"]),
        ("rrule", "FREQ=DAILY;BYHOUR=2", "2026-03-08 00:00", ["03:00 gap", "02:00 none"]),
        ("once", "2026-03-08T02:30:00", "2026-01-01 00:00", ["03:00 gap"]),
        ("once", "2026-11-01T01:30:00", "2026-01-01 00:00", ["01:30 fold"]),
        ("once", "2026-11-01T01:30:00-04:00", "2026-01-01 00:00", ["01:30 none"]),
        ("interval", "1 month", "2026-10-31 00:00", ["00:00 none", "00:00 none"]),
        ("interval", "3600", "2026-11-01 05:00", ["01:00 none", "02:00 none"]),
    ],
)
def test_it_says_what_clocks_did(
    kind: str, expression: str, after: str, expected: list[str]
) -> None:
    schedule = replace(NEW_YORK, kind=kind, expression=expression)
    found = preview(schedule, len(expected), at(after))
    assert [f"{one.local:%H:%M} {one.dst}" for one in found] == expected
    assert [one.dst for one in found] == [dst_case(schedule, one.nominal_at) for one in found]
    assert all(one.nominal_at.tzinfo is UTC for one in found)


def test_a_month_whose_day_has_a_gap() -> None:
    start = at("2026-02-08 07:30")  # 02:30 in New York
    schedule = replace(NEW_YORK, kind="interval", expression="1 month", start_at=start)
    first, second = preview(schedule, 2, at("2026-02-01 00:00"))
    assert (first.nominal_at, first.dst) == (start, "none")
    assert (second.nominal_at, second.dst) == (at("2026-03-08 07:00"), "gap")


def test_start_end_runs_and_exclusions_count() -> None:
    schedule = replace(
        NEW_YORK,
        expression="0 9 * * *",
        timezone="UTC",
        start_at=at("2026-01-02 09:00"),
        end_at=at("2026-01-06 09:00"),
        exclude='["2026-01-04"]',
    )
    days = [one.nominal_at.day for one in preview(schedule, 9, at("2026-01-01 00:00"))]
    assert days == [2, 3, 5, 6]
    limited = replace(schedule, max_runs=3)
    assert len(preview(limited, 9, at("2026-01-01 00:00"))) == 3
    assert len(preview(limited, 9, at("2026-01-01 00:00"), runs=2)) == 1
    assert preview(limited, 9, at("2026-01-01 00:00"), runs=4) == ()


def test_it_is_what_is_planned() -> None:
    schedule = replace(NEW_YORK, expression="*/20 1-3 * * *", max_runs=20)
    now = at("2026-10-31 00:00")
    told = [one.nominal_at for one in preview(schedule, 50, now)]
    cursor, planned = plan(schedule, Cursor(None, None, replan_from=now), now).cursor, []
    while cursor.due_at is not None:
        decided = plan(schedule, cursor, cursor.due_at)
        planned += [tick.nominal_at for tick in decided.ticks]
        cursor = decided.cursor
    assert told == planned
    assert len(told) == 20


@pytest.mark.parametrize("n", [0, -1, 1001])
def test_how_many_is_limited(n: int) -> None:
    with pytest.raises(ScheduleError, match=f"n is {n}; allowed are 1 to 1000"):
        preview(NEW_YORK, n, at("2026-01-01 00:00"))


def test_an_instant_needs_a_zone() -> None:
    with pytest.raises(ScheduleError, match="allowed is a datetime with a time zone"):
        preview(NEW_YORK, 1, datetime(2026, 1, 1))  # noqa: DTZ001


def test_what_is_no_trigger_is_refused() -> None:
    for wrong in ({"exclude": '["FREQ=DAILY"]'}, {"expression": "x"}, {"timezone": "x"}):
        with pytest.raises(TriggerError):
            preview(replace(NEW_YORK, **wrong), 1, at("2026-01-01 00:00"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "expression"),
    [("cron", "* * * * *"), ("interval", "1"), ("interval", "1 month"), ("rrule", "FREQ=DAILY")],
)
def test_there_is_nothing_at_the_end_of_time(kind: str, expression: str) -> None:
    schedule = replace(NEW_YORK, kind=kind, expression=expression, timezone="Pacific/Kiritimati")
    assert preview(schedule, 9, datetime.max.replace(tzinfo=UTC)) == ()
    late = datetime(9998, 11, 30, 23, 59, 59, tzinfo=UTC) - timedelta(days=40)
    assert len(preview(schedule, 9, late)) <= 9
    preview(schedule, 1, datetime(2, 1, 1, tzinfo=UTC))
