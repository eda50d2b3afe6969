"""Partitions of ticks and runs are made ahead, take over what came too early, and are made once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest

from celery_dbbeat.store import housekeeping
from celery_dbbeat.store.database import Database
from tests.store.kit import Person, Waiting, dispatch
from tests.support.services import Databases

PARTITIONS = (
    "SELECT inhrelid::regclass::text AS name FROM pg_inherits"
    " WHERE inhparent = %s::regclass AND inhrelid::regclass::text <> %s"
)
PARENTS = ["dbbeat_tick", "dbbeat_dedup"]
EARLY_TICK = (
    "INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica)"
    " SELECT gen_random_uuid(), now() + interval '7 days', gen_random_uuid(), 'recorded', now(),"
    " 'a' FROM generate_series(1, %s)"
)
EARLY_RUN = (
    "INSERT INTO dbbeat_dedup (task_id, nominal_at, schedule, status, attempt, worker, lease_until)"
    " SELECT gen_random_uuid(), now() + interval '7 days', 'nightly', 'done', 1, 'w', now()"
    " FROM generate_series(1, %s)"
)
EARLY = dict(zip(PARENTS, [EARLY_TICK, EARLY_RUN], strict=True))
ROWS = {
    "dbbeat_tick": "SELECT * FROM dbbeat_tick ORDER BY task_id",
    "dbbeat_dedup": "SELECT * FROM dbbeat_dedup ORDER BY task_id",
}
OUTSIDE = {
    "dbbeat_tick": "SELECT count(*) FROM dbbeat_tick_default",
    "dbbeat_dedup": "SELECT count(*) FROM dbbeat_dedup_default",
}
MORE = 5 * len(PARENTS)
MAKE = "SELECT dbbeat_make_partitions(12) AS made"


@pytest.fixture
def database_url(databases: Databases, template: str) -> Iterator[str]:
    """A database of the test's own: partitions stay."""
    name = f"dbbeat_test_{uuid4().hex}"
    yield databases.create(name, template)
    databases.drop(name)


def days(person: Person, parent: str = "dbbeat_tick") -> list[str]:
    return sorted(row["name"] for row in person.do(PARTITIONS, parent, f"{parent}_default"))


@pytest.mark.parametrize("parent", PARENTS)
def test_a_week_is_there_after_the_migration(person: Person, parent: str) -> None:
    assert len(days(person, parent)) == 7
    today = person.value("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')")
    assert days(person, parent)[0] == f"{parent}_{today}"


def test_more_days_are_made_once(store: Database, person: Person) -> None:
    assert store.run("make_partitions", days=12).one() == {"made": MORE}
    assert store.run("make_partitions", days=12).one() == {"made": 0}
    assert [len(days(person, parent)) for parent in PARENTS] == [12, 12]


def test_housekeeping_makes_what_is_missing(store: Database, person: Person) -> None:
    for name in days(person)[3:]:
        person.do(f"DROP TABLE {name}")
    housekeeping.keep(store, timedelta(days=90))
    assert len(days(person)) == housekeeping.DAYS_AHEAD


@pytest.mark.parametrize("parent", PARENTS)
def test_what_came_before_its_partition_moves_into_it(
    store: Database, person: Person, parent: str
) -> None:
    person.do(EARLY[parent], 3)
    before = person.do(ROWS[parent])
    assert person.value(OUTSIDE[parent]) == 3
    store.run("make_partitions", days=12)
    assert person.value(OUTSIDE[parent]) == 0
    assert person.do(ROWS[parent]) == before


def test_a_new_partition_has_the_indexes_of_the_others(store: Database, person: Person) -> None:
    store.run("make_partitions", days=12)
    count = "SELECT count(*) FROM pg_index WHERE indrelid = %s::regclass"
    attached = (
        "SELECT count(*) FROM pg_index i JOIN pg_inherits h ON h.inhrelid = i.indexrelid"
        " WHERE indrelid = %s::regclass"
    )
    for parent in ("dbbeat_tick", "dbbeat_dedup"):
        found = {person.value(attached, name) for name in days(person, parent)}
        assert found == {person.value(count, parent)}


def test_the_second_of_two_at_once_waits_and_makes_none(person: Person, database_url: str) -> None:
    with person.connection.transaction():
        assert person.value(MAKE) == MORE
        loser = Waiting(database_url, MAKE)
    assert loser.result() == [{"made": 0}]


def test_several_at_once_make_each_day_once(database_url: str, person: Person) -> None:
    def make(_: int) -> int:
        with closing(Person(database_url)) as somebody:
            return int(somebody.value(MAKE))

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(make, range(4))) == MORE
    assert len(days(person)) == 12


def test_a_tick_being_recorded_meanwhile_is_waited_for_and_moved(
    person: Person, database_url: str
) -> None:
    """The recorder has its row in the default partition first; the partition has to wait."""
    with person.connection.transaction():
        person.do(EARLY_TICK, 1)
        maker = Waiting(database_url, MAKE)
    assert maker.result() == [{"made": MORE}]
    assert person.value("SELECT count(*) FROM dbbeat_tick_default") == 0
    assert person.value("SELECT count(*) FROM dbbeat_tick") == 1


def test_recording_into_todays_partition_does_not_wait(
    person: Person, store: Database, database_url: str
) -> None:
    person.add_due("one")
    with closing(Person(database_url)) as maker, maker.connection.transaction():
        maker.do(MAKE)
        assert len(dispatch(store)) == 1
