"""What Schedules.history tells of a schedule's fire times."""

from dataclasses import FrozenInstanceError
from datetime import datetime, timedelta, timezone

import pytest
from celery import Celery

from celery_dbbeat import Schedules
from celery_dbbeat.api import EarlierRun
from celery_dbbeat.errors import DatabaseUnavailable, NotFound, SchemaError, SettingsError
from tests.api.kit import NOON, SECOND, Clerk
from tests.support.services import free_port

DAY = timedelta(days=1)


def test_a_tick_with_its_run(clerk: Clerk, schedules: Schedules) -> None:
    task_id = clerk.tick(clerk.add(), kind="recovery", attempt=2, outcome="done")
    clerk.run(task_id, result="SUCCESS", attempt=2)
    (entry,) = schedules.history("nightly")
    assert (entry.task_id, entry.nominal, entry.due) == (task_id, NOON, NOON)
    assert (entry.state, entry.kind, entry.attempt, entry.replica) == ("sent", "recovery", 2, "a")
    assert (entry.outcome, entry.status, entry.result) == ("done", "done", "SUCCESS")
    assert (entry.sent, entry.lateness) == (NOON + SECOND / 2, SECOND / 2)
    assert (entry.started, entry.ended) == (NOON + SECOND, NOON + 3 * SECOND)
    assert (entry.duration, entry.worker) == (2 * SECOND, "celery@one")
    assert (entry.last, entry.count, entry.error, entry.earlier) == (None, 1, None, ())
    with pytest.raises(FrozenInstanceError):
        entry.state = "dead"  # type: ignore[misc]


def test_a_tick_that_nobody_took_and_one_that_still_runs(
    clerk: Clerk, schedules: Schedules
) -> None:
    nightly = clerk.add()
    clerk.run(clerk.tick(nightly), status="running", ended_at=None)
    clerk.tick(nightly, NOON - DAY, "recorded", sent_at=None)
    runs, waits = schedules.history("nightly")
    assert (runs.status, runs.duration) == ("running", None)
    assert (waits.status, waits.worker, waits.started, waits.lateness) == (None, None, None, None)


def test_a_range_that_was_not_sent(clerk: Clerk, schedules: Schedules) -> None:
    nightly = clerk.add()
    clerk.tick(nightly, NOON, "missed", last_at=NOON + DAY, count=7, reason="too late")
    (entry,) = schedules.history("nightly")
    assert (entry.state, entry.last, entry.count) == ("missed", NOON + DAY, 7)
    assert entry.reason == "too late"


def test_earlier_runs(clerk: Clerk, schedules: Schedules) -> None:
    """As the database writes instants: zeros at the end are left out."""
    lost = {"attempt": 1, "retries": 0, "worker": "celery@two", "error": None, "status": "lost"}
    times = {"started_at": "2026-01-10T12:00:01.25+00:00", "ended_at": None}
    clerk.run(clerk.tick(clerk.add()), attempt=2, earlier=[lost | times])
    (entry,) = schedules.history("nightly")
    began = NOON + SECOND * 1.25
    assert entry.earlier == (EarlierRun(1, 0, "lost", "celery@two", began, None, None),)


def test_the_newest_first_and_page_by_page(clerk: Clerk, schedules: Schedules) -> None:
    """Far apart, so that some lie in the default partition and in every window of the search."""
    nightly, other = clerk.add(), clerk.add("other")
    now = clerk.value("SELECT now()").astimezone(timezone.utc)
    ages = [timedelta(), DAY, 9 * DAY, 30 * DAY, 60 * DAY, 400 * DAY, 4000 * DAY]
    times = [now - age for age in ages]
    for nominal in times:
        clerk.run(clerk.tick(nightly, nominal), nominal)
        clerk.tick(other, nominal)
    everything = schedules.history("nightly")
    assert [entry.nominal for entry in everything] == times
    assert {entry.status for entry in everything} == {"done"}
    for size in range(1, 8):
        assert pages(schedules, size) == everything


def pages(schedules: Schedules, size: int) -> list[object]:
    found: list[object] = []
    before: datetime | None = None
    while page := schedules.history("nightly", size, before):
        assert len(page) <= size
        found += page
        before = page[-1].nominal
    return found


def test_before_anything(clerk: Clerk, schedules: Schedules) -> None:
    clerk.tick(clerk.add())
    assert schedules.history("nightly", before=NOON) == []
    assert schedules.history("nightly", before=datetime(1, 1, 2, tzinfo=timezone.utc)) == []


def test_a_schedule_without_history(clerk: Clerk, schedules: Schedules) -> None:
    clerk.add()
    assert schedules.history("nightly") == []


def test_an_unknown_name(schedules: Schedules) -> None:
    with pytest.raises(NotFound, match="no schedule 'nightly'"):
        schedules.history("nightly")


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_that_is_none(schedules: Schedules, limit: int) -> None:
    with pytest.raises(SettingsError, match=f"limit is {limit}; allowed is 1 or more"):
        schedules.history("nightly", limit)


def test_an_instant_without_a_time_zone(schedules: Schedules) -> None:
    with pytest.raises(SettingsError, match="allowed is a datetime with a time zone"):
        schedules.history("nightly", before=datetime(2026, 1, 1))  # noqa: DTZ001 - the subject


def test_making_one_reads_no_setting(app: Celery) -> None:
    app.conf.dbbeat_url = None
    schedules = Schedules(app)
    with pytest.raises(SettingsError, match="dbbeat_url is not set"):
        schedules.history("nightly")


def test_without_tables(app: Celery, empty_database_url: str) -> None:
    app.conf.dbbeat_url = empty_database_url
    with pytest.raises(SchemaError, match="dbbeat migrate"):
        Schedules(app).history("nightly")


def test_without_a_server(app: Celery) -> None:
    app.conf.dbbeat_url = f"postgresql://127.0.0.1:{free_port()}/none"
    with pytest.raises(DatabaseUnavailable):
        Schedules(app).history("nightly")
