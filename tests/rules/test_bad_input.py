"""What plain SQL lets through and no trigger can be: a row is invalid, with the reason on it."""

from datetime import datetime
from time import perf_counter
from uuid import UUID

import pytest

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.plan import plan
from celery_dbbeat.rules.preview import preview
from celery_dbbeat.rules.schedule import Cursor, Schedule
from tests.rules.oracle import UTC

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "expression", "timezone"),
    [
        ("cron", "0 0 30 2 *", "UTC"),
        ("cron", "H/99 * * * *", "UTC"),
        ("cron", "* * * * *", "Mars/Base"),
        ("cron", "* " * 5_000_000, "UTC"),
        ("cron", "* * * * *\0", "UTC"),
        ("crontab", '{"minute": "x"}', "UTC"),
        ("crontab", '{"day_of_month": 30, "month_of_year": 2}', "UTC"),
        ("interval", "0", "UTC"),
        ("interval", "0 months", "UTC"),
        ("interval", "1", "Mars/Base"),
        ("rrule", "FREQ=SECONDLY", "UTC"),
        ("rrule", "FREQ=DAILY;INTERVAL=0", "UTC"),
        ("rrule", "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30", "UTC"),
        ("rrule", "FREQ=DAILY\nEXDATE:" + ",".join(["20260101T000000"] * 100_000), "UTC"),
        ("solar", "sunrise 91 0", "UTC"),
        ("once", "9999-12-31T23:59:59Z", "UTC"),
        ("once", "tomorrow", "UTC"),
        ("weekly", "monday", "UTC"),
    ],
)
def test_it_is_refused_at_once_and_planned_as_invalid(
    kind: str, expression: str, timezone: str
) -> None:
    schedule = Schedule(UUID(int=1), 1, "s", "t", kind, expression, timezone)
    began = perf_counter()
    with pytest.raises(TriggerError) as refused:
        preview(schedule, 1, NOW)
    decided = plan(schedule, Cursor(None, NOW, replan_from=NOW), NOW)
    assert perf_counter() - began < 2
    assert (decided.ends, decided.reason) == ("invalid", str(refused.value))
    assert decided.cursor.due_at is None
    assert len(str(refused.value)) < 700
