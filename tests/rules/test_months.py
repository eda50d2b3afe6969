"""Intervals of months: counted from the anchor, in local time."""

from datetime import datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

import pytest
from dateutil.relativedelta import relativedelta
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import Trigger, parse_trigger
from tests.rules.oracle import UTC
from tests.rules.test_cron import following, steady


def monthly(text: str, start: str | None = None, zone: str = "UTC") -> Trigger:
    local = datetime.fromisoformat(start).replace(tzinfo=ZoneInfo(zone)) if start else None
    return parse_trigger("interval", text, zone, local)


def test_a_short_month_has_its_last_day_and_the_next_one_the_31st_again() -> None:
    trigger = monthly("1 month", "2026-01-31 09:00")
    assert following(trigger, "2026-01-01 00:00", 4) == [
        "2026-01-31 09:00",
        "2026-02-28 09:00",
        "2026-03-31 09:00",
        "2026-04-30 09:00",
    ]
    assert following(trigger, "2028-02-01 00:00", 1) == ["2028-02-29 09:00"]


def test_the_29th_of_february_is_the_28th_in_other_years() -> None:
    trigger = monthly("1 year", "2024-02-29 00:00")
    assert following(trigger, "2024-02-29 00:00", 4) == [
        "2025-02-28 00:00",
        "2026-02-28 00:00",
        "2027-02-28 00:00",
        "2028-02-29 00:00",
    ]


def test_without_a_start_it_is_the_first_of_the_month_at_local_midnight() -> None:
    trigger = monthly("3 months", zone="America/New_York")
    assert following(trigger, "2026-02-01 00:00", 2) == ["2026-04-01 04:00", "2026-07-01 04:00"]


@pytest.mark.parametrize(
    ("start", "after", "expected"),
    [
        ("2026-02-08 02:30", "2026-03-01 00:00", ["2026-03-08 07:00", "2026-04-08 06:30"]),
        ("2026-10-01 01:30", "2026-10-31 00:00", ["2026-11-01 05:30", "2026-12-01 06:30"]),
    ],
)
def test_clocks_change_as_for_cron(start: str, after: str, expected: list[str]) -> None:
    assert following(monthly("1 month", start, "America/New_York"), after, 2) == expected


def test_a_start_in_the_second_pass_of_a_fold_is_the_first_fire_time() -> None:
    start = datetime(2026, 11, 1, 6, 30, tzinfo=UTC)  # 01:30 for the second time
    trigger = parse_trigger("interval", "1 month", "America/New_York", start)
    assert trigger.next(start - timedelta(days=9)) == start
    assert trigger.next(start) == datetime(2026, 12, 1, 6, 30, tzinfo=UTC)


@given(st.randoms(use_true_random=False), st.integers(1, 40), st.integers(0, 300))
@settings(steady, max_examples=200)
def test_it_never_drifts(rng: Random, months: int, count: int) -> None:
    anchor = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(microseconds=rng.randrange(10**15))
    trigger = parse_trigger("interval", f"{months} months", "UTC", anchor)
    expected = anchor + relativedelta(months=months * count)
    before = expected - timedelta(microseconds=1 + rng.randrange(10**6))
    assert trigger.next(before) == (expected if count else anchor)
    assert trigger.next(expected) == anchor + relativedelta(months=months * (count + 1))


def test_fractions_of_a_second_survive_a_fold() -> None:
    start = datetime(2026, 10, 1, 5, 59, 59, 500_000, tzinfo=UTC)  # 01:59:59.5
    trigger = parse_trigger("interval", "1 month", "America/New_York", start)
    found = trigger.next(datetime(2026, 10, 30, tzinfo=UTC))
    assert found == datetime(2026, 11, 1, 5, 59, 59, 500_000, tzinfo=UTC)
    for seconds in range(1, 3602, 30):
        after = found + timedelta(seconds=seconds)
        assert trigger.next(after) == datetime(2026, 12, 1, 6, 59, 59, 500_000, tzinfo=UTC)


@pytest.mark.parametrize("year", [1, 9999])
def test_a_start_at_the_edges_of_time_is_refused(year: int) -> None:
    for kind, text in (("interval", "1 month"), ("rrule", "FREQ=DAILY")):
        with pytest.raises(TriggerError, match=r"start_at .* is out of range"):
            parse_trigger(kind, text, "Asia/Tokyo", datetime(year, 1, 1, tzinfo=UTC))
    first = parse_trigger("interval", "1", "UTC", datetime(year, 1, 1, tzinfo=UTC))
    first.next(datetime(2026, 1, 1, tzinfo=UTC))


def test_it_ends_before_time_does() -> None:
    trigger = monthly("1200 months", "2026-01-31 09:00")
    assert trigger.next(datetime(9970, 1, 1, tzinfo=UTC)) is None
