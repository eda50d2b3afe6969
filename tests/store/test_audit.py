"""Who changed which schedule: written by the database itself, whatever people do."""

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest

from celery_dbbeat.errors import NotFound
from celery_dbbeat.store import audit, cursors, housekeeping
from celery_dbbeat.store.audit import Change, Story
from celery_dbbeat.store.database import Database
from tests.store.kit import Person, Waiting, dispatch, take
from tests.support.services import PgBouncer

KEEP = timedelta(days=90)
EVER = datetime(2000, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(autouse=True)
def in_steps(store: Database) -> Iterator[None]:
    """However it ends, each change bears an instant not before the one before it."""
    yield
    with store.transaction() as transaction:
        found = transaction.run("schedules_after", after=UUID(int=0), since=EVER, limit=99)
    for story in stories(store, *[row["schedule_id"] for row in found.all]):
        instants = [turn.at for turn in story.turns]
        assert instants == sorted(instants)


def changes(store: Database, name: str = "nightly") -> list[Change]:
    with store.transaction() as transaction:
        return audit.changes(transaction, name, 1000)


def stories(store: Database, *ids: UUID) -> list[Story]:
    return audit.stories(store, ids)


def actions(store: Database, name: str = "nightly") -> list[str]:
    return [one.action for one in reversed(changes(store, name))]


class TestWhatAndWho:
    def test_an_insert_holds_all_an_update_what_changed_a_deletion_all(
        self, store: Database, person: Person
    ) -> None:
        person.add(args=[1])
        person.do("UPDATE dbbeat_schedule SET expression = '60', labels = '{\"a\": 1}'")
        person.do("DELETE FROM dbbeat_schedule")
        deleted, updated, inserted = changes(store)
        assert inserted.before is None
        assert inserted.after is not None
        assert (inserted.after["args"], inserted.after["expression"]) == ([1], "86400")
        assert updated.before == {"expression": "86400", "labels": {}}
        assert updated.after == {"expression": "60", "labels": {"a": 1}}
        assert deleted.after is None
        assert deleted.before == {**inserted.after, **updated.after}

    def test_without_an_application_user_it_is_the_databases(
        self, store: Database, person: Person
    ) -> None:
        person.add()
        (change,) = changes(store)
        assert (change.who, change.source, change.database_user) == ("postgres", "sql", "postgres")

    def test_the_application_user_for_one_transaction_alone(
        self, pgbouncer: PgBouncer, person: Person
    ) -> None:
        person.add()
        with Database(pgbouncer.url, None, 5.0) as store:
            with store.transaction() as transaction:
                transaction.act_as("ada", "web")
                transaction.run("drop_code_schedules", names=["nightly"])
                assert person.value("SELECT count(*) FROM dbbeat_audit") == 1
            with store.transaction() as transaction:
                transaction.run("revisit", schedule_ids=[])
                settings = "SELECT current_setting('dbbeat.user', true) AS who"
                row = transaction._connection.execute(settings).fetchone()
                assert row is not None
                assert not row["who"]

    def test_what_the_api_says_is_kept(self, store: Database, person: Person) -> None:
        with person.connection.transaction():
            person.do("SELECT set_config('dbbeat.user', 'ada', true)")
            person.do("SELECT set_config('dbbeat.source', 'django', true)")
            person.add()
        person.do("UPDATE dbbeat_schedule SET expression = '60'")
        after, before = changes(store)
        assert (before.who, before.source, before.database_user) == ("ada", "django", "postgres")
        assert (after.who, after.source) == ("postgres", "sql")

    def test_what_changed_nothing_leaves_nothing(self, store: Database, person: Person) -> None:
        person.add()
        person.do("UPDATE dbbeat_schedule SET expression = expression")
        assert actions(store) == ["insert"]

    def test_what_was_rolled_back_leaves_nothing(self, store: Database, person: Person) -> None:
        person.add()
        with person.connection.transaction(force_rollback=True):
            person.do("DELETE FROM dbbeat_schedule")
        assert actions(store) == ["insert"]

    def test_null_before_and_after(self, store: Database, person: Person) -> None:
        person.add()
        person.do("UPDATE dbbeat_schedule SET max_runs = 3")
        person.do("UPDATE dbbeat_schedule SET max_runs = NULL")
        after, before, _ = changes(store)
        assert (before.before, before.after) == ({"max_runs": None}, {"max_runs": 3})
        assert (after.before, after.after) == ({"max_runs": 3}, {"max_runs": None})

    def test_the_session_does_not_change_how_it_is_written(
        self, store: Database, person: Person
    ) -> None:
        person.do("SET intervalstyle = 'iso_8601'")
        person.do("SET timezone = 'Asia/Tokyo'")
        identity = person.add(jitter=timedelta(seconds=90), start_at="2026-01-10T12:00:00Z")
        (change,) = changes(store)
        assert change.after is not None
        assert change.after["jitter"] == "00:01:30"
        assert change.after["start_at"] == "2026-01-10T12:00:00+00:00"
        (story,) = stories(store, identity)
        assert story.stretches[0].schedule.jitter == timedelta(seconds=90)


class TestNames:
    def test_a_renamed_one_is_found_by_both(self, store: Database, person: Person) -> None:
        person.add()
        person.do("UPDATE dbbeat_schedule SET name = 'weekly'")
        assert changes(store, "nightly") == changes(store, "weekly")
        assert [one.name for one in changes(store)] == ["weekly", "nightly"]

    def test_deleted_and_made_again_are_two_under_one_name(
        self, store: Database, person: Person
    ) -> None:
        first = person.add()
        person.do("DELETE FROM dbbeat_schedule")
        second = person.add()
        assert actions(store) == ["insert", "delete", "insert"]
        assert {one.schedule_id for one in changes(store)} == {first, second}

    def test_put_back_with_its_old_id(self, store: Database, person: Person) -> None:
        identity = person.add()
        person.do("DELETE FROM dbbeat_schedule")
        person.add(id=identity, expression="60")
        (story,) = stories(store, identity)
        assert [one.schedule.expression for one in story.stretches] == ["86400", "60"]
        assert [one.ending for one in story.stretches] == ["deleted", None]

    def test_a_name_that_never_was(self, store: Database) -> None:
        with pytest.raises(NotFound, match="no schedule 'none'"):
            changes(store, "none")


class TestWhen:
    def test_a_change_counts_from_where_the_cursor_is_planned(
        self, store: Database, person: Person
    ) -> None:
        identity = person.add()
        assert changes(store)[0].at == person.cursor(identity)["replan_from"]
        dispatch(store)
        stood_at = person.cursor(identity)["nominal_at"]
        person.do("UPDATE dbbeat_schedule SET expression = '60'")
        assert changes(store)[0].at == person.cursor(identity)["replan_from"]
        (story,) = stories(store, identity)
        assert story.stretches[0].stood_at == stood_at
        person.do("UPDATE dbbeat_schedule SET state = 'paused'")
        assert changes(store)[0].at > person.cursor(identity)["held_at"]
        person.do("UPDATE dbbeat_schedule SET state = 'active'")
        assert changes(store)[0].at == person.cursor(identity)["replan_from"]

    def test_several_in_one_transaction_each_have_their_instant(
        self, store: Database, person: Person
    ) -> None:
        identity = person.add()
        with person.connection.transaction():
            for every in ("60", "30", "15"):
                person.do("UPDATE dbbeat_schedule SET expression = %s", every)
        (story,) = stories(store, identity)
        assert [one.schedule.expression for one in story.stretches] == ["86400", "60", "30", "15"]
        assert story.stretches[-1].since == person.cursor(identity)["replan_from"]
        assert len({one.since for one in story.stretches}) == 4

    def test_one_that_waits_for_a_claim_counts_from_after_it(
        self, store: Database, person: Person, database_url: str
    ) -> None:
        (identity,) = person.add_due("nightly")
        with store.transaction() as transaction:
            cursors.record(transaction, take(transaction), "a")
            edit = Waiting(database_url, "UPDATE dbbeat_schedule SET expression = '60'")
            released_at = person.value("SELECT clock_timestamp()")
        edit.result()
        assert changes(store)[0].at > released_at
        assert changes(store)[0].at == person.cursor(identity)["replan_from"]

    def test_of_two_at_once_the_second_tells_what_the_first_left(
        self, store: Database, person: Person, database_url: str
    ) -> None:
        person.add()
        with person.connection.transaction():
            person.do("UPDATE dbbeat_schedule SET expression = '60'")
            edit = Waiting(database_url, "UPDATE dbbeat_schedule SET expression = '30'")
        edit.result()
        second, first, _ = changes(store)
        assert (first.before, first.after) == ({"expression": "86400"}, {"expression": "60"})
        assert (second.before, second.after) == ({"expression": "60"}, {"expression": "30"})

    def test_a_fire_time_that_was_never_planned_is_void(
        self, store: Database, person: Person
    ) -> None:
        """Else what passes while it is paused next would have no reason."""
        identity = person.add()
        dispatch(store)
        person.do("UPDATE dbbeat_schedule SET expression = '0.1'")
        assert person.cursor(identity)["nominal_at"] is not None
        person.do("UPDATE dbbeat_schedule SET state = 'paused'")
        assert person.cursor(identity)["nominal_at"] is None

    def test_another_name_counts_only_where_a_when_is_spread_by_it(
        self, store: Database, person: Person
    ) -> None:
        hourly = person.add("hourly", kind="cron", expression="0 * * * *")
        spread = person.add("spread", kind="cron", expression="H * * * *")
        dispatch(store)
        person.do("UPDATE dbbeat_schedule SET name = name || '-2'")
        assert person.cursor(hourly)["replan_from"] is None
        told = {story.name: story for story in stories(store, hourly, spread)}
        assert [len(told[name].stretches) for name in ("hourly-2", "spread-2")] == [1, 2]
        assert told["spread-2"].stretches[1].since == person.cursor(spread)["replan_from"]
        names = [one.schedule.name for one in told["spread-2"].stretches]
        assert names == ["spread", "spread-2"]


class TestMany:
    def test_ten_thousand_in_one_statement_after_one_alone(
        self, store: Database, person: Person
    ) -> None:
        """In one session, where a plan for one row would compare each with each."""
        person.add()
        person.do("UPDATE dbbeat_schedule SET expression = '61'")
        person.do(
            "INSERT INTO dbbeat_schedule (name, task, kind, expression)"
            " SELECT 'many-' || n, 't', 'interval', '60' FROM generate_series(1, 10000) n"
        )
        person.do("SET statement_timeout = '20s'")
        person.do(
            "UPDATE dbbeat_schedule SET expression = '30' WHERE name LIKE 'many-%%'", {"a": 1}
        )
        assert person.value("SELECT count(*) FROM dbbeat_audit WHERE action = 'update'") == 10_001
        person.do("DELETE FROM dbbeat_schedule")
        assert person.value("SELECT count(*) FROM dbbeat_audit WHERE action = 'delete'") == 10_001
        assert actions(store, "many-77") == ["insert", "update", "delete"]

    def test_truncate_tells_of_each_and_what_was_due_gets_its_reason(
        self, store: Database, person: Person
    ) -> None:
        first, _ = person.add_due("one", "two")
        person.add("three")
        person.do("TRUNCATE dbbeat_schedule")
        assert [actions(store, name)[-1] for name in ("one", "two", "three")] == ["truncate"] * 3
        (tick,) = person.ticks(first)
        assert (tick["state"], "deleted" in tick["reason"]) == ("missed", True)


class TestForgetting:
    def test_deleted_schedules_go_after_the_retention_and_others_stay(
        self, store: Database, person: Person
    ) -> None:
        person.add("kept")
        person.add("put-back")
        person.add("gone")
        person.add("just-gone")
        gone = person.value("SELECT id FROM dbbeat_schedule WHERE name = 'put-back'")
        person.do("DELETE FROM dbbeat_schedule WHERE name <> 'kept'")
        person.add("put-back", id=gone)
        person.do(
            "UPDATE dbbeat_audit SET changed_at = now() - interval '91 days'"
            " WHERE name <> 'just-gone'"
        )
        assert housekeeping.keep(store, KEEP)
        left = person.do("SELECT DISTINCT name FROM dbbeat_audit ORDER BY name")
        assert [row["name"] for row in left] == ["just-gone", "kept", "put-back"]
        person.do("UPDATE dbbeat_audit SET changed_at = now()")

    def test_what_was_there_before_the_audit(self, store: Database, person: Person) -> None:
        identity = person.add()
        person.do("UPDATE dbbeat_audit SET action = 'found', after = NULL")
        person.do("UPDATE dbbeat_schedule SET expression = '60'")
        (story,) = stories(store, identity)
        assert [one.schedule.expression for one in story.stretches] == ["86400", "60"]


def test_what_beat_writes_bears_its_name(store: Database, person: Person) -> None:
    person.add_due("nightly", kind="once", expression="2020-01-01T00:00:00Z")
    with store.transaction() as transaction:
        transaction.act_as("host:1:abc", "beat")
        transaction.run(
            "end_schedules",
            schedule_ids=[person.value("SELECT id FROM dbbeat_schedule")],
            versions=[1],
            states=["finished"],
            reasons=["no fire time left"],
        )
    newest = changes(store)[0]
    assert (newest.who, newest.source) == ("host:1:abc", "beat")
    assert newest.after == {"state": "finished", "reason": "no fire time left"}
