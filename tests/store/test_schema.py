"""The same store in a schema of its own, and through a pooler that keeps no session."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest
from psycopg import sql

from celery_dbbeat.store import cursors, housekeeping, leases, schedules, statements, ticks
from celery_dbbeat.store.database import Database, Rows, Transaction
from celery_dbbeat.store.leases import Replica
from celery_dbbeat.store.migrate import check, migrate
from celery_dbbeat.store.schedules import CodeSchedule, Ending
from celery_dbbeat.store.ticks import Adopter
from tests.store.kit import EVERYTHING, TTL, Person, dispatch, take
from tests.store.order_walks import backfill, give_orders
from tests.store.walks import (
    bring_in,
    hold_back,
    look_back,
    look_into,
    manage,
    recover,
    watch,
    work,
)
from tests.support.services import Databases, PgBouncer

ME = Replica("a", "host", 1, "0.1.0")
SCHEMA = "elsewhere"
# Postgres shows a word of SQL's in quotes in some places and not in others.
WORD = "order"
ENTRY = CodeSchedule("code", "t", "interval", "60", "UTC", "[]", "{}", "{}", "digest")


@pytest.fixture
def bare_url(databases: Databases) -> Iterator[str]:
    """A database whose search path leads to no table of ours."""
    name = f"dbbeat_test_{uuid4().hex}"
    yield databases.create(name)
    databases.drop(name)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of all statements that were run."""
    seen: set[str] = set()
    run = Transaction.run

    def noting(transaction: Transaction, name: str, /, **parameters: object) -> Rows:
        seen.add(name)
        return run(transaction, name, **parameters)

    monkeypatch.setattr(Transaction, "run", noting)
    return seen


def keep_leases(store: Database, channel: str) -> None:
    leases.heartbeat(store, ME, ready=True, listener_pid=None, ttl=TTL)
    assert len(leases.acquire(store, ME.id, TTL, 1)) == 1
    leases.resign(store, ME.id, channel, keep=0)
    with store.transaction() as transaction:
        leases.reslice(transaction, 4, channel)
    leases.leave(store, ME.id, channel)
    housekeeping.keep(store, timedelta(days=90))


def send(store: Database, person: Person) -> None:
    """One tick sent, one adopted, one missed, and the looks around them."""
    person.add_due("one", "two")
    person.do("UPDATE dbbeat_cursor SET nominal_at = nominal_at - interval '2 days'")
    first, second = dispatch(store)
    assert ticks.mark_sent(store, [first]) == 1
    with store.transaction() as transaction:
        adopted = ticks.adopt_unsent(transaction, Adopter("b", TTL, TTL), 10, own_too=False)
    assert [one.schedule.name for one in adopted.outgoing] == [second.schedule.name]
    assert ticks.give_up(store, {second: "why"}) == 1
    outlook = cursors.outlook(store, EVERYTHING, "a", TTL)
    assert outlook.any_due == outlook.held_due is not None
    assert outlook.unsent_since is None


def end_and_mend(store: Database, person: Person) -> None:
    person.add_due("three")
    with store.transaction() as transaction:
        ((due, _),) = take(transaction)
        cursors.revisit(transaction, [due.schedule.id])
        assert len(schedules.end(transaction, [Ending(due.schedule, "invalid", "why")])) == 1
    store.run("mend_cursors", schedule_ids=[due.schedule.id])


def sync_code(store: Database) -> None:
    for wanted in ({"code": ENTRY}, {}):
        with store.transaction() as transaction:
            transaction.act_as("a", "code")
            schedules.sync_code(transaction, wanted)


def test_every_statement_works_in_a_schema_of_its_own(bare_url: str, ran: set[str]) -> None:
    migrate(bare_url, SCHEMA)
    with (
        Database(bare_url, SCHEMA, 5.0) as store,
        closing(Person(bare_url, SCHEMA)) as person,
    ):
        check(store)
        assert store.run("home_schema").one() == {"name": SCHEMA}
        assert store.now() <= store.now()
        keep_leases(store, f"dbbeat_{SCHEMA}")
        send(store, person)
        end_and_mend(store, person)
        sync_code(store)
        work(store)
        recover(store, person)
        look_back(store)
        hold_back(store, person)
        look_into(store)
        manage(store)
        give_orders(store, person)
        backfill(store, person)
        bring_in(store)
        watch(store)
        tables = person.do("SELECT schemaname FROM pg_tables WHERE tablename LIKE 'dbbeat%%'")
    assert {row["schemaname"] for row in tables} == {SCHEMA}
    assert ran == statements.load(None).keys()


def test_plain_sql_from_another_search_path_keeps_the_cursor_in_step(bare_url: str) -> None:
    migrate(bare_url, SCHEMA)
    with closing(Person(bare_url)) as person:
        person.do(
            "INSERT INTO elsewhere.dbbeat_schedule (name, task, kind, expression)"
            " VALUES ('one', 't', 'interval', '60')"
        )
        person.do("UPDATE elsewhere.dbbeat_schedule SET state = 'paused'")
        assert person.value("SELECT version FROM elsewhere.dbbeat_cursor") == 2
        person.do("DELETE FROM elsewhere.dbbeat_schedule")
        assert person.value("SELECT count(*) FROM elsewhere.dbbeat_cursor") == 0


def test_the_channel_is_the_one_that_the_triggers_notify(bare_url: str) -> None:
    migrate(bare_url, WORD)
    with (
        Database(bare_url, WORD, 5.0) as store,
        closing(Person(bare_url, WORD)) as person,
        closing(Person(bare_url)) as listener,
    ):
        channel = f"dbbeat_{store.run('home_schema').one()['name']}"
        listener.connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        person.add()
        heard = list(listener.connection.notifies(timeout=5, stop_after=1))
    assert [one.payload for one in heard] == ["schedule"]


def test_two_schemas_in_one_database_do_not_see_each_other(bare_url: str) -> None:
    for schema in (SCHEMA, WORD):
        migrate(bare_url, schema)
    with (
        closing(Person(bare_url, SCHEMA)) as person,
        Database(bare_url, SCHEMA, 5.0) as ours,
        Database(bare_url, WORD, 5.0) as theirs,
    ):
        person.add_due("one")
        assert dispatch(theirs) == []
        assert len(dispatch(ours)) == 1


def test_through_a_pooler_in_transaction_mode(pgbouncer: PgBouncer, person: Person) -> None:
    with Database(pgbouncer.url, None, 5.0) as store:
        check(store)
        keep_leases(store, "dbbeat_public")
        send(store, person)
        end_and_mend(store, person)
        sync_code(store)
        work(store)
        recover(store, person)
        look_back(store)
        hold_back(store, person)
        look_into(store)
        manage(store)
        give_orders(store, person)
        backfill(store, person)
        bring_in(store)
        watch(store)


def test_two_replicas_through_a_pooler_claim_disjoint_cursors(
    pgbouncer: PgBouncer, person: Person
) -> None:
    person.add_due("one", "two")
    with (
        Database(pgbouncer.url, None, 5.0) as first,
        Database(pgbouncer.url, None, 5.0) as second,
        first.transaction() as winner,
        second.transaction() as loser,
    ):
        assert len(take(winner, limit=1)) == 1
        assert len(take(loser)) == 1


def test_a_pooled_connection_keeps_none_of_a_transactions_limits(pgbouncer: PgBouncer) -> None:
    with Database(pgbouncer.url, None, 4.0) as store:
        with store.transaction() as transaction:
            transaction.run("home_schema")
        (row,) = store._connect().execute("SHOW statement_timeout")
    assert row == {"statement_timeout": "0"}


def test_every_column_that_people_read_says_what_it_is(person: Person) -> None:
    silent = person.do(
        "SELECT c.relname, a.attname FROM pg_class c"
        " LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
        " WHERE c.relname LIKE 'dbbeat%%' AND c.relkind IN ('r', 'p', 'v') AND NOT c.relispartition"
        " AND c.relname <> 'dbbeat_alembic_version' AND (obj_description(c.oid) IS NULL"
        " OR col_description(c.oid, a.attnum) IS NULL)"
    )
    assert [f"{row['relname']}.{row['attname']}" for row in silent] == []
