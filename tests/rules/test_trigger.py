import dataclasses
import pickle
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import KINDS, Trigger, Walk, parse_trigger
from tests.rules.oracle import UTC
from tests.rules.test_cron import steady

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONE_OF_EACH = {
    "cron": "*/7 1-3 * * *",
    "crontab": '{"minute": "*/7"}',
    "interval": "0.7",
    "rrule": "FREQ=MINUTELY;INTERVAL=7;BYHOUR=1,2,3",
    "solar": "sunrise 52.52 13.40",
    "once": "2026-01-01T00:00:01Z",
}


def test_there_is_one_of_each() -> None:
    assert tuple(sorted(ONE_OF_EACH)) == tuple(sorted(KINDS))


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_value(kind: str) -> None:
    trigger = parse_trigger(kind, ONE_OF_EACH[kind], "Europe/London")
    assert trigger is parse_trigger(kind, ONE_OF_EACH[kind], "Europe/London")
    assert pickle.loads(pickle.dumps(trigger)) == trigger  # noqa: S301
    name = next(field.name for field in dataclasses.fields(trigger))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        setattr(trigger, name, None)


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("cron", " 05 9  ? jan-MAR mon-fri ", "5 9 * 1-3 1-5"),
        ("cron", "@daily", "0 0 * * *"),
        ("cron", "*/1 h/2 L,w15 * FRIL 00 *", "* H/2 L,W15 * 5L"),
        ("cron", "0 0 * * * 30 *", "0 0 * * * 30"),
        ("cron", "0 0 1 1 * 0 2030", "0 0 1 1 * 0 2030"),
        ("crontab", '{"hour": 9, "day_of_week": "Mon", "minute": "*"}', None),
        ("interval", "0.50", "0.5"),
        ("interval", "1.5 Hours", "5400"),
        ("interval", "2 weeks", "1209600"),
        ("interval", "1 year", "12 months"),
        ("interval", "1month", "1 month"),
        ("rrule", "rrule:byday=MO;wkst=mo;interval=1;freq=weekly;", "RRULE:FREQ=WEEKLY;BYDAY=MO"),
        (
            "rrule",
            "EXDATE:20260112\nFREQ=DAILY\nDTSTART;TZID=Europe/Berlin:20260101",
            "DTSTART;TZID=Europe/Berlin:20260101\nRRULE:FREQ=DAILY\nEXDATE:20260112",
        ),
        ("solar", " sunset  52.50 -13.4", "sunset 52.5 -13.4"),
        ("once", "2030-01-31 09:30+01", "2030-01-31T08:30:00+00:00"),
    ],
)
def test_there_is_one_form_that_means_the_same(kind: str, text: str, expected: str | None) -> None:
    trigger = parse_trigger(kind, text, "Europe/London", name="n")
    assert trigger.canonical == (expected or '{"hour": "9", "day_of_week": "mon"}')
    again = parse_trigger(kind, trigger.canonical, "Europe/London", name="n")
    assert again.canonical == trigger.canonical
    assert again == trigger


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_too_long_is_refused_at_once(kind: str) -> None:
    with pytest.raises(TriggerError, match="has 10000000 characters: at most 10000 are allowed"):
        parse_trigger(kind, "1" * 10_000_000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "text", ["", "\0", "x\0y", "0" * 10_000, "٣", "[" * 9_999, "🕛", "{}" * 99]
)
def test_nonsense_is_refused_with_its_kind_and_value(kind: str, text: str) -> None:
    with pytest.raises(TriggerError) as refused:
        parse_trigger(kind, text)
    assert str(refused.value).startswith(f"{kind} ")
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("kind", KINDS)
def test_fire_times_are_in_utc_and_end_before_time_does(kind: str) -> None:
    trigger = parse_trigger(kind, ONE_OF_EACH[kind], "Asia/Kathmandu")
    found = trigger.next(NOW)
    assert found is not None
    assert found.tzinfo is UTC
    assert found > NOW
    assert trigger.next(datetime.max.replace(tzinfo=UTC)) is None
    trigger.next(datetime.min.replace(tzinfo=UTC))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("limit", [1, 2, 30])
@pytest.mark.parametrize("hours", [0, 1, 30])
def test_a_walk_is_as_stepping(kind: str, limit: int, hours: int) -> None:
    trigger = parse_trigger(kind, ONE_OF_EACH[kind], "Europe/London", NOW)
    first = trigger.next(NOW)
    assert first is not None
    until = first + timedelta(hours=hours)
    assert trigger.walk(first, until, limit) == stepped(trigger, first, until, limit)


@pytest.mark.parametrize("kind", KINDS)
def test_instants_may_come_in_any_zone(kind: str) -> None:
    trigger = parse_trigger(kind, ONE_OF_EACH[kind], "UTC")
    new_york = ZoneInfo("America/New_York")
    start = datetime(2025, 11, 2, 4, 30, tzinfo=UTC)
    for minutes in range(0, 180, 7):
        at = start + timedelta(minutes=minutes)
        assert trigger.next(at.astimezone(new_york)) == trigger.next(at)
    first = trigger.next(start)
    assert first is not None
    until = start + timedelta(days=1)
    if first < until:
        walk = trigger.walk(first.astimezone(new_york), until.astimezone(new_york), 10**6)
        assert walk == trigger.walk(first, until, 10**6)
        assert walk.last.tzinfo is UTC


def stepped(trigger: Trigger, first: datetime, until: datetime, limit: int) -> Walk:
    times: list[datetime | None] = [first]
    while (last := times[-1]) is not None and last <= until and len(times) <= limit:
        times.append(trigger.next(last))
    following, inside = times[-1], [at for at in times[:-1] if at is not None]
    return Walk(len(inside), inside[-1], following)


@pytest.mark.parametrize(
    ("kind", "expression", "zone", "why"),
    [
        ("rule", "x", "UTC", "kind 'rule' is not known: allowed are cron"),
        ("", "x", "UTC", "kind '' is not known"),
        (None, "x", "UTC", "kind None is not allowed"),
        ("cron", 5, "UTC", "expression 5 is not allowed"),
        ("cron", ["*"], "UTC", "expression ['*'] is not allowed"),
        ("cron", "* * * * *", None, "timezone None is not allowed"),
    ],
)
def test_what_is_no_trigger_is_refused(kind: str, expression: str, zone: str, why: str) -> None:
    with pytest.raises(TriggerError) as refused:
        parse_trigger(kind, expression, zone)
    assert why in str(refused.value)


@given(
    st.decimals("0.1", "100000", places=6),
    st.integers(0, 70 * 365 * 86400 * 10**6),
    st.integers(0, 70 * 365 * 86400 * 10**6),
    st.integers(1, 50),
)
@steady
def test_an_interval_counts_from_its_anchor(
    every: object, start_in: int, at_in: int, limit: int
) -> None:
    origin = datetime(1990, 1, 1, tzinfo=UTC)
    start, at = (origin + timedelta(microseconds=n) for n in (start_in, at_in))
    trigger = parse_trigger("interval", str(every), "UTC", start)
    found = trigger.next(at)
    assert found is not None
    step = timedelta(seconds=int(str(every).split(".")[0]), microseconds=int(str(every)[-6:]))
    assert (found - start) % step == timedelta(0)
    if at < start:
        assert found == start
    else:
        assert timedelta(0) < found - at <= step
    until = found + step * 20
    assert trigger.walk(found, until, limit) == stepped(trigger, found, until, limit)
    # From between two fire times as well: a cursor may stand where an edited schedule never fires.
    assert trigger.walk(at, at + step * 20, limit) == stepped(trigger, at, at + step * 20, limit)


def test_an_interval_without_a_start_counts_from_the_epoch() -> None:
    trigger = parse_trigger("interval", "86400")
    assert trigger.next(NOW) == NOW + timedelta(days=1)
    assert trigger.next(NOW - timedelta(microseconds=1)) == NOW
    assert parse_trigger("interval", " 0.50 ").next(NOW) == NOW + timedelta(seconds=0.5)


def test_an_interval_is_counted_at_once() -> None:
    trigger = parse_trigger("interval", "0.1")
    walk = trigger.walk(NOW, NOW + timedelta(days=36500), 10**12)
    assert walk.count == 36500 * 864000 + 1
    assert walk.last == NOW + timedelta(days=36500)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "0.0",
        "-1",
        "0.09",
        "0.0000001",
        "1.0000001",
        "nan",
        "inf",
        "-inf",
        "1e3",
        "1_000",
        "0x10",
        "1,5",
        ".5",
        "5.",
        "1 s",
        "+1",
        "٣",
        "1\0",
        "3155760001",
        "99999999999",
        "9" * 5000,
    ],
)
def test_an_interval_is_refused(text: str) -> None:
    with pytest.raises(TriggerError) as refused:
        parse_trigger("interval", text)
    assert repr(text[:60]) in str(refused.value)
    assert "from 0.1 to 3155760000" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        "0 months",
        "1.5 months",
        "1201 months",
        "101 years",
        "99999999999999 years",
        "-1 month",
        "5218 weeks",
        "9999999999 weeks",
        "0.0000001 weeks",
        "0.09 seconds",
        "month",
        "1 month 2 days",
        "1 decade",
        "1 m",
    ],
)
def test_an_interval_with_a_unit_is_refused(text: str) -> None:
    with pytest.raises(TriggerError, match="or a whole number of months or years, up to 100 years"):
        parse_trigger("interval", text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90 seconds", 90),
        ("0.1 second", 0.1),
        ("5 minutes", 300),
        ("1.5 hours", 5400),
        ("1 Day", 86400),
        ("2weeks", 1209600),
    ],
)
def test_units_up_to_weeks_are_so_many_seconds(text: str, seconds: float) -> None:
    assert parse_trigger("interval", text) == parse_trigger("interval", str(seconds))


def test_a_start_without_an_offset_is_refused() -> None:
    with pytest.raises(TriggerError, match="start_at 2026-01-01T00:00:00 has no UTC offset"):
        parse_trigger("interval", "1", "UTC", NOW.replace(tzinfo=None))


def test_a_start_in_another_zone_is_the_same_anchor() -> None:
    east = NOW.astimezone(timezone(timedelta(hours=5)))
    found = parse_trigger("interval", "7", "UTC", east).next(NOW - timedelta(days=1))
    assert found == NOW
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2030-01-31T09:30:00Z", "America/New_York", "2030-01-31 09:30:00"),
        ("2030-01-31T09:30:00+01:00", "UTC", "2030-01-31 08:30:00"),
        ("2030-01-31 09:30:00+00", "UTC", "2030-01-31 09:30:00"),
        ("2030-01-31t09:30-0530", "UTC", "2030-01-31 15:00:00"),
        ("2030-01-31T09:30:00.25z", "UTC", "2030-01-31 09:30:00.250000"),
        ("2030-01-31T09:30", "America/New_York", "2030-01-31 14:30:00"),
        ("2026-03-08T02:30:00", "America/New_York", "2026-03-08 07:00:00"),
        ("2026-11-01T01:30:00", "America/New_York", "2026-11-01 05:30:00"),
    ],
)
def test_once_fires_once(text: str, zone: str, expected: str) -> None:
    at = datetime.fromisoformat(expected).replace(tzinfo=UTC)
    trigger = parse_trigger("once", text, zone)
    assert trigger.next(at - timedelta(microseconds=1)) == at
    assert trigger.next(at) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tomorrow",
        "2030-01-31",
        "2030-02-30T00:00:00Z",
        "2030-01-31T24:00:00Z",
        "2030-01-31T09:60:00Z",
        "2030-01-31T09:30:60Z",
        "2030-01-31T09:30:00+24:00",
        "2030-01-31T09:30:00+01:60",
        "2030-01-31T09:30:00.1234567Z",
        "2030-01-31T09:30:00 UTC",
        "0001-01-01T00:00:00+23:00",
        "9999-12-31T23:59:59-23:00",
        "9999-01-01T00:00:00Z",
        "0001-01-01T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "20300131T093000Z",
        "٢٠٣٠-01-31T09:30:00Z",
        "2030-01-31T09:30:00Z\0",
        "9" * 5000,
    ],
)
def test_once_is_refused(text: str) -> None:
    with pytest.raises(TriggerError) as refused:
        parse_trigger("once", text)
    assert f"once {text[:60]!r} is not an instant" in str(refused.value)


@settings(steady, max_examples=20)
@given(st.integers(0, 10**9))
def test_a_walk_and_its_following_fit_together(seconds: int) -> None:
    start = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    trigger = parse_trigger("cron", "*/7 1-3 * * *", "Europe/London")
    times = [start]
    for _ in range(20):
        times.append(trigger.next(times[-1]) or start)
    assert all(a < b for a, b in pairwise(times))
    assert trigger.walk(times[1], times[19], 100) == Walk(19, times[19], times[20])
