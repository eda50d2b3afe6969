"""A person and replicas, each with a connection of their own to the test's database."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from uuid import uuid4

import pytest

from celery_dbbeat.store.database import Database
from tests.store.kit import Person
from tests.support.services import Databases

MakeStore = Callable[[], Database]


# As a migration leaves them.
EMPTY = """
    DELETE FROM dbbeat_schedule; DELETE FROM dbbeat_cursor; DELETE FROM dbbeat_tick;
    DELETE FROM dbbeat_replica; DELETE FROM dbbeat_lease;
    DELETE FROM dbbeat_dedup; DELETE FROM dbbeat_worker; DELETE FROM dbbeat_backfill;
    DELETE FROM dbbeat_audit; DELETE FROM dbbeat_open; DELETE FROM dbbeat_cancelled;
    DELETE FROM dbbeat_pace; INSERT INTO dbbeat_pace DEFAULT VALUES;
    INSERT INTO dbbeat_lease (slot, first_shard, last_shard) VALUES (0, 0, 255);
"""


@pytest.fixture(scope="module")
def shared_url(databases: Databases, template: str) -> Iterator[str]:
    """One database for all tests of a file."""
    name = f"dbbeat_test_{uuid4().hex}"
    yield databases.create(name, template)
    databases.drop(name)


@pytest.fixture
def database_url(shared_url: str) -> Iterator[str]:
    """The file's database, emptied after each test: many tests, each with few rows."""
    yield shared_url
    with closing(Person(shared_url)) as cleaner:
        cleaner.connection.execute("SET lock_timeout = '5s'")
        cleaner.connection.execute(EMPTY)


@pytest.fixture
def person(database_url: str) -> Iterator[Person]:
    with closing(Person(database_url)) as somebody:
        yield somebody


@pytest.fixture
def visitor(shared_url: str) -> Iterator[Person]:
    """A person whose every change is rolled back."""
    with (
        closing(Person(shared_url)) as somebody,
        somebody.connection.transaction(force_rollback=True),
    ):
        yield somebody


@pytest.fixture
def make_store(database_url: str) -> Iterator[MakeStore]:
    """Makes connections of replicas, with time-outs short enough to fail a test by."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(Database(database_url, None, 5.0))


@pytest.fixture
def store(make_store: MakeStore) -> Database:
    """One replica's connection."""
    return make_store()


@pytest.fixture
def other_store(make_store: MakeStore) -> Database:
    """Another replica's connection."""
    return make_store()
