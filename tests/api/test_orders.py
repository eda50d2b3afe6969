"""Pause, resume and trigger, and what of a backfill is refused before it is written down."""

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery

from celery_dbbeat import Schedules
from celery_dbbeat.errors import FieldError, NotFound, ScheduleError, SettingsError
from celery_dbbeat.store import orders
from celery_dbbeat.store.database import Database
from tests.api.kit import NOON, Clerk
from tests.store.kit import Waiting

DAY = timedelta(days=1)
NOW = datetime.now(timezone.utc)
AGO = NOW - 9 * DAY


class TestPause:
    def test_it_is_paused_with_a_note_and_resumed_without(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        nightly = clerk.add()
        schedules.pause("nightly", note="the printer\0 is broken")
        row = clerk.schedule(nightly)
        assert (row["state"], row["note"]) == ("paused", "the printer is broken")
        assert clerk.cursor(nightly)["due_at"] is None
        schedules.pause("nightly", note="and so is the phone")
        assert clerk.schedule(nightly)["note"] == "and so is the phone"
        schedules.pause("nightly")
        assert clerk.schedule(nightly)["note"] == "and so is the phone"
        assert schedules.resume("nightly") is None
        row = clerk.schedule(nightly)
        assert (row["state"], row["note"]) == ("active", None)
        assert clerk.cursor(nightly)["replan_from"] is not None

    def test_resumed_by_plain_sql_the_note_goes_as_well(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        nightly = clerk.add()
        schedules.pause("nightly", note="why")
        clerk.do("UPDATE dbbeat_schedule SET state = 'active'")
        assert clerk.schedule(nightly)["note"] is None

    def test_resuming_what_is_active_changes_nothing(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        nightly = clerk.add()
        schedules.resume("nightly")
        assert schedules.resume("nightly", catch_up=True) is None
        assert clerk.schedule(nightly)["version"] == 1
        assert schedules.backfills() == []

    def test_it_returns_after_a_claim_under_way(self, clerk: Clerk, database_url: str) -> None:
        clerk.add()
        with clerk.connection.transaction():
            clerk.do("SELECT FROM dbbeat_cursor FOR UPDATE")
            paused = Waiting(
                database_url, "UPDATE dbbeat_schedule SET state = 'paused', note = 'why'"
            )
        paused.result()

    @pytest.mark.parametrize("state", ["finished", "invalid"])
    def test_what_has_ended_is_neither(
        self, state: str, schedules: Schedules, clerk: Clerk
    ) -> None:
        clerk.add()
        clerk.do("UPDATE dbbeat_schedule SET state = %s, reason = 'why'", state)
        for refused in (schedules.pause, schedules.resume):
            with pytest.raises(ScheduleError, match=f"is {state}: why; allowed is active or pau"):
                refused("nightly")

    def test_an_unknown_name(self, schedules: Schedules) -> None:
        for refused in (schedules.pause, schedules.resume, schedules.trigger):
            with pytest.raises(NotFound, match="there is no schedule 'nightly'"):
                refused("nightly")
        with pytest.raises(NotFound):
            schedules.resume("nightly", catch_up=True)
        with pytest.raises(NotFound):
            schedules.backfill("nightly", AGO, NOW)
        with pytest.raises(NotFound):
            schedules.backfills("nightly")

    def test_with_nothing_to_catch_up_on_there_is_no_backfill(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        nightly = clerk.add()
        schedules.pause("nightly")
        ordered = schedules.resume("nightly", catch_up=True)
        assert ordered is not None
        assert ordered.note == "caught up on after a pause"
        assert clerk.schedule(nightly)["state"] == "active"


class TestTrigger:
    def test_arguments_are_held_against_the_tasks_signature(
        self, app: Celery, schedules: Schedules, clerk: Clerk
    ) -> None:
        @app.task(name="shop.nothing", shared=False)  # type: ignore[untyped-decorator]
        def nothing() -> None:
            """Takes nothing."""

        schedules.create("quiet", "shop.nothing", interval=60)
        with pytest.raises(FieldError, match=r"args is \[1\].*takes 0 positional") as refused:
            schedules.trigger("quiet", args=[1])
        assert refused.value.field == "args"
        with pytest.raises(FieldError, match="kwargs"):
            schedules.trigger("quiet", kwargs={"a": 1})
        assert clerk.value("SELECT count(*) FROM dbbeat_tick") == 0

    def test_a_tick_with_an_id_of_its_own_that_any_beat_adopts(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        nightly = clerk.add()
        schedules.pause("nightly")
        ids = {schedules.trigger("nightly") for _ in range(3)}
        ticks = clerk.ticks(nightly)
        assert {tick["task_id"] for tick in ticks} == ids
        assert len(ids) == 3
        for tick in ticks:
            assert (tick["state"], tick["kind"], tick["replica"]) == (
                "recorded",
                "manual",
                "trigger",
            )
            assert tick["arguments"] is None
        assert clerk.schedule(nightly)["state"] == "paused"

    @pytest.mark.parametrize(
        ("given", "kept"),
        [
            ({"args": [1, "a"]}, {"args": [1, "a"]}),
            ({"args": ()}, {"args": []}),
            ({"kwargs": {"a": None}}, {"kwargs": {"a": None}}),
            ({"args": [1], "kwargs": {}}, {"args": [1], "kwargs": {}}),
        ],
    )
    def test_other_arguments_for_once(
        self, given: dict[str, Any], kept: dict[str, Any], schedules: Schedules, clerk: Clerk
    ) -> None:
        nightly = clerk.add()
        schedules.trigger("nightly", **given)
        assert clerk.ticks(nightly)[0]["arguments"] == kept

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({"args": "ab"}, "args is 'ab'; allowed is a list or a tuple"),
            ({"args": {"a": 1}}, "args is {'a': 1}; allowed is a list or a tuple"),
            ({"kwargs": [1]}, "kwargs is [1]; allowed is a dict"),
            ({"args": [object]}, "args cannot be JSON"),
            ({"kwargs": {"a": float("nan")}}, "kwargs cannot be JSON"),
        ],
    )
    def test_what_is_no_argument_is_refused(
        self, given: dict[str, Any], why: str, schedules: Schedules, clerk: Clerk
    ) -> None:
        nightly = clerk.add()
        with pytest.raises(ScheduleError) as error:
            schedules.trigger("nightly", **given)
        assert str(error.value).startswith(why)
        assert clerk.ticks(nightly) == []

    def test_an_invalid_schedule_is_refused(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add()
        clerk.do("UPDATE dbbeat_schedule SET state = 'invalid', reason = 'no such zone'")
        with pytest.raises(ScheduleError, match="is invalid: no such zone"):
            schedules.trigger("nightly")

    def test_beats_are_told(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add()
        clerk.do("LISTEN dbbeat_public")
        schedules.trigger("nightly")
        schedules.backfill("nightly", AGO, NOW)
        heard = [one.payload for one in clerk.connection.notifies(timeout=5, stop_after=2)]
        assert heard == ["tick", "backfill"]


class TestBackfill:
    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({"start": NOW, "end": AGO}, "end is .*, before start .*; allowed is the same or"),
            ({"start": NOW + DAY, "end": NOW + 2 * DAY}, "start is .*, which is still to come"),
            ({"start": AGO.replace(tzinfo=None)}, "start is .*; allowed is a datetime with a t"),
            ({"end": NOW.replace(tzinfo=None)}, "end is .*; allowed is a datetime with a t"),
            ({"start": "yesterday"}, "start is 'yesterday'; allowed is an ISO-8601 instant"),
            ({"reprocess": "some"}, "reprocess is 'some'; allowed is none, failed, all"),
            ({"max_concurrent": 0}, "max_concurrent is 0; allowed is 1 to 1000"),
            ({"max_concurrent": 1001}, "max_concurrent is 1001; allowed is 1 to 1000"),
            ({"max_concurrent": True}, "max_concurrent is True; allowed"),
            ({"rate": 0}, "rate is 0; allowed is None, or 0.001 to 10000"),
            ({"rate": "fast"}, "rate is 'fast'; allowed"),
            ({"overlap": "skip"}, "overlap is 'skip'; allowed is allow, buffer_all"),
            ({"start": NOW - 91 * DAY}, r"older than dbbeat_retention \(90 days\).*force=True"),
        ],
    )
    def test_what_is_refused_is_not_written(
        self, given: dict[str, Any], why: str, schedules: Schedules, clerk: Clerk
    ) -> None:
        clerk.add()
        with pytest.raises(ScheduleError, match=why):
            schedules.backfill("nightly", **{"start": AGO, "end": NOW, **given})
        assert schedules.backfills() == []

    def test_what_is_older_than_anything_remembered_is_to_be_confirmed(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        clerk.add()
        assert schedules.backfill("nightly", NOW - 100 * DAY, NOW, dry_run=True).count == 100
        ordered = schedules.backfill("nightly", NOW - 100 * DAY, NOW, force=True)
        assert ordered.total == 100

    def test_what_is_still_to_come_is_left_out(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add()
        ordered = schedules.backfill("nightly", AGO, NOW + DAY)
        assert (ordered.total, ordered.end <= datetime.now(timezone.utc)) == (9, True)

    def test_times_without_an_offset_are_local_and_a_day_is_the_whole_of_it(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        clerk.add("tokyo", kind="cron", expression="0 * * * *", timezone="Asia/Tokyo")
        day = date(2026, 1, 10)
        midnight = datetime(2026, 1, 9, 15, tzinfo=timezone.utc)
        plan = schedules.backfill("tokyo", str(day), str(day), dry_run=True)
        assert (plan.count, plan.fire_times[0].nominal) == (24, midnight)
        local = f"{day}T01:00"
        assert schedules.backfill("tokyo", local, local, dry_run=True).count == 1
        instant = "2026-01-09T16:00:00Z"
        (one,) = schedules.backfill("tokyo", local, instant, dry_run=True).fire_times
        assert one.nominal == midnight + timedelta(hours=1)

    def test_the_list_of_a_dry_run_goes_on_where_it_ended(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        clerk.add()
        first = schedules.backfill("nightly", AGO, NOW, dry_run=True, limit=5)
        assert (first.count, len(first.fire_times), first.to_send) == (9, 5, 5)
        assert first.following is not None
        rest = schedules.backfill("nightly", first.following, NOW, dry_run=True)
        assert (rest.count, rest.following) == (4, None)
        with pytest.raises(SettingsError, match="limit is 0"):
            schedules.backfill("nightly", AGO, NOW, dry_run=True, limit=0)

    def test_counting_ends(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add("cron", kind="cron", expression="* * * * *")
        begin = NOW - 365 * 20 * DAY
        plan = schedules.backfill("cron", begin, NOW, dry_run=True, limit=1)
        assert not plan.complete
        assert plan.count > 0
        assert schedules.backfill("cron", begin, NOW, force=True).total is None

    def test_none_in_between(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add()
        second = timedelta(seconds=1)
        begin = NOON + second
        plan = schedules.backfill("nightly", begin, begin + second, dry_run=True)
        assert (plan.count, plan.fire_times) == (0, ())
        assert schedules.backfill("nightly", begin, begin + second, force=True).share == 1.0

    def test_each_is_listed_with_how_far_it_is_and_by_whom(
        self, app: Celery, schedules: Schedules, clerk: Clerk
    ) -> None:
        for name in "ab":
            clerk.add(name)
            schedules.backfill(name, AGO, NOW, note="after the outage", rate=2)
        newest, oldest = schedules.backfills()
        assert schedules.backfills("a") == [oldest]
        assert newest.schedule == "b"
        assert (newest.state, newest.rate, newest.share) == ("running", 2.0, 0.0)
        assert newest.note == "after the outage"
        assert newest.ordered_by == clerk.value("SELECT session_user::text")
        ordered = Schedules(app, user="ada").backfill("a", AGO, NOW)
        assert ordered.ordered_by == "ada"
        clerk.do("UPDATE dbbeat_backfill SET passed = 3, next_at = start_at + interval '3 days'")
        assert round(schedules.show_backfill(newest.id).share, 2) == 0.33
        clerk.do("UPDATE dbbeat_backfill SET total = NULL")
        assert round(schedules.show_backfill(newest.id).share, 2) == 0.33

    def test_only_what_runs_can_be_stopped(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add()
        number = schedules.backfill("nightly", AGO, NOW).id
        for _ in range(2):
            stopped = schedules.stop_backfill(number)
            assert (stopped.state, stopped.reason) == ("stopped", "somebody stopped it")
        assert schedules.continue_backfill(number).reason is None
        clerk.do("UPDATE dbbeat_backfill SET state = 'finished'")
        with pytest.raises(ScheduleError, match="is finished; allowed is running"):
            schedules.stop_backfill(number)
        with pytest.raises(NotFound, match="there is no backfill 999"):
            schedules.stop_backfill(999)

    def test_what_it_brings_back_is_kept_for_as_long_as_it_takes(
        self, schedules: Schedules, clerk: Clerk, database_url: str
    ) -> None:
        nightly = clerk.add()
        old = NOW - 200 * DAY
        clerk.tick(nightly, old)
        number = schedules.backfill("nightly", old, NOW, force=True).id
        with Database(database_url, None, 5.0) as store:
            assert store.run("retire", keep=90 * DAY).one()["step"] is None
            assert len(clerk.ticks(nightly)) == 1
            schedules.stop_backfill(number)
            clerk.do("UPDATE dbbeat_backfill SET ended_at = now() - interval '25 hours'")
            assert store.run("retire", keep=90 * DAY).one()["step"] is not None
        assert clerk.ticks(nightly) == []


def test_a_failing_one_that_somebody_changes_is_left_alone(clerk: Clerk, database_url: str) -> None:
    nightly = clerk.add(pause_after=1)
    seen = orders.Failing(nightly, "nightly", 1, 1, ())
    with Database(database_url, None, 5.0) as store:
        with clerk.connection.transaction():
            clerk.do("SELECT FROM dbbeat_schedule FOR UPDATE")
            assert not orders.pause_failing(store, seen, "it fails", "a")
        clerk.do("UPDATE dbbeat_schedule SET task = 'mended'")
        assert not orders.pause_failing(store, seen, "it fails", "a")
    assert clerk.schedule(nightly)["state"] == "active"
