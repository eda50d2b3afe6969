"""The pages of a small shop, and people who look at them."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from celery import Celery

from celery_dbbeat import Schedules
from celery_dbbeat.contrib.web import create_app, hash_password
from tests.api.kit import Clerk
from tests.support.bad_input import register
from tests.web.visitor import PASSWORDS, Visitor

SECRET = "a secret that nobody could guess, I hope"  # noqa: S105 - it is none


@pytest.fixture(scope="session")
def users() -> dict[str, str]:
    """Ada may write, Bob may look."""
    return {name: hash_password(password) for name, password in PASSWORDS.items()}


@pytest.fixture
def app(database_url: str) -> Celery:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = database_url
    register(app)
    return app


@pytest.fixture
def schedules(app: Celery) -> Schedules:
    return Schedules(app)


@pytest.fixture
def clerk(database_url: str) -> Iterator[Clerk]:
    with closing(Clerk(database_url)) as somebody:
        yield somebody


@pytest.fixture
def stranger(app: Celery, users: dict[str, str]) -> Iterator[Visitor]:
    with Visitor(create_app(app, users=users, editors=["ada"], secret=SECRET)) as somebody:
        yield somebody


@pytest.fixture
def ada(stranger: Visitor) -> Visitor:
    """Somebody who may write."""
    stranger.log_in("ada")
    return stranger


@pytest.fixture
def bob(app: Celery, users: dict[str, str]) -> Iterator[Visitor]:
    """Somebody who may look."""
    with Visitor(create_app(app, users=users, editors=["ada"], secret=SECRET)) as somebody:
        somebody.log_in("bob")
        yield somebody
