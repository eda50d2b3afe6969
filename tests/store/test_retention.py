"""What is old goes step by step, and never at the cost of those who work."""

from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from celery_dbbeat.clock import monotonic
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.migrate import migrate
from tests.store.kit import Person, dispatch
from tests.support.services import Databases

KEEP = timedelta(days=30)
# How long a step may hold up others: it gives up after a fifth of a second.
SHORT = 2.0
PARENTS = ["dbbeat_tick", "dbbeat_dedup"]
RETIRE = "SELECT dbbeat_retire(%s) AS step"
MAKE = sql.SQL("CREATE TABLE {} PARTITION OF {} FOR VALUES FROM ({}) TO ({})")
INSERT = {
    "dbbeat_tick": "INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at,"
    " replica) SELECT gen_random_uuid(), %s, gen_random_uuid(), 'sent', now(), 'a'"
    " FROM generate_series(1, %s)",
    "dbbeat_dedup": "INSERT INTO dbbeat_dedup (task_id, nominal_at, schedule, status, attempt,"
    " worker, lease_until) SELECT gen_random_uuid(), %s, 'nightly', 'done', 1, 'w', now()"
    " FROM generate_series(1, %s)",
}
COUNT = {
    "dbbeat_tick": "SELECT count(*) FROM dbbeat_tick_default",
    "dbbeat_dedup": "SELECT count(*) FROM dbbeat_dedup_default",
}


@pytest.fixture
def database_url(databases: Databases, template: str) -> Iterator[str]:
    """A database of the test's own: partitions go."""
    name = f"dbbeat_test_{uuid4().hex}"
    yield databases.create(name, template)
    databases.drop(name)


@pytest.fixture
def today(person: Person) -> date:
    found: date = person.value("SELECT (now() AT TIME ZONE 'UTC')::date")
    return found


def make(person: Person, parent: str, day: date) -> str:
    """A partition of that day, with a row; returns its name."""
    name = f"{parent}_{day:%Y%m%d}"
    bounds = [f"{day} UTC", f"{day + timedelta(days=1)} UTC"]
    person.connection.execute(
        MAKE.format(sql.Identifier(name), sql.Identifier(parent), *map(sql.Literal, bounds))
    )
    person.do(INSERT[parent], f"{day} 12:00 UTC", 1)
    return name


def steps(person: Person) -> list[str]:
    """What is done until nothing is left to do."""
    found = []
    while (step := person.value(RETIRE, KEEP)) is not None:
        found.append(str(step))
    return found


def there(person: Person, name: str) -> bool:
    return bool(person.value("SELECT to_regclass(%s) IS NOT NULL", name))


def attached(person: Person) -> set[str]:
    rows = person.do("SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'")
    return {row["relname"] for row in rows}


def test_after_a_migration_there_is_nothing_to_do(person: Person) -> None:
    assert steps(person) == []


def test_old_partitions_are_detached_then_dropped_and_no_newer_ones(
    person: Person, today: date
) -> None:
    before = attached(person)
    old = {parent: make(person, parent, today - KEEP - timedelta(days=1)) for parent in PARENTS}
    older = make(person, "dbbeat_tick", today - 2 * KEEP)
    # The day that is just kept, in part, is kept as a whole.
    kept = {make(person, parent, today - KEEP) for parent in PARENTS}
    in_turn = [older, old["dbbeat_tick"], old["dbbeat_dedup"]]
    assert steps(person) == [f"{what} {one}" for one in in_turn for what in ("detached", "dropped")]
    assert attached(person) == before | kept
    assert person.value("SELECT count(*) FROM dbbeat_tick") == 1
    assert person.value("SELECT count(*) FROM dbbeat_dedup") == 1


@pytest.mark.parametrize("parent", PARENTS)
def test_what_was_left_detached_is_dropped_the_next_time(
    person: Person, today: date, parent: str
) -> None:
    name = make(person, parent, today - 2 * KEEP)
    assert person.value(RETIRE, KEEP) == f"detached {name}"
    assert there(person, name)
    assert person.value(RETIRE, KEEP) == f"dropped {name}"
    assert not there(person, name)


def test_what_others_detached_or_named_likewise_stays_while_it_is_not_old(
    person: Person, today: date
) -> None:
    name = make(person, "dbbeat_tick", today - timedelta(days=1))
    person.connection.execute(
        sql.SQL("ALTER TABLE dbbeat_tick DETACH PARTITION {}").format(sql.Identifier(name))
    )
    person.do("CREATE TABLE dbbeat_tick_archive ()")
    person.do("CREATE SCHEMA theirs")
    person.do("CREATE TABLE theirs.dbbeat_tick_20200101 ()")
    assert steps(person) == []
    assert there(person, name)
    assert there(person, "theirs.dbbeat_tick_20200101")


@pytest.mark.parametrize("parent", PARENTS)
def test_old_rows_without_a_partition_are_deleted_some_at_a_time(
    person: Person, today: date, parent: str
) -> None:
    person.do(INSERT[parent], today - 2 * KEEP, 5001)
    person.do(INSERT[parent], today - timedelta(days=1), 3)
    assert steps(person) == [f"deleted {count} rows of {parent}_default" for count in (5000, 1)]
    assert person.value(COUNT[parent]) == 3


@pytest.mark.parametrize("parent", PARENTS)
def test_behind_a_reader_it_gives_up_soon_and_nobody_waits_for_it(
    person: Person, store: Database, database_url: str, today: date, parent: str
) -> None:
    name = make(person, parent, today - 2 * KEEP)
    person.add_due("one")
    with closing(Person(database_url)) as reader, reader.connection.transaction():
        reader.do(f"SELECT count(*) FROM {parent}")  # noqa: S608 - one of two names
        began = monotonic()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            person.value(RETIRE, KEEP)
        assert monotonic() - began < SHORT
        assert len(dispatch(store)) == 1
        person.do(INSERT["dbbeat_dedup"], today, 1)
        assert name in attached(person)
    assert steps(person) == [f"detached {name}", f"dropped {name}"]


def test_a_detached_one_that_somebody_reads_is_left_for_the_next_time(
    person: Person, database_url: str, today: date
) -> None:
    name = make(person, "dbbeat_tick", today - 2 * KEEP)
    assert person.value(RETIRE, KEEP) == f"detached {name}"
    with closing(Person(database_url)) as reader, reader.connection.transaction():
        reader.connection.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(name)))
        with pytest.raises(psycopg.errors.LockNotAvailable):
            person.value(RETIRE, KEEP)
    assert steps(person) == [f"dropped {name}"]


def test_in_a_schema_whose_name_needs_quotes(databases: Databases) -> None:
    """And that is not first in the caller's search path."""
    name = f"dbbeat_test_{uuid4().hex}"
    url = databases.create(name)
    try:
        migrate(url, "order")
        with closing(Person(url)) as person:
            day = person.value("SELECT (now() AT TIME ZONE 'UTC')::date") - 2 * KEEP
            with closing(Person(url, '"order"')) as insider:
                made = make(insider, "dbbeat_tick", day)
            found = [
                person.value('SELECT "order".dbbeat_retire(%s) AS step', KEEP) for _ in range(3)
            ]
        assert found == [f"detached {made}", f"dropped {made}", None]
    finally:
        databases.drop(name)
