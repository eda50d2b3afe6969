"""A database to import into, and a person who looks at it."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from celery_dbbeat.store.database import Database
from tests.cli.conftest import celery
from tests.store.kit import Person

__all__ = ["celery"]


@pytest.fixture
def store(database_url: str) -> Iterator[Database]:
    with Database(database_url, None, 5.0) as database:
        yield database


@pytest.fixture
def person(database_url: str) -> Iterator[Person]:
    with closing(Person(database_url)) as somebody:
        yield somebody
