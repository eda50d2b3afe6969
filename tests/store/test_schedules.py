"""What beat may write of a schedule, with people at the same rows."""

import json
from dataclasses import replace
from uuid import UUID

import pytest

from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.store import cursors, schedules
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.schedules import CodeSchedule, CodeSync, Ending
from tests.store.kit import Person, Waiting, names, take

BROKEN = {"kind": "cron", "expression": "not a cron string"}
ENTRY = CodeSchedule(
    name="from code",
    task="shop.tidy",
    kind="interval",
    expression="60",
    timezone="UTC",
    args=json.dumps([1]),
    kwargs=json.dumps({"deep": True}),
    options=json.dumps({"queue": "slow"}),
    digest="first",
)


def read(store: Database) -> Schedule:
    with store.transaction() as transaction:
        ((due, _),) = take(transaction)
    return due.schedule


def sync(store: Database, *entries: CodeSchedule) -> CodeSync:
    with store.transaction() as transaction:
        return schedules.sync_code(transaction, {entry.name: entry for entry in entries})


class TestEnd:
    @pytest.mark.parametrize("state", ["finished", "invalid"])
    def test_state_and_reason_are_set_and_the_cursor_rests(
        self, store: Database, person: Person, state: str
    ) -> None:
        (identity,) = person.add_due("one")
        assert schedules.end(store, [Ending(read(store), state, "why")]) == {identity}
        row = person.schedule(identity)
        assert (row["state"], row["reason"]) == (state, "why")
        assert person.cursor(identity)["due_at"] is None

    def test_a_schedule_that_changed_meanwhile_is_left(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        seen = read(store)
        person.do("UPDATE dbbeat_schedule SET args = '[1]'")
        assert schedules.end(store, [Ending(seen, "invalid", "why")]) == set()
        assert person.schedule(identity)["state"] == "active"

    def test_a_long_reason_with_a_null_byte_is_kept_short_and_clean(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        schedules.end(store, [Ending(read(store), "invalid", "a\0b" + "x" * 3000)])
        reason = person.schedule(identity)["reason"]
        assert reason.startswith("abx")
        assert len(reason) < 2001

    def test_a_row_somebody_holds_is_skipped_and_looked_at_again(
        self, store: Database, person: Person, database_url: str
    ) -> None:
        """Beat holds the cursor, the person the schedule: whoever waits second would deadlock."""
        held, free = person.add_due("held", "free", **BROKEN)
        with store.transaction() as transaction:
            taken = take(transaction)
            assert names(taken) == ["held", "free"]
            edit = Waiting(
                database_url,
                "UPDATE dbbeat_schedule SET kind = 'interval', expression = '60' WHERE id = %s",
                held,
            )
            cursors.record(transaction, taken, "a")
            endings = [Ending(due.schedule, "invalid", "why") for due, _ in taken]
            assert schedules.end(transaction, endings) == {free}
            cursors.revisit(transaction, [held])
        edit.result()
        assert person.schedule(held)["state"] == "active"
        assert person.cursor(held)["due_at"] is not None
        assert person.schedule(free)["state"] == "invalid"

    def test_what_is_looked_at_again_is_due_in_a_second(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one", **BROKEN)
        with person.connection.transaction():
            person.do("SELECT FROM dbbeat_schedule FOR UPDATE")
            with store.transaction() as transaction:
                taken = take(transaction)
                cursors.record(transaction, taken, "a")
                ends = [Ending(due.schedule, "invalid", "why") for due, _ in taken]
                assert schedules.end(transaction, ends) == set()
                cursors.revisit(transaction, [identity])
        cursor = person.cursor(identity)
        wait = cursor["due_at"] - person.value("SELECT clock_timestamp()")
        assert 0 < wait.total_seconds() <= 1
        assert cursor["replan_from"] is not None


class TestCode:
    def test_an_entry_becomes_a_row_of_the_codes(self, store: Database, person: Person) -> None:
        assert sync(store, ENTRY) == CodeSync(("from code",), (), ())
        row = person.one("SELECT * FROM dbbeat_schedule")
        assert (row["owner"], row["code_digest"], row["task"]) == ("code", "first", "shop.tidy")
        assert (row["args"], row["kwargs"]) == ([1], {"deep": True})
        assert row["options"] == {"queue": "slow"}

    def test_the_same_again_writes_nothing(self, store: Database, person: Person) -> None:
        sync(store, ENTRY)
        before = person.one("SELECT *, xmin::text FROM dbbeat_schedule")
        assert sync(store, ENTRY) == CodeSync((), (), ())
        assert person.one("SELECT *, xmin::text FROM dbbeat_schedule") == before

    def test_changed_there_is_changed_here_under_the_same_id(
        self, store: Database, person: Person
    ) -> None:
        sync(store, ENTRY)
        identity: UUID = person.value("SELECT id FROM dbbeat_schedule")
        sync(store, replace(ENTRY, expression="30", digest="second"))
        row = person.schedule(identity)
        assert (row["expression"], row["code_digest"]) == ("30", "second")
        assert person.cursor(identity)["version"] == 2

    def test_removed_there_is_removed_here(self, store: Database, person: Person) -> None:
        sync(store, ENTRY, replace(ENTRY, name="stays"))
        assert sync(store, replace(ENTRY, name="stays")) == CodeSync((), ("from code",), ())
        assert person.value("SELECT name FROM dbbeat_schedule") == "stays"

    def test_what_people_own_is_never_touched(self, store: Database, person: Person) -> None:
        person.add("from code")
        person.add("by hand")
        look = "SELECT *, xmin::text FROM dbbeat_schedule ORDER BY name"
        before = person.do(look)
        assert sync(store, ENTRY) == CodeSync((), (), ("from code",))
        assert sync(store) == CodeSync((), (), ())
        assert person.do(look) == before

    def test_a_name_that_a_person_takes_first_stays_the_persons(
        self, store: Database, person: Person
    ) -> None:
        """The person commits between beat's look and beat's insert."""
        look = "SELECT *, xmin::text FROM dbbeat_schedule"
        with store.transaction() as transaction:
            assert transaction.run("code_schedules", names=[ENTRY.name]).all == []
            person.add("from code")
            before = person.do(look)
            transaction.run(
                "put_code_schedule", **{name: getattr(ENTRY, name) for name in ENTRY.__slots__}
            )
        assert person.do(look) == before

    def test_a_paused_entry_stays_paused(self, store: Database, person: Person) -> None:
        sync(store, ENTRY)
        person.do("UPDATE dbbeat_schedule SET state = 'paused'")
        sync(store, replace(ENTRY, expression="30", digest="second"))
        row = person.one("SELECT state, expression FROM dbbeat_schedule")
        assert row == {"state": "paused", "expression": "30"}
        assert person.value("SELECT due_at FROM dbbeat_cursor") is None
