"""What becomes of one task of django-celery-beat or sqlalchemy-celery-beat."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from celery_dbbeat.contrib.importers.entry import Entry, Refused
from celery_dbbeat.contrib.importers.periodic_task import PeriodicTask, convert
from celery_dbbeat.store.imports import ImportedSchedule

UTC = timezone.utc
NOON = datetime(2026, 1, 10, 12, 0, 0, 3000, tzinfo=UTC)
HOUR = timedelta(hours=1)
INSTANT = timedelta(microseconds=1)
BERLIN = ZoneInfo("Europe/Berlin")
HOURLY = {"every": 1, "period": "hours"}
NINE = dict.fromkeys(("day_of_week", "day_of_month", "month_of_year"), "*")
NINE = {**NINE, "minute": "0", "hour": "9", "timezone": "Europe/Berlin"}


# ruff: noqa: ANN401 - columns are of all types
def task(**columns: Any) -> PeriodicTask:
    given = {"id": 7, "name": "nightly", "task": "shop.tasks.work", "date_changed": NOON}
    return PeriodicTask.of({**given, **columns}, UTC)


def entry(**columns: Any) -> Entry:
    found = convert(task(**columns), NOON.date())
    assert isinstance(found, Entry), found
    return found


def row(**columns: Any) -> ImportedSchedule:
    return entry(**columns).schedule


def refusal(**columns: Any) -> str:
    found = convert(task(**columns), NOON.date())
    assert isinstance(found, Refused), found
    assert (found.source_id, found.name) == ("7", "nightly")
    return found.reason


class TestInterval:
    def test_it_counts_on_from_the_last_run(self) -> None:
        found = entry(**HOURLY, last_run_at=NOON)
        assert (found.schedule.kind, found.schedule.expression) == ("interval", "3600")
        assert (found.schedule.start_at, found.go_on_from) == (NOON + HOUR, NOON)

    def test_what_never_ran_counts_from_when_it_was_saved(self) -> None:
        found = entry(**HOURLY)
        assert (found.schedule.start_at, found.go_on_from) == (NOON + HOUR, NOON)

    def test_what_never_ran_begins_at_its_start(self) -> None:
        found = entry(**HOURLY, start_time=NOON + 5 * HOUR)
        assert found.schedule.start_at == NOON + 5 * HOUR
        assert found.go_on_from == NOON + 5 * HOUR - INSTANT

    def test_a_start_to_come_holds_back_what_ran_before(self) -> None:
        found = entry(**HOURLY, last_run_at=NOON, start_time=NOON + 5 * HOUR)
        assert found.schedule.start_at == NOON + 5 * HOUR

    @pytest.mark.parametrize(
        ("every", "period", "expression"),
        [(2, "days", "172800"), (90, "seconds", "90"), (250_000, "microseconds", "0.25")],
    )
    def test_all_its_periods(self, every: int, period: str, expression: str) -> None:
        assert row(every=every, period=period).expression == expression

    @pytest.mark.parametrize(
        ("columns", "why"),
        [
            ({"every": 5, "period": "microseconds"}, "interval '0.000005' is not allowed"),
            ({"every": 5, "period": "moons"}, "its period is 'moons'"),
            ({"every": 10**9, "period": "days"}, "longer than allowed"),
        ],
    )
    def test_what_is_refused(self, columns: dict[str, Any], why: str) -> None:
        assert why in refusal(**columns)


class TestCrontab:
    def test_its_fields_and_zone(self) -> None:
        found = entry(**NINE, last_run_at=NOON)
        assert json.loads(found.schedule.expression) == {
            "minute": "0",
            "hour": "9",
            "day_of_week": "*",
            "day_of_month": "*",
            "month_of_year": "*",
        }
        assert (found.schedule.timezone, found.go_on_from) == ("Europe/Berlin", NOON)
        assert found.remarks == ()

    def test_what_fires_differently_where_the_clocks_change_is_told(self) -> None:
        (remark,) = entry(**{**NINE, "hour": "2", "minute": "30"}, last_run_at=NOON).remarks
        assert remark == (
            "where the clocks change: fires 2026-03-29 01:00; over there 2026-03-29 01:30 (UTC)"
        )

    def test_what_celery_leaves_out_of_the_repeated_hour_is_told(self) -> None:
        every = {**NINE, "hour": "*", "minute": "*/30", "timezone": "America/New_York"}
        (remark,) = entry(**every, last_run_at=NOON).remarks
        assert remark == (
            "where the clocks change: fires 2026-11-01 06:00 and 2026-11-01 06:30; "
            "over there not (UTC)"
        )

    @pytest.mark.parametrize(
        ("columns", "why"),
        [
            ({"minute": "61"}, "minute '61' is not understood"),
            ({"minute": ""}, "minute '' is not understood"),
            ({"day_of_month": "31", "month_of_year": "2"}, "never fires"),
            ({"timezone": "Mars/Base"}, "timezone 'Mars/Base' is not known"),
        ],
    )
    def test_what_is_refused(self, columns: dict[str, Any], why: str) -> None:
        assert why in refusal(**{**NINE, **columns})


def test_the_sun() -> None:
    found = entry(event="sunset", latitude=52.52, longitude=-13.4, last_run_at=NOON)
    assert found.schedule.expression == "sunset 52.520000 -13.400000"
    assert found.remarks == ("its times are rounded to a second",)


class TestClocked:
    def test_it_is_once(self) -> None:
        found = entry(clocked_time=NOON + HOUR, one_off=True)
        assert found.schedule.kind == "once"
        assert found.schedule.expression == (NOON + HOUR).isoformat()
        assert found.go_on_from == NOON + HOUR - INSTANT

    def test_its_start_may_hold_it_back(self) -> None:
        found = row(clocked_time=NOON + HOUR, one_off=True, start_time=NOON + 2 * HOUR)
        assert found.expression == (NOON + 2 * HOUR).isoformat()

    def test_one_that_had_its_run_is_over(self) -> None:
        found = row(clocked_time=NOON, one_off=True, total_run_count=1, last_run_at=NOON)
        assert (found.state, found.reason) == ("finished", "it had its one run before the import")


class TestBounds:
    def test_a_one_off_has_one_run(self) -> None:
        assert row(**HOURLY, one_off=True).max_runs == 1
        assert row(**HOURLY, one_off=True, last_run_at=NOON).state == "active"

    def test_what_is_disabled_is_paused(self) -> None:
        found = row(**HOURLY, enabled=False)
        assert (found.state, found.note) == ("paused", "it was disabled when it was imported")

    def test_it_ends_just_before_it_expires_and_so_do_its_messages(self) -> None:
        found = row(**HOURLY, expires=NOON + 3 * HOUR)
        assert found.end_at == NOON + 3 * HOUR - INSTANT
        assert json.loads(found.options)["expires"] == (NOON + 3 * HOUR).isoformat()

    def test_what_expires_before_its_next_run_is_over(self) -> None:
        found = row(**HOURLY, last_run_at=NOON, expires=NOON + HOUR / 2)
        assert (found.state, found.start_at) == ("finished", None)
        assert "before its next run" in str(found.reason)


class TestWhat:
    def test_routing_headers_and_arguments(self) -> None:
        found = row(
            **HOURLY,
            args='[1, {"__type__": "datetime", "__value__": "2026-01-01T00:00:00"}]',
            kwargs='{"a": "ä"}',
            queue="bulk",
            exchange="",
            priority=0,
            expire_seconds=30,
            headers='{"trace": "on"}',
            description="why",
        )
        assert json.loads(found.options) == {
            "queue": "bulk",
            "priority": 0,
            "expires": 30,
            "headers": {"trace": "on"},
        }
        assert json.loads(found.args)[1]["__type__"] == "datetime"
        assert (json.loads(found.kwargs), found.description) == ({"a": "ä"}, "why")

    @pytest.mark.parametrize(
        ("columns", "why"),
        [
            ({"args": "[1"}, "args is '[1', which is not JSON"),
            ({"args": "{}"}, "args is '{}'; allowed is a JSON array"),
            ({"kwargs": "[]"}, "kwargs is '[]'; allowed is a JSON object"),
            ({"args": "[NaN]"}, "args is [nan]"),
            ({"args": '["\\u0000"]'}, "NUL"),
            ({"args": '["\\ud800"]'}, "surrogates not allowed"),
            ({"headers": "no"}, "headers is 'no', which is not JSON"),
            ({"headers": '{"id": "mine"}'}, "options.headers is"),
            ({"priority": 300}, "options.priority is 300; allowed is"),
            ({"task": ""}, "task is ''"),
        ],
    )
    def test_what_is_refused(self, columns: dict[str, Any], why: str) -> None:
        assert why in refusal(**HOURLY, **columns)


def test_without_a_schedule_it_is_refused() -> None:
    assert "it has no schedule" in refusal()


def test_of_two_schedules_theirs_takes_the_first() -> None:
    found = entry(**HOURLY, **NINE, last_run_at=NOON)
    assert found.schedule.kind == "interval"
    assert found.remarks == ("it names interval and crontab; as there, interval counts",)


def test_times_without_an_offset_are_of_the_zone_that_is_told() -> None:
    naive = datetime(2026, 7, 1, 12)  # noqa: DTZ001 - as some databases keep them
    found = PeriodicTask.of({"id": 1, "name": "a", "task": "t", "last_run_at": naive}, BERLIN)
    assert found.last_run_at == datetime(2026, 7, 1, 10, tzinfo=UTC)
