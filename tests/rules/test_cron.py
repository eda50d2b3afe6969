from contextlib import suppress
from datetime import datetime, timedelta, timezone
from random import Random
from time import perf_counter

import pytest
from croniter import croniter
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import Trigger, parse_trigger
from tests.rules.expressions import make
from tests.rules.sweep import sweep

UTC = timezone.utc
steady = settings(derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))


def cron(text: str, zone: str = "UTC") -> Trigger:
    return parse_trigger("cron", text, zone)


def following(trigger: Trigger, after: str, count: int) -> list[str]:
    found, at = [], datetime.fromisoformat(after).replace(tzinfo=UTC)
    for _ in range(count):
        following = trigger.next(at)
        if following is None:
            break
        at = following
        found.append(f"{at:%Y-%m-%d %H:%M:%S}".removesuffix(":00"))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/20 * * * *", ["2026-01-01 00:20", "2026-01-01 00:40", "2026-01-01 01:00"]),
        ("30 9 * * mon-fri", ["2026-01-01 09:30", "2026-01-02 09:30", "2026-01-05 09:30"]),
        ("0 0 1,15 * *", ["2026-01-15 00:00", "2026-02-01 00:00", "2026-02-15 00:00"]),
        ("0 0 13 * FRI", ["2026-01-02 00:00", "2026-01-09 00:00", "2026-01-13 00:00"]),
        ("0 0 */10 * MON", ["2026-05-11 00:00", "2026-06-01 00:00", "2026-08-31 00:00"]),
        ("0 0 L * *", ["2026-01-31 00:00", "2026-02-28 00:00", "2026-03-31 00:00"]),
        ("0 0 31W * ?", ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-31 00:00"]),
        ("0 0 15W * MON", ["2026-01-05 00:00", "2026-01-12 00:00", "2026-01-15 00:00"]),
        ("0 0 1 * MON#2", ["2026-01-12 00:00", "2026-02-01 00:00", "2026-02-09 00:00"]),
        ("0 0 * * mon#2,fri", ["2026-01-02 00:00", "2026-01-09 00:00", "2026-01-12 00:00"]),
        ("0 0 ? * L5", ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-27 00:00"]),
        ("0 0 ? * FRIL", ["2026-01-30 00:00", "2026-02-27 00:00", "2026-03-27 00:00"]),
        ("0 0 29 2 *", ["2028-02-29 00:00", "2032-02-29 00:00", "2036-02-29 00:00"]),
        ("5-5 0 * * *", ["2026-01-01 00:05", "2026-01-02 00:05", "2026-01-03 00:05"]),
        ("0 0 * * sun-sun", ["2026-01-04 00:00", "2026-01-11 00:00", "2026-01-18 00:00"]),
        ("0 0 * * 0-7", ["2026-01-02 00:00", "2026-01-03 00:00", "2026-01-04 00:00"]),
        ("0 0 * * 6-7", ["2026-01-03 00:00", "2026-01-04 00:00", "2026-01-10 00:00"]),
        ("55-5/5 0 * * *", ["2026-01-01 00:05", "2026-01-01 00:55", "2026-01-02 00:00"]),
        ("0 22-2/2 * * *", ["2026-01-01 02:00", "2026-01-01 22:00", "2026-01-02 00:00"]),
        ("0 0 * * 7 30", ["2026-01-04 00:00:30", "2026-01-11 00:00:30", "2026-01-18 00:00:30"]),
        ("* * * * * */25", ["2026-01-01 00:00:25", "2026-01-01 00:00:50", "2026-01-01 00:01"]),
        ("0 0 1 1 * 0 2030,2040", ["2030-01-01 00:00", "2040-01-01 00:00"]),
        ("0 0 1 1 * 0 2020", []),
        ("@yearly", ["2027-01-01 00:00", "2028-01-01 00:00", "2029-01-01 00:00"]),
        (" @Hourly ", ["2026-01-01 01:00", "2026-01-01 02:00", "2026-01-01 03:00"]),
    ],
)
def test_an_expression_fires(text: str, expected: list[str]) -> None:
    # `0 0 15W * MON` and `0 0 1 * MON#2` are "or": croniter ignores one half, or never fires.
    assert following(cron(text), "2026-01-01 00:00", 3) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has 0 fields"),
        ("* * * *", "has 4 fields"),
        ("* * * * * * * *", "has 8 fields"),
        ("60 * * * *", "minute '60'"),
        ("* 24 * * *", "hour '24'"),
        ("* * 0 * *", "day of month '0'"),
        ("* * 0-5 * *", "day of month '0'"),
        ("* * 0 * * 0", "day of month '0'"),
        ("* * 32 * *", "day of month '32'"),
        ("* * * 13 *", "month '13'"),
        ("* * * 0 *", "month '0'"),
        ("* * * january *", "month 'january'"),
        ("* * * * 8", "day of week '8'"),
        ("* * * * mon#6", "day of week 'mon#6'"),
        ("* * * * mon#0", "day of week 'mon#0'"),
        ("* * * * L", "day of week 'l'"),
        ("* * * * foo", "day of week 'foo'"),
        ("* * 0W * *", "day of month '0'"),
        ("* * 1-5W * *", "day of month '1-5w'"),
        ("* * L-3 * *", "day of month 'l-3'"),
        ("* * * * * 60", "second '60'"),
        ("* * * * * * 1969", "year '1969'"),
        ("* * * * * * 2100", "year '2100'"),
        ("* * * * * * 2030-2029", "runs backwards"),
        ("*/0 * * * *", "step of 0"),
        ("? * * * *", "minute '?'"),
        ("1,, * * * *", "minute ''"),
        ("-1 * * * *", "minute '-1'"),
        ("1--2 * * * *", "minute '1--2'"),
        ("*-5 * * * *", "minute '*-5'"),
        ("R * * * *", "minute 'r'"),
        ("R(0-5) * * * *", "minute 'r(0-5)'"),
        ("$(0) * * * *", "characters"),
        ("H * * * *", "'h' is spread by the name of the schedule, and there is none"),
        ("H(0-60) * * * *", "minute 'h(0-60)' is out of range: allowed are a to b from 0 to 59"),
        ("H(9-3) * * * *", "the lower one first"),
        ("* * H(1-31) * *", "from 1 to 28"),
        ("H/0 * * * *", "minute 'h/0'"),
        ("H-5 * * * *", "minute 'h-5' is not understood: allowed are h, h/n, h(a-b)"),
        ("* * * * * * H", "year 'h'"),
        ("@reboot", "'@reboot' is not known: allowed are @yearly"),
        ("@daily *", "is not known"),
        ("٣ * * * *", "plain ASCII"),
        ("³ * * * *", "plain ASCII"),
        ("* * * * *\0", "plain ASCII"),
        ("0\u00a00 * * *", "plain ASCII"),
        ("9" * 5000 + " * * * *", "has 5008 characters: at most 200"),
        ("9" * 100 + " * * * *", "minute '999"),
        ("0 0 30 2 *", "never fires"),
        ("0 0 31 2,4,6,9,11 *", "never fires"),
        ("0 0 29 2 * 0 2026", "never fires"),
    ],
)
def test_an_expression_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(TriggerError) as refused:
        cron(text)
    assert why in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_day_that_a_zone_left_out_never_comes() -> None:
    with pytest.raises(TriggerError, match="never fires"):
        cron("* * 30 12 * 0 2011", "Pacific/Apia")


@given(st.text("0123456789*/,-#?@LWlwHRmonfri \t\0٣", max_size=30))
@steady
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        trigger = cron(text, "Europe/London")
    except TriggerError:
        return
    trigger.next(datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "zone"),
    [
        ("0 0 31 2,4,6,9,11 *", "UTC"),
        ("0 0 31 2,4,6,9,11 */8", "UTC"),
        ("0 */24 * 3 SUN#2", "America/Havana"),  # ever since a midnight that clocks skip
    ],
)
def test_looking_for_what_never_comes_does_not_take_long(text: str, zone: str) -> None:
    began = perf_counter()
    with suppress(TriggerError):
        assert cron(text, zone).next(datetime(2026, 1, 1, tzinfo=UTC)) is None
    assert perf_counter() - began < 0.5


@given(st.randoms(use_true_random=False), st.integers(0, 40 * 365 * 86400), st.sampled_from([5, 6]))
@settings(steady, max_examples=300)
def test_local_times_are_those_of_croniter_where_it_is_right(
    rng: Random, seconds: int, fields: int
) -> None:
    made = make(rng, seconds=fields == 6)
    start = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    if not made.plain:
        return
    theirs = croniter(made.spec.text, start, implement_cron_bug=True)
    try:
        expected = [theirs.get_next(datetime) for _ in range(4)]
    except ValueError:
        return
    trigger, found = cron(made.spec.text), [start]
    for _ in expected:
        found.append(trigger.next(found[-1]) or start)
    assert found[1:] == expected, made.spec.text


@pytest.mark.timeout(1200)
def test_random_expressions_around_changes_of_the_clocks(*, long_run: bool) -> None:
    assert sweep(seed=0, cases=100_000 if long_run else 1_000) == []
