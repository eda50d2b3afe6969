"""H in a cron expression."""

from collections import Counter
from datetime import datetime, timedelta

import pytest

from celery_dbbeat.rules.spread import Span, spread
from celery_dbbeat.rules.trigger import parse_trigger
from tests.rules.oracle import UTC
from tests.rules.test_cron import following

MINUTE = Span("minute", 0, 59)


def test_it_is_written_out_as_numbers() -> None:
    # Fixed for ever: other numbers would move every schedule that has an H.
    assert spread("h", MINUTE, "backup") == "52"
    assert spread("h/15", MINUTE, "backup") == "7-59/15"
    assert spread("h(0-29)", MINUTE, "backup") == "22"
    assert spread("h(30-59)/10,5", MINUTE, "backup") == "32-59/10,5"
    assert spread("mar", Span("month", 1, 12), "backup") == "mar"


def test_schedules_are_spread_evenly_and_hours_apart_from_minutes() -> None:
    times = Counter(
        parse_trigger("cron", "H H * * *", "UTC", name=f"schedule {n}").next(
            datetime(2026, 1, 1, tzinfo=UTC)
        )
        for n in range(2000)
    )
    assert len(times) > 1000
    assert max(times.values()) < 15


def test_the_same_name_has_the_same_time_each_day() -> None:
    trigger = parse_trigger("cron", "H H * * *", "UTC", name="backup")
    at = trigger.next(datetime(2026, 1, 1, tzinfo=UTC))
    assert at == datetime(2026, 1, 1, 16, 52, tzinfo=UTC)
    assert trigger.next(at) == at + timedelta(days=1)


def test_expressions_without_an_h_are_one_trigger_whatever_the_name() -> None:
    for text in ("0 3 * * thu", "@hourly"):
        one, other = (parse_trigger("cron", text, "UTC", name=name) for name in ("a", "b"))
        assert one is other
    assert parse_trigger("cron", "H 3 * * *", name="a") != parse_trigger(
        "cron", "H 3 * * *", name="b"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 H/2 * * *", ["2026-11-01 05:00", "2026-11-01 06:00", "2026-11-01 08:00"]),
        ("0 H(0-5)/2 * * *", ["2026-11-01 05:00", "2026-11-01 08:00", "2026-11-01 10:00"]),
    ],
)
def test_a_step_through_the_day_runs_through_a_change_of_the_clocks(
    text: str, expected: list[str]
) -> None:
    trigger = parse_trigger("cron", text, "America/New_York", name="b")
    assert following(trigger, "2026-11-01 04:30", 3) == expected
