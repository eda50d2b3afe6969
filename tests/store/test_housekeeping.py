"""What is long gone is forgotten, a short while at a time, and never by waiting for somebody."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from uuid import uuid4

import pytest

from celery_dbbeat.store import housekeeping
from celery_dbbeat.store.database import Database
from tests.store.kit import Person
from tests.support.guarded import read_queue
from tests.support.services import Databases

KEEP = timedelta(days=90)
OLD_DAY = (
    "CREATE TABLE dbbeat_tick_20200101 PARTITION OF dbbeat_tick"
    " FOR VALUES FROM ('2020-01-01 UTC') TO ('2020-01-02 UTC')"
)
OLD_DAY_IS_THERE = "SELECT to_regclass('dbbeat_tick_20200101') IS NOT NULL"


@pytest.fixture
def database_url(databases: Databases, template: str) -> Iterator[str]:
    """A database of the test's own: partitions go."""
    name = f"dbbeat_test_{uuid4().hex}"
    yield databases.create(name, template)
    databases.drop(name)


def test_days_older_than_the_retention_go(store: Database, person: Person) -> None:
    person.do(OLD_DAY)
    assert housekeeping.keep(store, timedelta(days=36_500))
    assert person.value(OLD_DAY_IS_THERE)
    assert housekeeping.keep(store, KEEP)
    assert not person.value(OLD_DAY_IS_THERE)


def test_somebody_who_reads_them_is_not_waited_for_and_it_is_no_error(
    store: Database, person: Person, database_url: str
) -> None:
    person.do(OLD_DAY)
    with closing(Person(database_url)) as reader, reader.connection.transaction():
        reader.do("SELECT count(*) FROM dbbeat_tick_20200101")
        assert housekeeping.keep(store, KEEP)
        assert person.value(OLD_DAY_IS_THERE)
    assert housekeeping.keep(store, KEEP)
    assert not person.value(OLD_DAY_IS_THERE)


def test_when_there_is_much_it_goes_on_another_time(
    store: Database, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    person.do(OLD_DAY)
    with monkeypatch.context() as patch:
        patch.setattr(housekeeping, "RETIRE_FOR", 0.0)
        assert not housekeeping.keep(store, KEEP)
    assert person.value(OLD_DAY_IS_THERE)
    assert housekeeping.keep(store, KEEP)


def test_workers_long_silent_are_forgotten(store: Database, person: Person) -> None:
    read_queue(person, "busy")
    read_queue(person, "deserted", silent_for=timedelta(hours=25))
    housekeeping.keep(store, KEEP)
    assert person.value("SELECT queues FROM dbbeat_worker") == ["busy"]
