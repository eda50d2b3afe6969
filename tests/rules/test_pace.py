"""How many late ticks may go now."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_dbbeat.rules.pace import LEAST_RATE, SAVED_UP, rate, room, shares

NOW = datetime(2026, 3, 2, 9, tzinfo=timezone.utc)


def test_none_before_the_last_ones_have_had_their_time() -> None:
    assert room(NOW + timedelta(seconds=1), NOW, 10, 100).ticks == 0


def test_one_when_it_is_time_for_it() -> None:
    there_is = room(NOW, NOW, 10, 100)
    assert there_is.ticks == 1
    assert there_is.free_at(1) == NOW + timedelta(seconds=0.1)


def test_a_long_pause_is_not_saved_up() -> None:
    there_is = room(NOW - timedelta(hours=6), NOW, 100, 1000)
    assert there_is.ticks == int(100 * SAVED_UP.total_seconds()) + 1
    assert there_is.free_at(there_is.ticks) > NOW


def test_no_more_than_are_asked_for() -> None:
    assert room(NOW - timedelta(seconds=1), NOW, 1000, 7).ticks == 7


@given(
    per_second=st.floats(0.1, 5000),
    waits=st.lists(st.floats(0.001, 3), min_size=1, max_size=60),
)
def test_over_any_time_there_are_no_more_than_the_rate_says(
    per_second: float, waits: list[float]
) -> None:
    now, free_at, sent = NOW, NOW, 0
    for wait in waits:
        now += timedelta(seconds=wait)
        there_is = room(free_at, now, per_second, 10**9)
        sent += there_is.ticks
        if there_is.ticks:
            free_at = there_is.free_at(there_is.ticks)
    passed = (now - NOW).total_seconds()
    assert sent <= (passed + SAVED_UP.total_seconds()) * per_second + 1


def test_twice_as_many_as_usual_but_not_less_than_the_least() -> None:
    assert rate(None, 400) == 800
    assert rate(None, 1) == LEAST_RATE
    assert rate(3, 400) == 3


@pytest.mark.parametrize(("ticks", "among", "expected"), [(7, 3, [3, 2, 2]), (2, 2, [1, 1])])
def test_shares(ticks: int, among: int, expected: list[int]) -> None:
    assert shares(ticks, among) == expected
