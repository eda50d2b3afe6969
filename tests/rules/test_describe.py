"""What a schedule means in words."""

from dataclasses import replace
from datetime import datetime
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_dbbeat.errors import TriggerError
from celery_dbbeat.rules.describe import describe
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.trigger import KINDS
from tests.rules.expressions import make
from tests.rules.oracle import UTC
from tests.rules.rules import make_rule
from tests.rules.test_cron import steady
from tests.rules.test_trigger import ONE_OF_EACH

NEW_YORK = Schedule(UUID(int=1), 1, "backup", "t", "cron", "0 9 * * *", "America/New_York")
BERLIN = "DTSTART;TZID=Europe/Berlin:20260105T090000"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("0 9 * * mon-fri", "At 09:00, Monday to Friday"),
        ("0 9 * * *", "At 09:00 every day"),
        ("0 0 1-31 * MON", "At 00:00 every day"),
        ("30 8 * * sat,sun", "At 08:30, Saturday and Sunday"),
        ("0 9,12,17 1,15 * *", "At 09:00, 12:00 and 17:00, on the 1st and 15th of the month"),
        ("* * * * *", "Every minute"),
        ("*/5 * * * *", "Every 5 minutes"),
        ("2-59/5 * * * *", "Every 5 minutes, from 2 minutes past"),
        ("*/7 * * * *", "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"),
        ("0-5 * * * *", "At minutes 0 to 5 of every hour"),
        ("@hourly", "Every hour"),
        ("15 * * * *", "At 15 minutes past every hour"),
        ("1 * * * *", "At 1 minute past every hour"),
        ("0 */2 * * *", "Every 2 hours"),
        ("15 1/2 * * *", "Every 2 hours from 01:15"),
        ("0 */5 * * *", "At 00:00, 05:00, 10:00, 15:00 and 20:00 every day"),
        ("0 9-17 * * *", "Every hour from 09:00 to 17:00"),
        ("*/10 9-17 * * 1-5", "Every 10 minutes from 09:00 to 17:50, Monday to Friday"),
        ("* 3 * * *", "Every minute from 03:00 to 03:59"),
        ("5,10,20 3,4,7 * * *", "At minutes 5, 10 and 20 of hours 3, 4 and 7"),
        ("0 0 L * *", "At 00:00, on the last day of the month"),
        ("0 0 15W * ?", "At 00:00, on the working day nearest the 15th of the month"),
        ("0 0 13 * FRI", "At 00:00, on the 13th of the month or on Friday"),
        (
            "0 0 */10 * MON",
            "At 00:00, on the 1st, 11th, 21st and 31st of the month if that is Monday",
        ),
        ("0 0 * * mon#2,fri", "At 00:00, on Friday and the second Monday of the month"),
        ("0 0 ? * L5", "At 00:00, on the last Friday of the month"),
        ("0 0 1 1,7 * 0 2030", "At 00:00, on the 1st of the month, in January and July, in 2030"),
        ("0 0 22 6-8 *", "At 00:00, on the 22nd of the month, in June to August"),
        ("* * * * * *", "Every second"),
        ("* * * * * */10", "Every 10 seconds"),
        ("0 0 * * * 30", "At 00:00:30 every day"),
        ("* * * * * 5,7", "At seconds 5 and 7 of every minute"),
        ("* 9-17 * * * */15", "Every 15 seconds of every minute of hours 9 to 17"),
        ("H H * * *", "At 16:52 every day"),
    ],
)
def test_cron_in_words(expression: str, expected: str) -> None:
    assert describe(replace(NEW_YORK, expression=expression)) == f"{expected}, New York"


@pytest.mark.parametrize(
    ("kind", "expression", "expected"),
    [
        (
            "crontab",
            '{"minute": "*/10", "hour": "8-17"}',
            "Every 10 minutes from 08:00 to 17:50, UTC",
        ),
        ("interval", "1", "Every second"),
        ("interval", "0.5", "Every 0.5 seconds"),
        ("interval", "90", "Every 90 seconds"),
        ("interval", "1.5 hours", "Every 90 minutes"),
        ("interval", "86400", "Every day"),
        ("interval", "2 weeks", "Every 2 weeks"),
        ("interval", "1 month", "Every month on the 1st at 00:00, UTC"),
        (
            "interval",
            "2 years",
            "Every 2 years on the 1st at 00:00, counted from January 1970, UTC",
        ),
        ("solar", "dawn_civil 52.5 -13.4", "At civil dawn at 52.5°N 13.4°W"),
        ("solar", "solar_noon -52.5 13", "At solar noon at 52.5°S 13°E"),
        ("once", "2030-01-31T09:30:00+01:00", "Once, on 31 January 2030 at 08:30, UTC"),
        ("rrule", "FREQ=DAILY;BYHOUR=9", "Every day at 09:00, UTC"),
        (
            "rrule",
            f"{BERLIN}\nFREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;COUNT=4",
            (
                "Every 2 weeks on Monday and Wednesday at 09:00, counted from 5 January 2026, "
                "until 21 January 2026 at 09:00, Berlin"
            ),
        ),
        (
            "rrule",
            f"{BERLIN}\nFREQ=WEEKLY;UNTIL=20261231T000000Z\nEXDATE:20260119T090000",
            (
                "Every week on Monday at 09:00, until 31 December 2026 at 00:00 UTC, Berlin, "
                "except 1 time"
            ),
        ),
        (
            "rrule",
            "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17",
            "Every month on the last Friday of the month at 17:00, UTC",
        ),
        (
            "rrule",
            "FREQ=MONTHLY;BYMONTHDAY=1,-1",
            "Every month on the 1st and last day at 00:00, UTC",
        ),
        (
            "rrule",
            "FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR",
            "Every month on the 13th if that is Friday at 00:00, UTC",
        ),
        (
            "rrule",
            "FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=25",
            "Every year on the 25th of December at 00:00, UTC",
        ),
        (
            "rrule",
            "FREQ=YEARLY;BYDAY=-2SU",
            "Every year on the 2nd to last Sunday of the year at 00:00, UTC",
        ),
        (
            "rrule",
            "FREQ=MINUTELY;BYHOUR=9,10,11;BYMINUTE=0,1,2",
            "Every minute in the minutes 0 to 2 in the hours 9 to 11, UTC",
        ),
        ("rrule", "FREQ=HOURLY;BYMINUTE=5;BYSECOND=7", "Every hour at second 7 at minute 5, UTC"),
        (
            "rrule",
            "FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1",
            "By the rule 'RRULE:FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1', UTC",
        ),
    ],
)
def test_the_other_kinds_in_words(kind: str, expression: str, expected: str) -> None:
    schedule = replace(NEW_YORK, kind=kind, expression=expression, timezone="UTC")
    assert describe(schedule) == expected


def test_what_bounds_it_is_told() -> None:
    start = datetime(2026, 1, 31, 14, tzinfo=UTC)
    every_month = replace(NEW_YORK, kind="interval", expression="1 month", start_at=start)
    assert describe(replace(every_month, max_runs=3, end_at=datetime(2027, 7, 1, tzinfo=UTC))) == (
        "Every month on the 31st (or the last day of a shorter month) at 09:00, New York, "
        "from 31 January 2026 at 09:00, until 30 June 2027 at 20:00, at most 3 times"
    )
    assert describe(replace(every_month, expression="90")) == (
        "Every 90 seconds, counted from 2026-01-31 14:00:00 UTC, from 31 January 2026 at 09:00"
    )


@pytest.mark.parametrize(
    ("exclude", "expected"),
    [
        ('["2026-12-25", "2026-12-26"]', "except 25 December 2026 and 26 December 2026"),
        ('["2026-12-25", "2026-12-26", "2027-01-01", "2027-01-02"]', "except on 4 days"),
        ('["2026-12-24T09:00", "2026-12-25T09:00:00Z"]', "except 2 times"),
        ('["FREQ=WEEKLY;BYDAY=SU"]', "except by the rule 'RRULE:FREQ=WEEKLY;BYDAY=SU'"),
    ],
)
def test_what_is_excluded_is_told(exclude: str, expected: str) -> None:
    told = describe(replace(NEW_YORK, exclude=exclude))
    assert told == f"At 09:00 every day, New York, {expected}"


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_words(kind: str) -> None:
    told = describe(replace(NEW_YORK, kind=kind, expression=ONE_OF_EACH[kind]))
    assert told[0].isupper()
    assert not told.startswith("By the")


@given(st.randoms(use_true_random=False), st.booleans())
@settings(steady, max_examples=80)
def test_whatever_fires_has_words(rng: Random, seconds: bool) -> None:  # noqa: FBT001
    rule = make_rule(rng, datetime(2026, 1, 1))  # noqa: DTZ001
    for kind, expression in (("cron", make(rng, seconds=seconds).spec.text), ("rrule", rule)):
        try:
            told = describe(replace(NEW_YORK, kind=kind, expression=expression))
        except TriggerError:
            continue
        assert told.startswith(("At ", "Every ", "By the rule "))
        assert "  " not in told
