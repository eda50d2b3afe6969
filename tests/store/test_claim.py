"""Two replicas and a person at the same cursor: who wins, and what the other then sees."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

from celery_dbbeat.store import cursors
from celery_dbbeat.store.cursors import Holding
from celery_dbbeat.store.database import Database
from tests.store.kit import HEDGE, NOTHING, Person, Waiting, dispatch, names, take
from tests.support.waiting import wait_until

SLOW_CLAIM = 7
WAITING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE application_name = 'celery-dbbeat' AND datname = current_database()
      AND cardinality(pg_blocking_pids(pid)) > 0
"""


class TestWhatIsClaimed:
    def test_what_is_longest_overdue_comes_first(self, store: Database, person: Person) -> None:
        person.add_due("first", "second", "third")
        with store.transaction() as transaction:
            assert names(take(transaction, limit=2)) == ["first", "second"]

    def test_what_is_not_due_is_left(self, store: Database, person: Person) -> None:
        (later,) = person.add_due("later")
        person.make_due(later, timedelta(seconds=-60))
        with store.transaction() as transaction:
            assert take(transaction) == []

    def test_a_standby_takes_only_what_is_overdue_by_the_hedge(
        self, store: Database, person: Person
    ) -> None:
        fresh, overdue = person.add_due("fresh", "overdue")
        person.make_due(fresh, timedelta(0))
        person.make_due(overdue, 2 * HEDGE)
        with store.transaction() as transaction:
            taken = take(transaction, NOTHING, hedge=timedelta(seconds=1.5))
        assert names(taken) == ["overdue"]
        assert [due.epoch for due, _ in taken] == [None]

    def test_the_holder_of_a_shard_takes_it_at_once_under_its_epoch(
        self, store: Database, person: Person
    ) -> None:
        mine, theirs = person.add_due("mine", "theirs")
        for identity, shard in ((mine, 3), (theirs, 4)):
            person.make_due(identity, timedelta(0))
            person.do("UPDATE dbbeat_cursor SET shard = %s WHERE schedule_id = %s", shard, identity)
        with store.transaction() as transaction:
            taken = take(transaction, Holding({3: 17}), hedge=timedelta(minutes=1))
        assert names(taken) == ["mine"]
        assert [due.epoch for due, _ in taken] == [17]

    def test_the_time_is_the_databases(self, store: Database, person: Person) -> None:
        person.add_due("due")
        before = person.value("SELECT clock_timestamp()")
        with store.transaction() as transaction:
            now, _ = cursors.claim(transaction, NOTHING, HEDGE, 10)
        assert now is not None
        assert before <= now <= person.value("SELECT clock_timestamp()")

    def test_who_truncates_the_schedules_meanwhile_is_not_in_its_way(
        self, store: Database, person: Person, database_url: str
    ) -> None:
        """Both take the table of schedules first: else each would wait for the other's."""
        person.add_due("due")
        with ThreadPoolExecutor(1) as pool, closing(Person(database_url)) as observer:
            with person.connection.transaction():
                person.do("LOCK TABLE dbbeat_schedule IN ACCESS EXCLUSIVE MODE")
                claim = pool.submit(dispatch, store)
                wait_until(lambda: observer.value(WAITING) == 1, message="a claim that waits")
                person.do("TRUNCATE dbbeat_schedule")
            assert claim.result() == []


class TestTwoReplicas:
    def test_the_second_skips_what_the_first_holds(
        self, store: Database, other_store: Database, person: Person
    ) -> None:
        person.add_due("one", "two", "three")
        with store.transaction() as winner, other_store.transaction() as loser:
            assert names(take(winner, limit=2)) == ["one", "two"]
            assert names(take(loser)) == ["three"]

    def test_what_the_first_gave_up_is_still_due(
        self, store: Database, other_store: Database, person: Person
    ) -> None:
        person.add_due("one")
        with store.transaction() as transaction:
            take(transaction)
        assert [one.schedule.name for one in dispatch(other_store)] == ["one"]

    def test_the_second_finds_nothing_after_the_first_recorded(
        self, store: Database, other_store: Database, person: Person
    ) -> None:
        person.add_due("one")
        assert len(dispatch(store)) == 1
        assert dispatch(other_store) == []


class TestRecord:
    def test_a_second_record_of_the_same_plan_has_nothing_to_send(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        with store.transaction() as transaction:
            taken = take(transaction)
            assert len(cursors.record(transaction, taken, "a")) == 1
        with store.transaction() as transaction:
            assert cursors.record(transaction, taken, "b") == []
        (tick,) = person.ticks(identity)
        assert (tick["state"], tick["replica"], tick["epoch"]) == ("recorded", "a", 1)

    def test_the_cursor_moves_with_the_tick(self, store: Database, person: Person) -> None:
        (identity,) = person.add_due("one")
        before = person.cursor(identity)
        dispatch(store)
        after = person.cursor(identity)
        assert after["nominal_at"] == before["nominal_at"] + timedelta(days=1)
        assert after["due_at"] == after["nominal_at"]
        assert after["runs"] == 1

    def test_what_is_not_sent_gets_a_row_with_the_reason(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one", expression="3600", misfire_grace=timedelta(minutes=90))
        person.do("UPDATE dbbeat_cursor SET nominal_at = nominal_at - interval '5 days'")
        dispatch(store)
        states = {tick["state"]: tick for tick in person.ticks(identity)}
        assert states.keys() >= {"missed", "recorded"}
        assert states["missed"]["count"] > 1
        assert "misfire_grace" in states["missed"]["reason"]


class TestAPersonAtAClaimedSchedule:
    """Beat wins the cursor; the person waits for it, and has the last word."""

    def test_an_edit_waits_and_then_moves_the_cursor(
        self, store: Database, person: Person, database_url: str
    ) -> None:
        (identity,) = person.add_due("one")
        with store.transaction() as transaction:
            cursors.record(transaction, take(transaction), "a")
            edit = Waiting(database_url, "UPDATE dbbeat_schedule SET expression = '3600'")
        edit.result()
        cursor = person.cursor(identity)
        assert cursor["version"] == 2
        assert cursor["replan_from"] is not None
        assert cursor["runs"] == 1

    def test_a_pause_waits_and_from_then_on_nothing_is_recorded(
        self, store: Database, person: Person, database_url: str
    ) -> None:
        (identity,) = person.add_due("one")
        with store.transaction() as transaction:
            cursors.record(transaction, take(transaction), "a")
            pause = Waiting(database_url, "UPDATE dbbeat_schedule SET state = 'paused'")
        pause.result()
        assert person.cursor(identity)["due_at"] is None
        assert dispatch(store) == []
        assert len(person.ticks(identity)) == 1

    def test_a_delete_waits_and_the_tick_stays(
        self, store: Database, person: Person, database_url: str
    ) -> None:
        (identity,) = person.add_due("one")
        with store.transaction() as transaction:
            cursors.record(transaction, take(transaction), "a")
            delete = Waiting(database_url, "DELETE FROM dbbeat_schedule")
        delete.result()
        assert person.value("SELECT count(*) FROM dbbeat_cursor") == 0
        assert [tick["state"] for tick in person.ticks(identity)] == ["recorded"]

    def test_the_other_way_round_the_claim_does_not_wait(
        self, store: Database, person: Person
    ) -> None:
        person.add_due("held", "free")
        with person.connection.transaction():
            person.do("UPDATE dbbeat_schedule SET state = 'paused' WHERE name = 'held'")
            assert [one.schedule.name for one in dispatch(store)] == ["free"]


class TestStale:
    def test_an_edit_between_snapshot_and_lock_is_left_for_the_next_claim(
        self, store: Database, person: Person, database_url: str
    ) -> None:
        (identity,) = person.add_due("one", args=[1])
        person.do("SELECT pg_advisory_lock(%s)", SLOW_CLAIM)
        claim = Waiting(database_url, *_slow_claim(store))
        person.do("UPDATE dbbeat_schedule SET args = '[2]'")
        before = person.cursor(identity)
        person.do("SELECT pg_advisory_unlock(%s)", SLOW_CLAIM)
        (seen,) = claim.result()
        assert (seen["schedule_id"], seen["stale"]) == (identity, True)
        store.run("mend_cursors", schedule_ids=[identity])
        assert person.cursor(identity) == before
        assert [one.schedule.args for one in dispatch(store)] == ["[2]"]

    def test_a_cursor_that_the_triggers_were_kept_from_is_mended(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        _without_triggers(person, "UPDATE dbbeat_schedule SET expression = '3600', version = 9")
        assert dispatch(store) == []
        mended = person.cursor(identity)
        assert mended["version"] == 9
        assert mended["replan_from"] is not None
        with store.transaction() as transaction:
            assert names(take(transaction)) == ["one"]

    def test_a_cursor_without_a_schedule_is_removed(self, store: Database, person: Person) -> None:
        person.add_due("one")
        _without_triggers(person, "DELETE FROM dbbeat_schedule")
        assert dispatch(store) == []
        assert person.value("SELECT count(*) FROM dbbeat_cursor") == 0


def _slow_claim(store: Database) -> tuple[str, dict[str, object]]:
    """The claim, waiting for a lock after its snapshot and before it locks the cursor."""
    text = store._sql["claim_due"].replace(
        "ORDER BY due_at\n",
        "AND (SELECT true FROM pg_advisory_xact_lock(%(lock)s))\n    ORDER BY due_at\n",
    )
    parameters = {"at_least": timedelta(0), "hedge": HEDGE, "limit": 10, "lock": SLOW_CLAIM}
    return text, {**parameters, "all_shards": True, "shards": []}


def _without_triggers(person: Person, statement: str) -> None:
    with person.connection.transaction():
        person.do("SET LOCAL session_replication_role = replica")
        person.do(statement)
