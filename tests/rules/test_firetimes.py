"""Looking back finds the fire times that looking ahead finds; a change is told by both."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from celery_dbbeat.rules.difference import difference, overlaps, typical
from celery_dbbeat.rules.firetimes import fire_times, fires_at, last_before
from celery_dbbeat.rules.schedule import Schedule

UTC = timezone.utc
NOON = datetime(2026, 1, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAILY = Schedule(UUID(int=1), 1, "n", "t", "cron", "30 2 * * *", "Europe/Berlin")
WHENS = [
    ("cron", "30 2 * * *", "Europe/Berlin"),
    ("cron", "*/7 9-17 * * mon-fri", "America/New_York"),
    ("cron", "0 0 29 2 *", "UTC"),
    ("interval", "1799.5", "UTC"),
    ("once", "2026-03-01T00:00:00Z", "UTC"),
]


def schedule(kind: str, expression: str, zone: str, **more: object) -> Schedule:
    return replace(DAILY, kind=kind, expression=expression, timezone=zone, **more)  # type: ignore[arg-type]


@given(st.sampled_from(WHENS), st.integers(0, 400 * 86400 * 10))
def test_the_last_one_before_is_followed_by_none_before(
    when: tuple[str, str, str], tenths: int
) -> None:
    one, instant = schedule(*when), NOON + tenths * timedelta(seconds=0.1)
    found = last_before(one, instant)
    if found is None:
        assert next(fire_times(one, datetime(1970, 1, 1, tzinfo=UTC)), instant) >= instant
        return
    assert found < instant
    assert fires_at(one, found)
    following = next(fire_times(one, found), None)
    assert following is None or following >= instant


def test_bounds_hold_backwards() -> None:
    one = schedule("interval", "3600", "UTC", start_at=NOON, end_at=NOON + 3 * HOUR)
    assert last_before(one, NOON) is None
    assert last_before(one, NOON + HOUR) == NOON
    assert last_before(one, NOON + 9 * HOUR) == NOON + 3 * HOUR


class TestDifference:
    def test_each_is_kept_added_or_removed(self) -> None:
        old, new = schedule("interval", "3600", "UTC"), schedule("interval", "5400", "UTC")
        found = difference(old, new, NOON, 3)
        assert found.removed == (NOON - 2 * HOUR, NOON - HOUR, NOON + HOUR, NOON + 2 * HOUR)
        assert found.added == (NOON - 1.5 * HOUR, NOON + 1.5 * HOUR)
        assert found.kept == ()

    def test_what_has_no_fire_time_adds_none(self) -> None:
        old = schedule("interval", "3600", "UTC")
        found = difference(old, replace(old, end_at=NOON - 9 * HOUR), NOON, 2)
        assert found.removed == (NOON - 2 * HOUR, NOON - HOUR, NOON + HOUR, NOON + 2 * HOUR)

    def test_overlaps_by_real_durations_and_else_by_the_median(self) -> None:
        nominals = [NOON + hour * HOUR for hour in range(5)]
        took = {NOON: 1.5 * HOUR, NOON + HOUR: 0.1 * HOUR, NOON - HOUR: 0.2 * HOUR}
        assert typical(took.values()) == 0.2 * HOUR
        assert overlaps(nominals, took) == (NOON + HOUR,)
        assert overlaps(nominals, {NOON - HOUR: 2 * HOUR}) == tuple(nominals[1:])
        assert overlaps(nominals, {}) == ()
