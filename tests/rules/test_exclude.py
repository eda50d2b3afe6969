"""Fire times that are taken away."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from time import perf_counter
from uuid import UUID

import pytest

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.exclude import excluding
from celery_dbbeat.rules.plan import plan
from celery_dbbeat.rules.schedule import Cursor, Schedule
from celery_dbbeat.rules.trigger import Trigger, parse_trigger
from tests.rules.oracle import UTC
from tests.rules.test_cron import following

NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
DAILY = Schedule(UUID(int=1), 1, "daily", "t", "cron", "0 9 * * *")


def without(kind: str, expression: str, *exclude: str, zone: str = "UTC") -> Trigger:
    return excluding(parse_trigger(kind, expression, zone), json.dumps(exclude), zone)


@pytest.mark.parametrize(
    ("exclude", "expected"),
    [
        ([], ["2026-01-01 09:00", "2026-01-02 09:00"]),
        (["2026-01-01"], ["2026-01-02 09:00", "2026-01-03 09:00"]),
        (["2026-01-01T09:00"], ["2026-01-02 09:00", "2026-01-03 09:00"]),
        (["2026-01-01 09:00:00"], ["2026-01-02 09:00", "2026-01-03 09:00"]),
        (["2026-01-01T10:00+01:00", "2026-01-02"], ["2026-01-03 09:00", "2026-01-04 09:00"]),
        (["2026-01-01T10:00"], ["2026-01-01 09:00", "2026-01-02 09:00"]),
        (["RRULE:FREQ=WEEKLY;BYDAY=SA,SU,TH"], ["2026-01-02 09:00", "2026-01-05 09:00"]),
        (["freq=yearly;bymonth=1;bymonthday=1"], ["2026-01-02 09:00", "2026-01-03 09:00"]),
        (["FREQ=DAILY;BYHOUR=9;UNTIL=20260102"], ["2026-01-02 09:00", "2026-01-03 09:00"]),
        (["FREQ=DAILY;BYHOUR=8"], ["2026-01-01 09:00", "2026-01-02 09:00"]),
        (["FREQ=DAILY;INTERVAL=2"], ["2026-01-02 09:00", "2026-01-04 09:00"]),
        (
            ["DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY;COUNT=5\nEXDATE:20260104"],
            ["2026-01-04 09:00", "2026-01-06 09:00"],
        ),
    ],
)
def test_the_others_fire(exclude: list[str], expected: list[str]) -> None:
    assert following(without("cron", "0 9 * * *", *exclude), "2026-01-01 00:00", 2) == expected


@pytest.mark.parametrize(
    ("kind", "expression", "expected"),
    [
        ("crontab", '{"minute": 0}', "2026-01-03 05:00"),
        ("interval", "0.1", "2026-01-03 05:00"),
        ("interval", "1 month", "2026-02-01 05:00"),
        ("rrule", "FREQ=HOURLY", "2026-01-03 05:00"),
        ("once", "2026-01-01T12:00:00", None),
        ("solar", "sunrise 40.71 -74", "2026-01-03 12:20:10"),
    ],
)
def test_a_day_is_one_of_the_schedules_zone(kind: str, expression: str, expected: str) -> None:
    trigger = without(kind, expression, "2026-01-01", "2026-01-02", zone="America/New_York")
    found = following(trigger, "2026-01-01 05:00", 1)
    assert found == ([expected] if expected else [])
    # Just before local midnight the day before still fires.
    before = trigger.next(datetime(2026, 1, 1, 3, 30, tzinfo=UTC))
    if kind in {"crontab", "interval", "rrule"} and expression != "1 month":
        assert before is not None
        assert before < datetime(2026, 1, 1, 5, tzinfo=UTC)


def test_clocks_that_change() -> None:
    hourly = without("cron", "0 * * * *", "2026-11-01T01:00", zone="America/New_York")
    assert following(hourly, "2026-11-01 04:00", 1) == ["2026-11-01 07:00"]
    in_gap = without("cron", "30 2 * * *", "2026-03-08T02:30", zone="America/New_York")
    assert following(in_gap, "2026-03-08 00:00", 1) == ["2026-03-09 06:30"]
    rule = without(
        "cron",
        "30 2 * * *",
        "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;UNTIL=20260309",
        zone="America/New_York",
    )
    assert following(rule, "2026-03-08 00:00", 1) == ["2026-03-09 06:30"]
    # A midnight that clocks skip, and one that they show twice.
    skipped = without("cron", "0 */6 * * *", "2018-11-04", zone="America/Sao_Paulo")
    assert following(skipped, "2018-11-04 00:00", 1) == ["2018-11-05 02:00"]
    twice = without("interval", "600", "2026-11-01", zone="America/Havana")
    assert following(twice, "2026-11-01 04:00", 1) == ["2026-11-02 05:00"]


def test_it_does_not_depend_on_the_start() -> None:
    trigger = without("interval", "7000", "2026-01-02", "FREQ=WEEKLY;BYDAY=SU", zone="Asia/Tokyo")
    at = NEW_YEAR
    for _ in range(200):
        found = trigger.next(at)
        assert found is not None
        for part in (0.01, 0.5, 0.99):
            assert trigger.next(at + (found - at) * part) == found
        local = found + timedelta(hours=9)
        assert local.weekday() != 6
        assert (local.month, local.day, local.year) != (1, 2, 2026)
        at = found


@pytest.mark.parametrize(
    ("exclude", "why"),
    [
        ("", "exclude '' is not JSON"),
        ("x", "is not JSON"),
        ("[" * 50_000, "is not JSON"),
        ('{"a": 1}', "is not an array of text"),
        ("[1]", "is not an array of text"),
        ("[null]", "is not an array of text"),
        ('["christmas"]', "exclude 'christmas' is not understood: allowed are days, local times"),
        ('["2026-02-30"]', "exclude '2026-02-30' is not understood"),
        ('["2026-1-1"]', "is not understood"),
        ('["9999-12-31T23:59:59-23:00"]', "is not understood"),
        ('["\\u0000"]', "is not understood"),
        ('["FREQ=SECONDLY"]', "exclude: rrule 'FREQ=SECONDLY': FREQ 'SECONDLY' is not allowed"),
        ('["FREQ=DAILY;COUNT=3"]', "exclude: rrule"),
        (json.dumps(["2026-01-01"] * 1001), "exclude has 1001 entries: at most 1000 are allowed"),
        (json.dumps(["2026-01-01"] * 100_000), "exclude has 1400000 characters: at most 100000"),
        (json.dumps(["FREQ=DAILY"] * 21), "exclude has 21 rules: at most 20"),
    ],
)
def test_what_cannot_be_read_is_refused_and_makes_the_schedule_invalid(
    exclude: str, why: str
) -> None:
    schedule = replace(DAILY, exclude=exclude)
    with pytest.raises(TriggerError) as refused:
        _ = schedule.trigger
    assert why in str(refused.value)
    assert len(str(refused.value)) < 500
    decided = plan(schedule, Cursor(None, None, replan_from=NEW_YEAR), NEW_YEAR)
    assert (decided.ends, decided.reason) == ("invalid", str(refused.value))


@pytest.mark.parametrize(
    "expression", ["* * * * *", "0 9 * * *", "* * * * * *"], ids=["minutes", "days", "seconds"]
)
def test_where_nothing_is_left_the_search_ends(expression: str) -> None:
    schedule = replace(DAILY, expression=expression, exclude='["FREQ=DAILY"]')
    began = perf_counter()
    decided = plan(schedule, Cursor(None, None, replan_from=NEW_YEAR), NEW_YEAR)
    assert perf_counter() - began < 2
    assert decided.ends == "invalid"
    assert "more than 2000 fire times or days in a row are excluded" in str(decided.reason)


def test_a_fire_time_that_is_excluded_is_not_planned() -> None:
    schedule = replace(DAILY, exclude='["2026-01-02"]')
    nine = NEW_YEAR + timedelta(hours=9)
    decided = plan(schedule, Cursor(nine, nine), nine)
    assert [tick.nominal_at for tick in decided.ticks] == [nine]
    assert decided.cursor.nominal_at == nine + timedelta(days=2)


def test_a_schedule_of_which_all_is_excluded_ends() -> None:
    once = replace(DAILY, kind="once", expression="2026-01-01T09:00:00", exclude='["2026-01-01"]')
    decided = plan(once, Cursor(None, None, replan_from=NEW_YEAR), NEW_YEAR)
    assert (decided.ends, decided.reason) == ("finished", "no fire time left")
