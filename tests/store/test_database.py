"""A connection that is never waited on for ever, and comes back by itself."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import psycopg
import pytest

from celery_dbbeat.errors import DatabaseUnavailable, DbbeatError, SchemaError
from celery_dbbeat.store.database import Database
from tests.store.conftest import MakeStore
from tests.store.kit import Person, dispatch, names, take
from tests.support.services import Postgres, free_port
from tests.support.waiting import wait_until

ANSWER = "home_schema"


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if the block takes longer."""
    started_at = time.monotonic()
    yield
    assert time.monotonic() - started_at < seconds


def backend(store: Database) -> int:
    """The server process behind a store that has been used."""
    assert store._connection is not None
    return store._connection.info.backend_pid


class TestTransaction:
    def test_what_raises_is_rolled_back(self, store: Database, person: Person) -> None:
        def fail() -> None:
            with store.transaction() as transaction:
                transaction.run("reslice", slots=7)
                raise LookupError

        with pytest.raises(LookupError):
            fail()
        assert person.value("SELECT count(*) FROM dbbeat_lease") == 1
        assert store.run(ANSWER).one() == {"name": "public"}

    def test_it_has_its_limits_on_the_server(self, database_url: str) -> None:
        with Database(database_url, None, 4.0, idle_timeout=2.5) as store:
            with store.transaction() as transaction:
                seen = {name: _setting(transaction._connection, name) for name in LIMITS}
            after = {name: _setting(store._connection, name) for name in LIMITS}
        assert seen == LIMITS
        assert after["statement_timeout"] == "0"

    def test_a_frozen_one_loses_its_rows_after_the_idle_time_out(
        self, database_url: str, store: Database, person: Person
    ) -> None:
        """The frozen replica wins the cursor and stops; the other has to get it all the same."""
        person.add_due("one")
        frozen = Database(database_url, None, 5.0, idle_timeout=0.3)

        def freeze() -> None:
            with frozen.transaction() as transaction:
                assert names(take(transaction)) == ["one"]
                assert dispatch(store) == []
                wait_until(lambda: dispatch(store, "other"), message="the frozen one's row")
                take(transaction)

        with pytest.raises(DatabaseUnavailable):
            freeze()
        assert person.value("SELECT replica FROM dbbeat_tick") == "other"

    def test_a_lock_is_not_waited_for_longer_than_the_time_out(
        self, database_url: str, person: Person
    ) -> None:
        with (
            Database(database_url, None, 0.3) as store,
            person.connection.transaction(),
            within(3),
        ):
            person.do("LOCK TABLE dbbeat_lease")
            with pytest.raises(DatabaseUnavailable), store.transaction() as transaction:
                transaction.run("lock_leases")


LIMITS = {
    "statement_timeout": "4s",
    "lock_timeout": "4s",
    "idle_in_transaction_session_timeout": "2500ms",
}


def _setting(connection: psycopg.Connection[dict[str, object]] | None, name: str) -> object:
    assert connection is not None
    (row,) = connection.execute("SELECT current_setting(%s) AS value", [name])
    return row["value"]


class TestBrokenConnections:
    def test_a_terminated_backend_is_told_and_the_next_use_connects_again(
        self, store: Database, person: Person
    ) -> None:
        store.run(ANSWER)
        person.do("SELECT pg_terminate_backend(%s, 5000)", backend(store))
        with pytest.raises(DatabaseUnavailable):
            store.run(ANSWER)
        assert store.run(ANSWER).one() == {"name": "public"}

    def test_a_backend_terminated_in_a_transaction_undoes_it(
        self, store: Database, person: Person
    ) -> None:
        def lose_it() -> None:
            with store.transaction() as transaction:
                transaction.run("reslice", slots=7)
                person.do("SELECT pg_terminate_backend(%s, 5000)", backend(store))

        with pytest.raises(DatabaseUnavailable):
            lose_it()
        assert person.value("SELECT count(*) FROM dbbeat_lease") == 1

    def test_nobody_listening_is_unavailable(self) -> None:
        url = f"postgresql+psycopg://nobody:s3cret@127.0.0.1:{free_port()}/none"
        with pytest.raises(DatabaseUnavailable) as error, Database(url, None, 1.0) as store:
            store.run(ANSWER)
        assert "s3cret" not in str(error.value)

    def test_a_database_that_is_not_there_is_unavailable(self, database_url: str) -> None:
        with (
            pytest.raises(DatabaseUnavailable, match="no_such"),
            Database(f"{database_url}_no_such", None, 1.0) as store,
        ):
            store.run(ANSWER)

    def test_close_twice_is_close(self, make_store: MakeStore) -> None:
        store = make_store()
        store.close()
        store.run(ANSWER)
        store.close()
        store.close()


class TestAServerThatHangs:
    def test_every_way_to_wait_for_it_ends(
        self, own_postgres: Postgres, own_database_url: str
    ) -> None:
        def hang_in_a_transaction(store: Database) -> None:
            with store.transaction() as transaction:
                transaction.run(ANSWER)
                own_postgres.pause()
                with within(2):
                    transaction.run(ANSWER)

        with ExitStack() as stack:
            idle, busy, new = (
                stack.enter_context(Database(own_database_url, None, 0.5)) for _ in range(3)
            )
            idle.run(ANSWER)
            with pytest.raises(DatabaseUnavailable):
                hang_in_a_transaction(busy)
            with within(2), pytest.raises(DatabaseUnavailable):
                idle.run(ANSWER)
            with within(4), pytest.raises(DatabaseUnavailable):
                new.run(ANSWER)
            own_postgres.resume()
            for store in (idle, busy, new):
                assert store.run(ANSWER).one() == {"name": "public"}


class TestErrorsInOurWords:
    def test_a_missing_table_says_what_to_run(self, database_url: str) -> None:
        with (
            pytest.raises(SchemaError, match="dbbeat migrate"),
            Database(database_url, "elsewhere", 5.0) as store,
        ):
            store.run("forget_replicas")

    def test_a_refused_statement_is_no_outage(self, store: Database) -> None:
        with pytest.raises(DbbeatError, match="Postgres refused") as error:
            store.run("reslice", slots=257)
        assert not isinstance(error.value, DatabaseUnavailable)

    def test_the_connection_says_whose_it_is(self, store: Database, person: Person) -> None:
        store.run(ANSWER)
        with closing(store):
            name = person.value(
                "SELECT application_name FROM pg_stat_activity WHERE pid = %s", backend(store)
            )
        assert name == "celery-dbbeat"
