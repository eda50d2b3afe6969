"""An app whose schedules are in the test's database, and a clerk who fills it."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from celery import Celery

from celery_dbbeat import Schedules
from tests.api.kit import Clerk


@pytest.fixture
def clerk(database_url: str) -> Iterator[Clerk]:
    with closing(Clerk(database_url)) as somebody:
        yield somebody


@pytest.fixture
def app(database_url: str) -> Celery:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = database_url
    return app


@pytest.fixture
def schedules(app: Celery) -> Schedules:
    return Schedules(app)
