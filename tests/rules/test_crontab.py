import json
from datetime import datetime, timedelta
from random import Random

import pytest
from celery import Celery
from celery.schedules import crontab as celery_crontab
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.trigger import parse_trigger
from tests.rules.oracle import UTC
from tests.rules.test_cron import following, steady

RANGES = {
    "minute": (0, 59),
    "hour": (0, 23),
    "day_of_week": (0, 6),
    "day_of_month": (1, 31),
    "month_of_year": (1, 12),
}
APP = Celery(set_as_current=False)
APP.conf.timezone = "UTC"


def field(rng: Random, low: int, high: int) -> str | int:
    first, last, step = rng.randint(low, high), rng.randint(low, high), rng.randint(1, 9)
    texts = ("*", f"*/{step}", f"{first}", f"{first}-{last}", f"{first}-{last}/{step}")
    kind = rng.randrange(7)
    if kind == 6:
        return first
    return f"{texts[1]},{texts[3]}" if kind == 5 else texts[kind]


@given(st.randoms(use_true_random=False), st.integers(0, 60 * 86400 * 365))
@settings(steady, max_examples=400)
def test_it_fires_when_celerys_own_does(rng: Random, seconds: int) -> None:
    chosen = rng.sample(sorted(RANGES), rng.randint(0, 5))
    fields = {name: field(rng, *RANGES[name]) for name in chosen}
    at = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    try:
        theirs = celery_crontab(**fields, app=APP)
    except ValueError:
        with pytest.raises(TriggerError):
            parse_trigger("crontab", json.dumps(fields))
        return
    trigger = parse_trigger("crontab", json.dumps(fields))
    for _ in range(4):
        last, delta, _ = theirs.remaining_delta(at)
        found = trigger.next(at)
        assert found == last + delta
        assert found is not None
        at = found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", ["2026-01-01 00:01", "2026-01-01 00:02"]),
        ('{"minute": 5, "hour": "5-5"}', ["2026-01-01 05:05", "2026-01-02 05:05"]),
        (
            '{"minute": "0", "hour": 0, "day_of_month": 13, "day_of_week": "fri"}',
            ["2026-02-13 00:00"],
        ),
        ('{"minute": "55-5/3", "hour": "1"}', ["2026-01-01 01:01", "2026-01-01 01:04"]),
        ('{"minute": 0, "hour": 0, "month_of_year": "march"}', ["2026-03-01 00:00"]),
    ],
)
def test_it_fires(text: str, expected: list[str]) -> None:
    assert following(parse_trigger("crontab", text), "2026-01-01 00:00", len(expected)) == expected


def test_the_hour_decides_what_happens_when_the_clocks_change() -> None:
    fixed = parse_trigger("crontab", '{"minute": 30, "hour": 1}', "America/New_York")
    through = parse_trigger("crontab", '{"minute": 30}', "America/New_York")
    written_out = parse_trigger("crontab", '{"minute": 30, "hour": "0-23"}', "America/New_York")
    assert following(fixed, "2026-11-01 05:00", 2) == ["2026-11-01 05:30", "2026-11-02 06:30"]
    for trigger in (through, written_out):
        assert following(trigger, "2026-11-01 05:00", 2) == ["2026-11-01 05:30", "2026-11-01 06:30"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not JSON"),
        ("* * * * *", "is not JSON"),
        ('{"minute": "*"', "is not JSON"),
        ("[" * 400, "is not JSON"),
        ("[]", "is not a JSON object"),
        ("5", "is not a JSON object"),
        ("null", "is not a JSON object"),
        ('{"second": 1}', "no field 'second', allowed are minute, hour"),
        ('{"minute": null}', "minute None has to be text"),
        ('{"minute": true}', "minute True has to be text"),
        ('{"minute": 1.5}', "minute 1.5 has to be text"),
        ('{"minute": [1]}', "minute [1] has to be text"),
        ('{"minute": 60}', "minute 60 is not understood"),
        ('{"minute": -1}', "minute -1 is not understood"),
        ('{"minute": ""}', "minute '' is not understood"),
        ('{"minute": "*/0"}', "minute '*/0' is not understood"),
        ('{"minute": "1,"}', "minute '1,' is not understood"),
        ('{"hour": "24"}', "hour '24' is not understood"),
        ('{"day_of_week": "7"}', "day_of_week '7' is not understood"),
        ('{"day_of_month": 0}', "day_of_month 0 is not understood"),
        ('{"month_of_year": "L"}', "month_of_year 'L' is not understood"),
        ('{"minute": "\\u0663"}', "has to be text"),
        ('{"minute": "' + "9" * 5000 + '"}', "at most 500"),
        ('{"minute": "٣"}', "ASCII"),
        ('{"day_of_month": 30, "month_of_year": 2}', "never fires"),
    ],
)
def test_it_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(TriggerError) as refused:
        parse_trigger("crontab", text)
    assert why in str(refused.value)


@given(st.text("0123456789*/,-_monfrijan ", max_size=12))
@steady
def test_any_field_is_read_or_refused(text: str) -> None:
    try:
        trigger = parse_trigger("crontab", json.dumps({"minute": text}))
    except TriggerError:
        return
    assert trigger.next(datetime(2026, 1, 1, tzinfo=UTC)) is not None
