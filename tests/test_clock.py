"""Only the database's clock counts; this machine's shows how much time has passed since."""

from datetime import datetime, timedelta, timezone

import pytest

from celery_dbbeat import clock
from celery_dbbeat.clock import DatabaseClock

NINE = datetime(2026, 3, 2, 9, tzinfo=timezone.utc)


@pytest.fixture
def passing(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The monotonic clock, to be set by hand."""
    shown = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: shown[0])
    return shown


def test_before_the_first_answer_there_is_no_time_to_wait() -> None:
    assert DatabaseClock().seconds_until(NINE) == 0
    assert DatabaseClock().now() is None


def test_time_passes_as_the_monotonic_clock_says(passing: list[float]) -> None:
    database = DatabaseClock()
    database.observe(NINE)
    assert database.seconds_until(NINE + timedelta(seconds=60)) == 60
    passing[0] += 45
    assert database.now() == NINE + timedelta(seconds=45)
    assert database.seconds_until(NINE + timedelta(seconds=60)) == 15


def test_what_has_passed_is_not_waited_for(passing: list[float]) -> None:
    database = DatabaseClock()
    database.observe(NINE)
    passing[0] += 61
    assert database.seconds_until(NINE + timedelta(seconds=60)) == 0


def test_a_new_answer_replaces_the_old_one(passing: list[float]) -> None:
    database = DatabaseClock()
    database.observe(NINE)
    database.observe(NINE - timedelta(hours=1))
    assert database.seconds_until(NINE) == 3600


def test_the_zone_an_instant_is_told_in_does_not_matter(passing: list[float]) -> None:
    database = DatabaseClock()
    database.observe(NINE)
    there = (NINE + timedelta(seconds=5)).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert database.seconds_until(there) == 5
