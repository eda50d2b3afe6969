from bisect import bisect_right
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from random import Random
from zoneinfo import available_timezones
from zoneinfo._zoneinfo import (  # type: ignore[import-not-found]
    ZoneInfo as TransparentZoneInfo,
)

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import parse_trigger
from celery_dbbeat.rules.zone import _NEAR, find_zone, to_instant
from tests.rules.expressions import make
from tests.rules.oracle import UTC, ZONES, changes, fire_times
from tests.rules.test_cron import cron, following, steady

NEW_YORK_GAP = "2026-03-08 05:00"  # 02:00-03:00 is skipped, 07:00 UTC
NEW_YORK_FOLD = "2026-11-01 04:00"  # 01:00-02:00 comes twice, 05:00 and 06:00 UTC


@pytest.mark.parametrize(
    ("text", "zone", "after", "expected"),
    [
        ("30 2 * * *", "America/New_York", NEW_YORK_GAP, ["2026-03-08 07:00", "2026-03-09 06:30"]),
        (
            "*/20 2 * * *",
            "America/New_York",
            NEW_YORK_GAP,
            ["2026-03-08 07:00", "2026-03-09 06:00"],
        ),
        ("0 2,3 * * *", "America/New_York", NEW_YORK_GAP, ["2026-03-08 07:00", "2026-03-09 06:00"]),
        ("30 1 * * *", "America/New_York", NEW_YORK_FOLD, ["2026-11-01 05:30", "2026-11-02 06:30"]),
        (
            "0,30 0-2 * * *",
            "America/New_York",
            "2026-11-01 05:00",
            ["2026-11-01 05:30", "2026-11-01 07:00", "2026-11-01 07:30", "2026-11-02 05:00"],
        ),
        (
            "*/30 * * * *",
            "America/New_York",
            "2026-11-01 05:00",
            ["2026-11-01 05:30", "2026-11-01 06:00", "2026-11-01 06:30", "2026-11-01 07:00"],
        ),
        (
            "0 */2 * * *",
            "America/New_York",
            NEW_YORK_GAP,
            ["2026-03-08 08:00", "2026-03-08 10:00"],
        ),
        (
            "0 0-23 * * *",
            "America/New_York",
            "2026-11-01 04:00",
            ["2026-11-01 05:00", "2026-11-01 06:00", "2026-11-01 07:00"],
        ),
        # Two hours come again in Troll, and in them a time that was long past.
        (
            "0 */5,1 * * *",
            "Antarctica/Troll",
            "2026-10-24 23:00",
            ["2026-10-25 01:00", "2026-10-25 05:00"],
        ),
        # Half an hour, at Lord Howe: 02:00-02:30 is skipped.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03 13:00", ["2026-10-03 15:30"]),
        # A midnight that is skipped.
        ("0 0 * * *", "America/Sao_Paulo", "2018-11-03 04:00", ["2018-11-04 03:00"]),
        # A whole day that is skipped: the 30th of December 2011 in Samoa.
        ("0 9 30 * *", "Pacific/Apia", "2011-12-01 00:00", ["2011-12-30 10:00"]),
        ("0 * 30 * *", "Pacific/Apia", "2011-12-02 00:00", ["2012-01-29 10:00"]),
        ("0 * 29 12 * 0 2011", "Pacific/Apia", "2011-12-30 09:30", []),
    ],
)
def test_what_fires_when_the_clocks_change(
    text: str, zone: str, after: str, expected: list[str]
) -> None:
    assert following(cron(text, zone), after, len(expected) or 1) == expected


@given(st.randoms(use_true_random=False), st.sampled_from(ZONES), st.data())
@settings(steady, max_examples=60)
def test_seconds_around_a_change_are_those_of_the_oracle(
    rng: Random, zone: str, data: st.DataObject
) -> None:
    instants = [at for at in changes(zone) if zone != "Pacific/Apia" or at.year > 2011]
    if not instants:
        return
    middle = data.draw(st.sampled_from(instants))
    start, end = middle - timedelta(hours=5), middle + timedelta(hours=5)
    spec = make(rng, seconds=True).spec
    expected = fire_times(spec, zone, start, end, step=1)
    after = start + timedelta(hours=2, seconds=data.draw(st.integers(0, 6 * 3600)))
    index = bisect_right(expected, after)
    if index < len(expected):
        assert parse_trigger("cron", spec.text, zone).next(after) == expected[index]


@given(st.randoms(use_true_random=False), st.sampled_from(ZONES), st.integers(0, 60 * 86400 * 365))
@settings(steady, max_examples=300)
def test_fire_times_increase_and_do_not_depend_on_the_start(
    rng: Random, zone: str, seconds: int
) -> None:
    start = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    try:
        trigger = cron(make(rng).spec.text, zone)
    except TriggerError:
        return
    at, second = start, timedelta(seconds=1)
    for _ in range(5):
        found = trigger.next(at)
        assert found is not None
        assert found > at
        between = at + (found - at) * rng.random()
        assert trigger.next(min(between, found - second / 1000)) == found
        assert trigger.next(found - second) == found
        at = found


def test_times_after_the_last_year_and_before_the_first() -> None:
    for zone in ZONES:
        for text in ("* * * * *", "0 0 * * *", "0 0 29 2 *"):
            trigger = cron(text, zone)
            assert trigger.next(datetime.max.replace(tzinfo=UTC)) is None
            assert trigger.next(datetime(9998, 11, 30, tzinfo=UTC)) is None or text != "0 0 29 2 *"
            assert trigger.next(datetime.min.replace(tzinfo=UTC)) is not None


def test_an_instant_need_not_be_in_utc() -> None:
    east = timezone(timedelta(hours=5))
    assert cron("0 12 * * *").next(datetime(2026, 1, 1, 16, 59, tzinfo=east)) == datetime(
        2026, 1, 1, 12, tzinfo=UTC
    )


def test_no_zone_changes_twice_within_what_the_search_takes_for_near() -> None:
    for name in available_timezones():
        found = TransparentZoneInfo(name)._trans_utc
        gaps = [b - a for a, b in pairwise(found) if a > -(2**31)]
        assert min(gaps, default=2**31) > _NEAR.total_seconds(), name


def test_a_local_time_stands_for_one_instant() -> None:
    zone = find_zone("America/New_York")
    gap, fold = "2026-03-08T02:30:15.000007", "2026-11-01T01:30:00"
    assert to_instant(datetime.fromisoformat(gap), zone) == datetime(2026, 3, 8, 7, tzinfo=UTC)
    assert to_instant(datetime.fromisoformat(fold), zone) == datetime(
        2026, 11, 1, 5, 30, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "Europe/Nowhere",
        "Berlin",
        "utc+1",
        "localtime",
        "posixrules",
        "Factory",
        "posix/Europe/Berlin",
        "right/Europe/Berlin",
        "America",
        "/usr/share/zoneinfo/UTC",
        "/etc/localtime",
        "../UTC",
        "Europe/../UTC",
        "Europe//Berlin",
        "Europe/Berlin\n",
        "UTC\0",
        "Европа/Берлин",
        "zone.tab",
        "leapseconds",
        "A" * 300,
    ],
)
@pytest.mark.parametrize("kind", ["cron", "interval"])
def test_a_zone_that_is_none_is_refused(kind: str, name: str) -> None:
    with pytest.raises(TriggerError) as refused:
        parse_trigger(kind, "* * * * *" if kind == "cron" else "1", name)
    assert repr(name[:64]) in str(refused.value)
