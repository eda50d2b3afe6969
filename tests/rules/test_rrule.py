"""Recurrence rules: dateutil says which local times they mean."""

from datetime import datetime, timedelta
from random import Random
from time import perf_counter

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import Trigger, parse_trigger
from tests.rules.oracle import UTC
from tests.rules.rules import make_rule
from tests.rules.test_cron import following, steady

FAR = timedelta(days=900)


def rule(text: str, zone: str = "UTC", start_at: datetime | None = None) -> Trigger:
    return parse_trigger("rrule", text, zone, start_at)


@given(st.randoms(use_true_random=False))
@settings(steady, max_examples=200)
def test_local_times_are_those_of_dateutil(rng: Random) -> None:
    at = datetime(2026, 1, 1) + timedelta(minutes=rng.randrange(60 * 24 * 400))  # noqa: DTZ001
    text = make_rule(rng, at)
    try:
        trigger = rule(text)
    except TriggerError:
        return  # never fires: theirs would not come back
    found: list[datetime] = []
    after: datetime | None = at.replace(tzinfo=UTC)
    while len(found) < 4 and after and (after := trigger.next(after)):
        found.append(after.replace(tzinfo=None))
    if not found or found[-1] > at + FAR:
        return  # that takes theirs too long
    theirs = []
    for time in rrulestr(text).xafter(at):
        theirs.append(time)
        if len(theirs) == len(found):
            break
    assert theirs == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FREQ=DAILY;BYHOUR=9", ["2026-01-01 09:00", "2026-01-02 09:00"]),
        ("RRULE:FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9", ["2026-01-05 09:00", "2026-01-07 09:00"]),
        # Without DTSTART from 1970-01-01, a Thursday.
        ("FREQ=WEEKLY", ["2026-01-08 00:00", "2026-01-15 00:00"]),
        ("FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17", ["2026-01-30 17:00", "2026-02-27 17:00"]),
        ("FREQ=MONTHLY;BYDAY=MO,2TU", ["2026-01-05 00:00", "2026-01-12 00:00"]),
        ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", ["2026-01-30 00:00", "2026-02-27 00:00"]),
        ("FREQ=MONTHLY;BYMONTHDAY=31", ["2026-01-31 00:00", "2026-03-31 00:00"]),
        ("FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", ["2026-05-11 00:00", "2027-05-17 00:00"]),
        ("FREQ=YEARLY;BYYEARDAY=-1", ["2026-12-31 00:00", "2027-12-31 00:00"]),
        (
            "DTSTART:20260101T090000\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260102T090000",
            ["2026-01-01 09:00", "2026-01-03 09:00"],
        ),
        (
            "DTSTART:20260101T090000\r\nRRULE:FREQ=DAILY;UNTIL=20260103T\r\n 090000\r\n",
            ["2026-01-01 09:00", "2026-01-02 09:00", "2026-01-03 09:00"],
        ),
        ("DTSTART:20260101T000100 FREQ=DAILY;UNTIL=20260102", ["2026-01-01 00:01"]),
        (
            "DTSTART;VALUE=DATE:20260101\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE;VALUE=DATE:20260102,20260103",
            ["2026-01-04 00:00"],
        ),
        (
            "DTSTART:20260101T060000\nFREQ=HOURLY;INTERVAL=6;COUNT=9\nEXDATE:20260102",
            ["2026-01-01 06:00", "2026-01-01 12:00", "2026-01-01 18:00", "2026-01-03 00:00"],
        ),
        ("FREQ=MINUTELY;INTERVAL=1000", ["2026-01-01 04:00", "2026-01-01 20:40"]),
    ],
)
def test_a_rule_fires(text: str, expected: list[str]) -> None:
    found = following(rule(text), "2026-01-01 00:00", 4)
    assert found[: len(expected)] == expected
    if "COUNT=3" in text or "UNTIL" in text:
        assert found == expected


def test_without_dtstart_it_begins_at_the_schedules_start() -> None:
    start = datetime(2026, 1, 5, 14, 30, 0, 5, tzinfo=UTC)
    trigger = rule("FREQ=WEEKLY;INTERVAL=2;COUNT=2", "America/New_York", start)
    # A second later, as rules have whole ones.
    assert following(trigger, "2026-01-01 00:00", 3) == [
        "2026-01-05 14:30:01",
        "2026-01-19 14:30:01",
    ]
    with_its_own = rule("DTSTART:20260601T080000\nFREQ=DAILY", "UTC", start)
    assert following(with_its_own, "2026-01-01 00:00", 1) == ["2026-06-01 08:00"]


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("FREQ=DAILY;BYHOUR=2;BYMINUTE=30", "2026-03-08 05:00", ["2026-03-08 07:00"]),
        ("FREQ=DAILY;BYHOUR=1", "2026-11-01 04:00", ["2026-11-01 05:00", "2026-11-02 06:00"]),
        ("FREQ=HOURLY", "2026-11-01 04:30", ["2026-11-01 05:00", "2026-11-01 06:00"]),
        (
            "FREQ=HOURLY;BYHOUR=1,2",
            "2026-11-01 04:30",
            ["2026-11-01 05:00", "2026-11-01 07:00"],
        ),
        # A zone of its own counts, and not the schedule's.
        (
            "DTSTART;TZID=Europe/Berlin:20260101T090000\nFREQ=DAILY",
            "2026-06-01 00:00",
            ["2026-06-01 07:00"],
        ),
        ("DTSTART:20260101T090000Z\nFREQ=DAILY", "2026-06-01 00:00", ["2026-06-01 09:00"]),
        (
            "DTSTART:20260101T090000\nFREQ=DAILY;UNTIL=20260102T140000Z",
            "2026-01-01 00:00",
            ["2026-01-01 14:00", "2026-01-02 14:00"],
        ),
    ],
)
def test_local_times_are_those_of_a_zone(text: str, after: str, expected: list[str]) -> None:
    found = following(rule(text, "America/New_York"), after, 3)
    assert found[: len(expected)] == expected
    assert len(found) == (len(expected) if "UNTIL" in text else 3)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has 0 rules"),
        ("DTSTART:20260101T090000", "has 0 rules and 1 DTSTART"),
        ("FREQ=DAILY\nFREQ=DAILY", "has 2 rules"),
        ("DTSTART:20260101,20260102\nFREQ=DAILY", "1 rules and 2 DTSTART"),
        ("FREQ=SECONDLY", "FREQ 'SECONDLY' is not allowed: allowed are YEARLY, MONTHLY"),
        ("BYDAY=MO", "FREQ None is not allowed"),
        ("FREQ=DAILY;INTERVAL=0", "INTERVAL '0' is not allowed: 1 to 10000 are"),
        ("FREQ=DAILY;INTERVAL=-1", "INTERVAL '-1'"),
        ("FREQ=DAILY;INTERVAL=10001", "INTERVAL '10001'"),
        ("FREQ=DAILY;COUNT=0", "COUNT '0' is not allowed: 1 to 10000 are"),
        ("FREQ=DAILY;COUNT=3", "COUNT and no beginning: it needs DTSTART, or start_at"),
        ("FREQ=DAILY;COUNT=3;UNTIL=20270101", "both COUNT and UNTIL"),
        ("FREQ=DAILY;FREQ=DAILY", "'FREQ=DAILY' is not understood"),
        ("FREQ=DAILY;BYEASTER=0", "'BYEASTER=0' is not understood: allowed are FREQ"),
        ("FREQ=DAILY;BYHOUR", "'BYHOUR' is not understood"),
        ("FREQ=DAILY;BYHOUR=24", "BYHOUR '24' is not allowed: 0 to 23 are"),
        ("FREQ=DAILY;BYHOUR=", "BYHOUR '' is not allowed"),
        ("FREQ=DAILY;BYHOUR=٣", "BYHOUR '٣' is not allowed"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "BYMONTHDAY 0 is not allowed"),
        ("FREQ=MONTHLY;BYSETPOS=367", "BYSETPOS '367'"),
        ("FREQ=MONTHLY;BYDAY=XX", "BYDAY 'XX' is not understood"),
        ("FREQ=MONTHLY;BYDAY=54MO", "BYDAY '54MO' is not understood"),
        ("FREQ=WEEKLY;BYDAY=2MO", "BYDAY '2MO' has a number"),
        ("FREQ=WEEKLY;WKST=XX", "WKST 'XX'"),
        ("FREQ=DAILY;UNTIL=tomorrow", "UNTIL 'TOMORROW' is not understood"),
        ("FREQ=DAILY;UNTIL=20260230", "UNTIL '20260230' is not understood"),
        ("DTSTART:99990101\nFREQ=DAILY", "DTSTART '99990101'"),
        ("DTSTART:18991231\nFREQ=DAILY", "from 1900 to 9998"),
        ("DTSTART;TZID=Mars/Base:20260101\nFREQ=DAILY", "timezone 'Mars/Base' is not known"),
        ("DTSTART;TZID=UTC:20260101T000000Z\nFREQ=DAILY", "in at most one zone"),
        ("DTSTART;VALUE=DATE:20260101T000000\nFREQ=DAILY", "DTSTART '20260101T000000'"),
        ("DTSTART;X=Y:20260101\nFREQ=DAILY", "DTSTART 'X=Y' is not understood"),
        ("RDATE:20260101\nFREQ=DAILY", "'RDATE:20260101' is not understood"),
        ("EXRULE:FREQ=DAILY\nFREQ=DAILY", "is not understood"),
        ("FREQ=DAILY\0", "is not"),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
        ("FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30", "never fires"),
        ("DTSTART:20260101T000000\nFREQ=HOURLY;INTERVAL=2;BYHOUR=1", "never fires"),
        ("DTSTART:20260101\nFREQ=DAILY;UNTIL=20251231", "never fires"),
        ("DTSTART:20260101\nFREQ=DAILY;COUNT=1\nEXDATE:20260101", "never fires"),
        ("FREQ=DAILY\nEXDATE:" + ",".join(["20260101T090000"] * 100_000), "at most 10000"),
        (
            "FREQ=DAILY;BYHOUR=0;BYMINUTE={0};BYSECOND={0}".format(",".join(map(str, range(60)))),
            "names 3600 times a day: at most 1440",
        ),
    ],
)
def test_a_rule_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(TriggerError) as refused:
        rule(text)
    assert why in str(refused.value)
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=WEEKLY;BYMONTH=2;BYMONTHDAY=30;BYSETPOS=1",
        "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=300",
        "FREQ=DAILY;INTERVAL=9999;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=YEARLY;INTERVAL=10000;BYYEARDAY=366",
        "FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6",
        "FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6;BYSETPOS=1",
        "FREQ=MINUTELY;INTERVAL=9973;BYHOUR=3;BYMINUTE=7;BYMONTH=2;BYMONTHDAY=29",
        "DTSTART:20260101T000000\nFREQ=HOURLY;INTERVAL=8784;BYHOUR=1",
        "DTSTART:19000101T000000\nFREQ=YEARLY;COUNT=10000",
    ],
)
def test_looking_for_what_hardly_ever_comes_does_not_take_long(text: str) -> None:
    began = perf_counter()
    try:
        rule(text).next(datetime(2026, 1, 1, tzinfo=UTC))
    except TriggerError as error:
        assert "never fires" in str(error)  # noqa: PT017 - either is right
    assert perf_counter() - began < 2


@given(st.text("FREQ=DAILYWKUNTMOS;:,-0123BHTZX\n /\0", max_size=60))
@steady
def test_any_text_is_read_or_refused(text: str) -> None:
    for prefix in ("", "FREQ=MONTHLY;", "DTSTART:20260101T090000\nRRULE:FREQ=HOURLY;"):
        try:
            trigger = rule(prefix + text, "Europe/London")
        except TriggerError:
            continue
        trigger.next(datetime(2026, 1, 1, tzinfo=UTC))


@given(st.randoms(use_true_random=False), st.sampled_from(["UTC", "America/New_York"]))
@settings(steady, max_examples=150)
def test_fire_times_do_not_depend_on_the_start(rng: Random, zone: str) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=rng.randrange(60 * 24 * 400))
    try:
        trigger = rule(make_rule(rng, at.replace(tzinfo=None)), zone)
    except TriggerError:
        return
    for _ in range(4):
        found = trigger.next(at)
        if found is None:
            return
        assert found > at
        between = at + (found - at) * rng.random()
        assert trigger.next(min(between, found - timedelta(microseconds=1))) == found
        at = found
