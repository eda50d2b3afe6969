"""Plain SQL is a first-class way to manage schedules: the triggers keep the cursor in step."""

from collections.abc import Iterator
from contextlib import closing
from itertools import takewhile

import psycopg
import pytest

from celery_dbbeat.store.database import Database
from tests.store.kit import Person, dispatch

WHEN = [
    ("kind", "once"),
    ("expression", "3600"),
    ("timezone", "Europe/Berlin"),
    ("start_at", "2026-01-01 00:00+00"),
    ("end_at", "2100-01-01 00:00+00"),
    ("max_runs", 5),
    ("jitter", "10 seconds"),
]
WHAT = [
    ("task", "other"),
    ("args", "[1]"),
    ("kwargs", '{"a": 1}'),
    ("options", '{"queue": "q"}'),
    ("labels", '{"team": "a"}'),
    ("misfire_grace", "2 hours"),
    ("name", "renamed"),
]


def set_one(person: Person, column: str, value: object) -> None:
    person.connection.execute(
        psycopg.sql.SQL("UPDATE dbbeat_schedule SET {} = %s").format(
            psycopg.sql.Identifier(column)
        ),
        [value],
    )


class TestInsert:
    def test_four_columns_are_enough(self, visitor: Person) -> None:
        row = visitor.one(
            "INSERT INTO dbbeat_schedule (name, task, kind, expression)"
            " VALUES ('a', 't', 'cron', '* * * * *') RETURNING *"
        )
        assert (row["state"], row["timezone"], row["catch_up"]) == ("active", "UTC", "latest")
        assert (row["overlap"], row["owner"], row["version"]) == ("allow", "people", 1)
        assert (row["args"], row["kwargs"], row["options"]) == ([], {}, {})

    def test_the_cursor_is_due_for_planning(self, visitor: Person) -> None:
        identity = visitor.add()
        cursor = visitor.cursor(identity)
        assert cursor["due_at"] <= cursor["replan_from"]
        assert (cursor["nominal_at"], cursor["held_at"], cursor["runs"]) == (None, None, 0)
        assert cursor["version"] == 1
        assert cursor["shard"] == identity.bytes[0]

    def test_it_starts_at_its_next_fire_time(self, store: Database, person: Person) -> None:
        identity = person.add()
        assert dispatch(store) == []
        assert person.cursor(identity)["nominal_at"] > person.value("SELECT now()")
        assert person.ticks(identity) == []

    def test_one_that_is_born_paused_is_held(self, visitor: Person) -> None:
        cursor = visitor.cursor(visitor.add(state="paused"))
        assert cursor["due_at"] is None
        assert cursor["held_at"] is not None

    def test_many_rows_get_a_cursor_each(self, visitor: Person) -> None:
        visitor.do(
            "INSERT INTO dbbeat_schedule (name, task, kind, expression)"
            " SELECT 'n' || n, 't', 'interval', '60' FROM generate_series(1, 500) n"
        )
        assert visitor.value("SELECT count(*) FROM dbbeat_cursor") == 500


class TestUpdate:
    @pytest.mark.parametrize(("column", "value"), WHEN, ids=[column for column, _ in WHEN])
    def test_a_change_of_the_when_is_planned_anew(
        self, visitor: Person, column: str, value: object
    ) -> None:
        (identity,) = visitor.add_due("one")
        before = visitor.cursor(identity)
        set_one(visitor, column, value)
        after = visitor.cursor(identity)
        assert before["due_at"] < after["due_at"] <= after["replan_from"]
        # The fire time that had passed is still decided.
        assert after["nominal_at"] == before["nominal_at"]
        assert after["version"] == 2

    @pytest.mark.parametrize(("column", "value"), WHAT, ids=[column for column, _ in WHAT])
    def test_a_change_of_anything_else_does_not_move_the_cursor(
        self, visitor: Person, column: str, value: object
    ) -> None:
        (identity,) = visitor.add_due("one")
        before = visitor.cursor(identity)
        set_one(visitor, column, value)
        assert visitor.cursor(identity) == {**before, "version": 2}

    def test_the_same_value_again_does_not_move_the_cursor(self, visitor: Person) -> None:
        (identity,) = visitor.add_due("one")
        before = visitor.cursor(identity)
        visitor.do("UPDATE dbbeat_schedule SET expression = expression, start_at = start_at")
        assert visitor.cursor(identity) == {**before, "version": 2}

    def test_the_version_grows_whatever_people_write_there(self, visitor: Person) -> None:
        identity = visitor.add()
        visitor.do("UPDATE dbbeat_schedule SET version = 1000")
        assert visitor.schedule(identity)["version"] == 2

    def test_the_id_cannot_change(self, visitor: Person) -> None:
        visitor.add("nightly")
        with pytest.raises(psycopg.errors.RaiseException, match="id of nightly cannot be changed"):
            visitor.do("UPDATE dbbeat_schedule SET id = gen_random_uuid()")

    def test_on_conflict_do_update_is_an_update(self, visitor: Person) -> None:
        (identity,) = visitor.add_due("one")
        visitor.do(
            "INSERT INTO dbbeat_schedule (name, task, kind, expression)"
            " VALUES ('one', 't', 'interval', '60'), ('two', 't', 'interval', '60')"
            " ON CONFLICT (name) DO UPDATE SET expression = excluded.expression"
        )
        assert visitor.value("SELECT count(*) FROM dbbeat_cursor") == 2
        assert visitor.cursor(identity)["replan_from"] is not None
        assert visitor.schedule(identity)["version"] == 2


class TestPauseAndResume:
    def test_a_pause_holds_the_cursor(self, visitor: Person) -> None:
        (identity,) = visitor.add_due("one")
        visitor.do("UPDATE dbbeat_schedule SET state = 'paused'")
        cursor = visitor.cursor(identity)
        assert cursor["due_at"] is None
        assert cursor["held_at"] is not None

    def test_a_second_pause_does_not_move_the_first(self, visitor: Person) -> None:
        identity = visitor.add()
        visitor.do("UPDATE dbbeat_schedule SET state = 'paused'")
        held_at = visitor.cursor(identity)["held_at"]
        visitor.do("UPDATE dbbeat_schedule SET state = 'paused', expression = '60'")
        assert visitor.cursor(identity)["held_at"] == held_at

    def test_resuming_plans_anew_and_remembers_the_hold(self, visitor: Person) -> None:
        identity = visitor.add()
        visitor.do("UPDATE dbbeat_schedule SET state = 'paused'")
        visitor.do("UPDATE dbbeat_schedule SET state = 'active'")
        cursor = visitor.cursor(identity)
        assert cursor["due_at"] <= cursor["replan_from"]
        assert cursor["held_at"] < cursor["replan_from"]

    def test_resuming_never_fires_at_once_and_what_passed_has_its_reason(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        person.do("UPDATE dbbeat_schedule SET state = 'paused'")
        person.do("UPDATE dbbeat_schedule SET state = 'active'")
        assert dispatch(store) == []
        (tick,) = person.ticks(identity)
        assert (tick["state"], tick["reason"]) == ("paused", "the schedule was not active")
        assert person.cursor(identity)["held_at"] is None


class TestMending:
    @pytest.mark.parametrize(("column", "value"), [("expression", "60"), ("args", "[1]")])
    def test_mending_an_invalid_schedule_makes_it_active(
        self, visitor: Person, column: str, value: str
    ) -> None:
        identity = visitor.add()
        visitor.do("UPDATE dbbeat_schedule SET state = 'invalid', reason = 'no such field'")
        assert visitor.cursor(identity)["due_at"] is None
        set_one(visitor, column, value)
        row = visitor.schedule(identity)
        assert (row["state"], row["reason"]) == ("active", None)
        assert visitor.cursor(identity)["due_at"] is not None

    def test_a_new_label_mends_nothing(self, visitor: Person) -> None:
        identity = visitor.add()
        visitor.do("UPDATE dbbeat_schedule SET state = 'invalid', reason = 'no such field'")
        visitor.do("""UPDATE dbbeat_schedule SET labels = '{"seen": true}'""")
        row = visitor.schedule(identity)
        assert (row["state"], row["reason"]) == ("invalid", "no such field")

    def test_a_new_when_for_a_finished_schedule_starts_it_over(self, visitor: Person) -> None:
        identity = visitor.add(max_runs=3)
        visitor.do("UPDATE dbbeat_cursor SET runs = 3")
        visitor.do("UPDATE dbbeat_schedule SET state = 'finished', reason = 'max_runs 3 reached'")
        visitor.do("UPDATE dbbeat_schedule SET max_runs = 4")
        assert visitor.schedule(identity)["state"] == "active"
        cursor = visitor.cursor(identity)
        assert (cursor["runs"], cursor["held_at"]) == (0, None)


class TestDelete:
    def test_the_cursor_goes_and_history_stays(self, store: Database, person: Person) -> None:
        (identity,) = person.add_due("one")
        dispatch(store)
        history = person.ticks(identity)
        person.do("DELETE FROM dbbeat_schedule")
        assert person.value("SELECT count(*) FROM dbbeat_cursor") == 0
        assert person.ticks(identity) == history

    def test_a_fire_time_that_was_due_gets_its_reason(self, visitor: Person) -> None:
        (identity,) = visitor.add_due("one")
        visitor.do("DELETE FROM dbbeat_schedule")
        (tick,) = visitor.ticks(identity)
        assert tick["state"] == "missed"
        assert "deleted" in tick["reason"]

    def test_one_that_was_not_due_leaves_nothing(self, visitor: Person) -> None:
        identity = visitor.add()
        visitor.do("DELETE FROM dbbeat_schedule")
        assert visitor.ticks(identity) == []

    def test_truncate_removes_the_cursors(self, visitor: Person) -> None:
        visitor.add_due("one", "two")
        visitor.do("TRUNCATE dbbeat_schedule")
        assert visitor.value("SELECT count(*) FROM dbbeat_cursor") == 0


class TestNotify:
    INSERT = (
        "INSERT INTO dbbeat_schedule (name, task, kind, expression)"
        " SELECT 'n' || n, 't', 'interval', '60' FROM generate_series(1, 200) n"
    )

    @pytest.fixture
    def listener(self, database_url: str) -> Iterator[Person]:
        with closing(Person(database_url)) as somebody:
            somebody.do('LISTEN "dbbeat_public"')
            yield somebody

    def heard(self, listener: Person) -> list[str]:
        """Everything up to an end mark: notifications arrive in the order of their commits."""
        listener.do("NOTIFY dbbeat_public, 'end'")
        heard = listener.connection.notifies(timeout=5)
        with closing(heard):
            return list(takewhile(lambda said: said != "end", (one.payload for one in heard)))

    def test_one_a_statement_however_many_rows(self, listener: Person, person: Person) -> None:
        person.do(self.INSERT)
        assert self.heard(listener) == ["schedule"]
        person.do("UPDATE dbbeat_schedule SET expression = '30'")
        assert self.heard(listener) == ["schedule"]
        person.do(self.INSERT + " ON CONFLICT (name) DO UPDATE SET expression = '45'")
        assert self.heard(listener) == ["schedule"]
        person.do("DELETE FROM dbbeat_schedule")
        assert self.heard(listener) == ["schedule"]

    def test_none_for_what_was_rolled_back_and_none_for_a_tick(
        self, listener: Person, person: Person, store: Database
    ) -> None:
        person.add_due("one")
        assert self.heard(listener) == ["schedule"]
        with person.connection.transaction(force_rollback=True):
            person.do(self.INSERT)
        assert len(dispatch(store)) == 1
        assert self.heard(listener) == []
