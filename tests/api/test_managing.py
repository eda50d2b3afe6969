"""Schedules made, read, changed and deleted from Python."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import FrozenInstanceError, asdict
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab, solar

from celery_dbbeat import Schedules
from celery_dbbeat.errors import (
    FieldError,
    NameTaken,
    NotFound,
    OwnedByCode,
    SettingsError,
    VersionConflict,
)
from tests.api.kit import Clerk
from tests.support.waiting import wait_until

UTC = timezone.utc
NOON = datetime(2030, 1, 31, 12, tzinfo=UTC)


def count(clerk: Clerk) -> int:
    return int(clerk.value("SELECT count(*) FROM dbbeat_schedule"))


class TestCreate:
    def test_all_that_can_be_said(self, schedules: Schedules) -> None:
        made = schedules.create(
            "invoices",
            "shop.bill",
            cron="0 6 1 * *",
            timezone="Europe/Berlin",
            args=["monthly", 1],
            kwargs={"dry": False},
            options={"expires": 60},
            queue="slow",
            priority=5,
            misfire_grace=90,
            catch_up="all",
            catch_up_limit=3,
            overlap="skip",
            max_concurrent=2,
            jitter=timedelta(seconds=0.5),
            start_at=NOON,
            end_at="2031-01-31T12:00:00",
            max_runs=7,
            exclude=[],
            labels={"team": "billing"},
            description="Bills\nall shops",
            max_attempts=4,
            on_failure="retry",
            resend_after=timedelta(minutes=5),
            pause_after=10,
        )
        found = asdict(made)
        assert (made.kind, made.expression, made.timezone) == ("cron", "0 6 1 * *", "Europe/Berlin")
        assert (made.args, made.kwargs) == (["monthly", 1], {"dry": False})
        assert made.options == {"expires": 60, "queue": "slow", "priority": 5}
        assert made.misfire_grace == timedelta(seconds=90)
        assert (made.catch_up, made.catch_up_limit) == ("all", 3)
        assert (made.overlap, made.max_concurrent) == ("skip", 2)
        assert (made.jitter, made.start_at) == (timedelta(seconds=0.5), NOON)
        assert made.end_at == datetime(2031, 1, 31, 11, tzinfo=UTC)
        assert (made.max_runs, made.labels) == (7, {"team": "billing"})
        assert (made.description, made.max_attempts) == ("Bills\nall shops", 4)
        assert (made.on_failure, made.resend_after) == ("retry", timedelta(minutes=5))
        assert (made.pause_after, made.state, made.owner, made.version) == (
            10,
            "active",
            "people",
            1,
        )
        assert made.next_nominal == datetime(2030, 2, 1, 5, tzinfo=UTC)
        assert made.next_due is not None
        assert timedelta(0) <= made.next_due - made.next_nominal <= made.jitter
        assert schedules.get("invoices") == made
        assert found["name"] == "invoices"
        with pytest.raises(FrozenInstanceError):
            made.name = "other"  # type: ignore[misc]

    def test_what_is_not_said_is_as_the_table_has_it(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        clerk.do(
            "INSERT INTO dbbeat_schedule (name, task, kind, expression)"
            " VALUES ('sql', 't', 'interval', '60')"
        )
        schedules.create("api", "t", interval=60)
        by_sql, by_api = schedules.get("sql").draft(), schedules.get("api").draft()
        assert {**asdict(by_sql), "name": "api"} == asdict(by_api)

    @pytest.mark.parametrize(
        ("when", "expression"),
        [
            ({"cron": "@daily"}, "@daily"),
            ({"interval": 60}, "60"),
            ({"interval": 0.5}, "0.5"),
            ({"interval": timedelta(days=1, microseconds=1)}, "86400.000001"),
            ({"interval": "60"}, "60"),
            ({"once": NOON}, "2030-01-31T12:00:00+00:00"),
            ({"once": "2030-01-31T12:00"}, "2030-01-31T12:00"),
            ({"solar": solar("sunset", 52.5, 13.4)}, "sunset 52.5 13.4"),
            ({"solar": "sunset 52.5 13.4"}, "sunset 52.5 13.4"),
            ({"crontab": {"minute": [0, 30]}}, '{"minute": "0,30"}'),
            ({"crontab": '{"minute": 5}'}, '{"minute": 5}'),
            ({"kind": "cron", "expression": "0 0 * * *"}, "0 0 * * *"),
        ],
    )
    def test_when(self, schedules: Schedules, when: dict[str, Any], expression: str) -> None:
        made = schedules.create("a", "t", **when)
        assert made.kind == when.get("kind", next(iter(when)))
        assert made.expression == expression
        assert made.next_nominal is not None

    def test_celerys_crontab_means_what_celery_means(self, schedules: Schedules) -> None:
        made = schedules.create("a", "t", crontab=crontab(minute=0, hour=6, day_of_week="mon"))
        assert made.kind == "crontab"
        fire_times = schedules.preview("a", 2, NOON)
        assert [one.isoformat() for one in fire_times] == [
            "2030-02-04T06:00:00+00:00",
            "2030-02-11T06:00:00+00:00",
        ]

    def test_paused(self, schedules: Schedules) -> None:
        made = schedules.create("a", "t", interval=60, paused=True, note="not yet")
        assert (made.state, made.note, made.next_nominal) == ("paused", "not yet", None)

    def test_dates_that_are_left_out_become_text(self, schedules: Schedules) -> None:
        made = schedules.create("a", "t", cron="@daily", exclude=[date(2030, 12, 25)])
        assert made.exclude == ["2030-12-25"]


class TestConflict:
    def test_a_name_that_is_there(self, schedules: Schedules) -> None:
        schedules.create("a", "t", interval=60)
        with pytest.raises(NameTaken, match=r"name is 'a', which is taken.*on_conflict"):
            schedules.create("a", "t", interval=30)
        assert schedules.get("a").expression == "60"

    def test_update_changes_what_is_there(self, schedules: Schedules) -> None:
        before = schedules.create("a", "t", interval=60, description="old")
        after = schedules.create("a", "t", interval=30, on_conflict="update")
        assert (after.id, after.version, after.expression) == (before.id, 2, "30")
        assert after.description == ""

    def test_update_of_the_same_is_no_change(self, schedules: Schedules) -> None:
        what: dict[str, Any] = {"interval": 60, "labels": {"b": 1, "a": 2}, "queue": "q"}
        schedules.create("a", "t", **what)
        assert schedules.create("a", "t", on_conflict="update", **what).version == 1

    @pytest.mark.parametrize("state", ["paused", "finished"])
    def test_update_leaves_the_state(self, schedules: Schedules, clerk: Clerk, state: str) -> None:
        schedules.create("a", "t", interval=60)
        clerk.do("UPDATE dbbeat_schedule SET state = %s, note = 'why'", state)
        same = schedules.create("a", "t", interval=60, on_conflict="update")
        assert (same.state, same.version, same.note) == (state, 2, "why")
        after = schedules.create("a", "u", interval=60, on_conflict="update")
        assert (after.state, after.task) == (state, "u")
        told = schedules.create("a", "u", interval=60, state="active", on_conflict="update")
        assert (told.state, told.note) == ("active", None)

    def test_ignore_leaves_what_is_there(self, schedules: Schedules) -> None:
        before = schedules.create("a", "t", interval=60)
        assert schedules.create("a", "t", interval=30, on_conflict="ignore") == before

    def test_the_codes_are_never_touched(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add("a", owner="code")
        for on_conflict in ("error", "update"):
            with pytest.raises((NameTaken, OwnedByCode)):
                schedules.create("a", "u", interval=30, on_conflict=on_conflict)
        assert schedules.create("a", "u", interval=30, on_conflict="ignore").task == "t"

    def test_another_word_is_refused(self, schedules: Schedules) -> None:
        with pytest.raises(FieldError, match="on_conflict is 'replace'; allowed is one of error"):
            schedules.create("a", "t", interval=60, on_conflict="replace")  # type: ignore[arg-type]


def many(number: int, **what: object) -> list[dict[str, object]]:
    return [{"name": f"s{one}", "task": "t", "interval": 60, **what} for one in range(number)]


class TestMany:
    @pytest.fixture(autouse=True)
    def a_few_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("celery_dbbeat.api.managing.AT_ONCE", 3)

    def test_all_are_made(self, schedules: Schedules, clerk: Clerk) -> None:
        told: list[int] = []
        written = schedules.create_many(iter(many(8)), progress=told.append)
        assert sorted(written.created) == [f"s{one}" for one in range(8)]
        assert (written.updated, written.unchanged) == ((), ())
        assert told == [3, 3, 2]
        assert clerk.value("SELECT count(*) FROM dbbeat_cursor") == 8

    def test_one_is_taken_and_none_is_made(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add("s7")
        with pytest.raises(NameTaken, match="'s7'"):
            schedules.create_many(many(8))
        assert count(clerk) == 1

    def test_one_is_wrong_and_none_is_made(self, schedules: Schedules, clerk: Clerk) -> None:
        wrong = [*many(8), {"name": "bad", "task": "t", "interval": -1}]
        for on_conflict in ("error", "update", "ignore"):
            with pytest.raises(FieldError, match=r"schedule 'bad' \(number 9\): interval") as found:
                schedules.create_many(wrong, on_conflict=on_conflict)
            assert found.value.field == "interval"
        assert count(clerk) == 0

    def test_a_name_given_twice(self, schedules: Schedules, clerk: Clerk) -> None:
        with pytest.raises(FieldError, match="'s0' is given twice"):
            schedules.create_many([*many(2), *many(1)])
        assert count(clerk) == 0

    def test_what_was_done_is_told(self, schedules: Schedules) -> None:
        schedules.create_many(many(2))
        schedules.create("s2", "old", interval=60)
        written = schedules.create_many(many(5), on_conflict="update")
        assert sorted(written.created) == ["s3", "s4"]
        assert (written.updated, written.unchanged) == (("s2",), ("s0", "s1"))

    def test_with_one_of_the_codes_none_is_updated(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        clerk.add("s7", owner="code")
        with pytest.raises(OwnedByCode, match="'s7' comes from the app's beat_schedule"):
            schedules.create_many(many(8), on_conflict="update")
        assert count(clerk) == 1

    def test_none(self, schedules: Schedules) -> None:
        assert schedules.create_many([]).created == ()
        assert schedules.delete_many([]) == 0

    def test_two_who_update_the_same_do_not_wait_for_each_other(self, schedules: Schedules) -> None:
        schedules.create_many(many(60))
        with ThreadPoolExecutor(2) as pool:
            tries = [
                pool.submit(
                    schedules.create_many,
                    many(60, task=f"t{one}")[:: 1 if one % 2 else -1],
                    on_conflict="update",
                )
                for one in range(6)
            ]
        assert {len(one.result().updated) for one in tries} == {60}

    def test_delete(self, schedules: Schedules, clerk: Clerk) -> None:
        schedules.create_many(many(8))
        told: list[int] = []
        names = [f"s{one}" for one in range(1, 10)]
        assert schedules.delete_many(iter(names), progress=told.append) == 7
        assert sum(told) == 9
        assert [one.name for one in schedules.list()] == ["s0"]
        assert clerk.value("SELECT count(*) FROM dbbeat_cursor") == 1

    def test_with_one_of_the_codes_none_is_deleted(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        schedules.create_many(many(7))
        clerk.add("s7", owner="code")
        with pytest.raises(OwnedByCode, match=r"'s7'.*so it is deleted there"):
            schedules.delete_many([f"s{one}" for one in range(8)])
        assert count(clerk) == 8


class TestUpdate:
    def test_what_is_given_changes_and_nothing_else(self, schedules: Schedules) -> None:
        before = schedules.create(
            "a", "t", cron="@daily", queue="q", options={"expires": 5}, labels={"x": 1}, end_at=NOON
        )
        after = schedules.update("a", cron="@hourly", priority=3, end_at=None)
        expected = asdict(before) | {
            "expression": "@hourly",
            "options": {"queue": "q", "expires": 5, "priority": 3},
            "end_at": None,
            "version": 2,
        }
        moving = {"updated_at", "next_nominal", "next_due"}
        found = asdict(after)
        assert {k: found[k] for k in found.keys() - moving} == {
            k: expected[k] for k in expected.keys() - moving
        }

    def test_another_name(self, schedules: Schedules) -> None:
        before = schedules.create("a", "t", interval=60)
        assert schedules.update("a", name="b").id == before.id
        with pytest.raises(NotFound):
            schedules.get("a")
        schedules.create("a", "t", interval=60)
        with pytest.raises(NameTaken, match="'a'"):
            schedules.update("b", name="a")

    def test_the_same_again_is_no_change(self, schedules: Schedules) -> None:
        before = schedules.create("a", "t", interval=60)
        assert schedules.update("a", interval=timedelta(minutes=1)) == before

    def test_a_queue_taken_away(self, schedules: Schedules) -> None:
        schedules.create("a", "t", interval=60, queue="q", options={"expires": 5})
        assert schedules.update("a", queue=None).options == {"expires": 5}

    def test_the_version_that_was_read(self, schedules: Schedules) -> None:
        schedules.create("a", "t", interval=60)
        assert schedules.update("a", version=1, interval=30).version == 2
        with pytest.raises(VersionConflict, match="'a' is at version 2, not 1: it was changed"):
            schedules.update("a", version=1, interval=20)
        with pytest.raises(VersionConflict):
            schedules.delete("a", version=1)
        assert schedules.get("a").expression == "30"

    def test_of_two_at_once_with_one_version_one_wins(
        self, schedules: Schedules, clerk: Clerk, database_url: str
    ) -> None:
        """The winner is the one who held the row."""
        schedules.create("a", "t", interval=60)
        waiting = "SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
        with closing(Clerk(database_url)) as winner, ThreadPoolExecutor(1) as pool:
            with winner.connection.transaction():
                winner.do("UPDATE dbbeat_schedule SET expression = '30'")
                loser = pool.submit(schedules.update, "a", version=1, interval=20)
                wait_until(lambda: clerk.value(waiting), message="the loser to wait for the row")
            with pytest.raises(VersionConflict):
                loser.result(10)
        assert schedules.get("a").expression == "30"

    def test_what_is_wrong_with_it_elsewhere_does_not_matter(
        self, app: Celery, schedules: Schedules, clerk: Clerk
    ) -> None:
        @app.task(name="add")  # type: ignore[untyped-decorator]
        def add(x: int) -> None: ...

        clerk.add("a", kind="cron", expression="99 * * * *", task="add")
        assert schedules.update("a", description="broken").description == "broken"
        with pytest.raises(FieldError, match="minute '99'"):
            schedules.update("a", timezone="Europe/Berlin")

    def test_one_that_is_not_there(self, schedules: Schedules) -> None:
        with pytest.raises(NotFound, match="no schedule 'a'"):
            schedules.update("a", interval=60)

    def test_the_codes_are_refused_with_the_reason(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        clerk.add("a", owner="code")
        with pytest.raises(OwnedByCode, match=r"'a' comes from.*so it is changed there.*pause"):
            schedules.update("a", interval=60)
        with pytest.raises(OwnedByCode, match="so it is deleted there"):
            schedules.delete("a")

    def test_nothing_is_written_where_the_new_one_is_wrong(self, schedules: Schedules) -> None:
        before = schedules.create("a", "t", interval=60)
        with pytest.raises(FieldError, match="cron"):
            schedules.update("a", cron="nonsense", description="new")
        assert schedules.get("a").version == before.version


class TestDelete:
    def test_it_is_gone(self, schedules: Schedules, clerk: Clerk) -> None:
        schedules.create("a", "t", interval=60)
        schedules.delete("a")
        assert count(clerk) == 0
        with pytest.raises(NotFound, match="no schedule 'a'"):
            schedules.delete("a")


class TestPreview:
    def test_of_a_schedule(self, schedules: Schedules) -> None:
        schedules.create(
            "a", "t", interval=3600, start_at=NOON, end_at="2030-01-31T14:00", state="paused"
        )
        assert schedules.preview("a") == [NOON + timedelta(hours=n) for n in range(3)]
        assert schedules.preview("a", 1, NOON) == [NOON + timedelta(hours=1)]

    def test_of_what_is_not_stored(self, schedules: Schedules) -> None:
        what = {"cron": "30 2 * * *", "timezone": "Europe/Berlin", "max_runs": 2}
        start = datetime(2030, 3, 30, tzinfo=UTC)
        assert [one.isoformat() for one in schedules.preview(what, 9, start)] == [
            "2030-03-30T01:30:00+00:00",
            "2030-03-31T01:00:00+00:00",
        ]

    def test_no_more_than_are_left(self, schedules: Schedules, clerk: Clerk) -> None:
        schedules.create("a", "t", interval=60, max_runs=3)
        clerk.do("UPDATE dbbeat_cursor SET runs = 2")
        assert len(schedules.preview("a")) == 1

    def test_what_is_wrong(self, schedules: Schedules) -> None:
        with pytest.raises(FieldError, match="minute '61'"):
            schedules.preview({"cron": "61 * * * *"})
        with pytest.raises(SettingsError, match="n is 0"):
            schedules.preview({"cron": "@daily"}, 0)
        with pytest.raises(FieldError, match="after is"):
            schedules.preview({"cron": "@daily"}, 1, datetime(2030, 1, 1))  # noqa: DTZ001 - the subject


class TestWho:
    def test_the_transaction_says_who_and_how(self, app: Celery, clerk: Clerk) -> None:
        """A trigger may ask for it; a connection that is used again does not keep it."""
        clerk.do("CREATE TABLE seen (who text, how text)")
        clerk.do(
            "CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO seen"
            " SELECT current_setting('dbbeat.user'), current_setting('dbbeat.source');"
            " RETURN NULL; END $$"
        )
        clerk.do("CREATE TRIGGER see AFTER INSERT ON dbbeat_schedule EXECUTE FUNCTION see()")
        Schedules(app, user="ada", source="admin").create("a", "t", interval=60)
        Schedules(app).create("b", "t", interval=60)
        assert [tuple(row.values()) for row in clerk.do("SELECT * FROM seen")] == [
            ("ada", "admin"),
            ("", "api"),
        ]
