"""Django, set up once for these tests alone, and a database of its own for each."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import django
import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.db import connections
from django.test import Client
from django.test.utils import setup_test_environment, teardown_test_environment
from sqlalchemy import make_url

from celery_dbbeat import Schedules, settings
from tests.api.kit import Clerk
from tests.django import project
from tests.support.services import Databases


def point(url: str) -> None:
    """Let Django connect to that database."""
    parsed = make_url(url)
    connections["default"].close()
    connections["default"].settings_dict.update(
        NAME=parsed.database,
        USER=parsed.username or "",
        PASSWORD=parsed.password or "",
        HOST=parsed.host or parsed.query.get("host", ""),
        PORT=str(parsed.port or parsed.query.get("port", "")),
    )


@pytest.fixture(scope="session")
def _set_up() -> None:
    names = [name for name in vars(project) if name.isupper()]
    django_settings.configure(**{name: getattr(project, name) for name in names})
    django.setup()


@pytest.fixture(scope="module", autouse=True)
def _django(_set_up: None) -> Iterator[None]:
    """Other tests do not have Django's database to fall back to."""
    from celery_dbbeat.contrib.django import place

    settings._fallbacks[:] = [place.url]
    setup_test_environment()
    yield
    teardown_test_environment()
    settings._fallbacks.clear()


@pytest.fixture(scope="session")
def django_template(_set_up: None, databases: Databases) -> Iterator[str]:
    """The name of a database after `manage.py migrate`, to be copied."""
    from celery_dbbeat.contrib.django import place

    name = f"django_template_{uuid4().hex}"
    point(databases.create(name))
    settings._fallbacks[:] = [place.url]
    call_command("migrate", verbosity=0)
    connections["default"].close()
    yield name
    databases.drop(name)


@pytest.fixture
def database_url(databases: Databases, django_template: str) -> Iterator[str]:
    """A fresh database with the tables of Django and of this package; Django is connected to it."""
    name = f"django_{uuid4().hex}"
    url = databases.create(name, django_template)
    point(url)
    yield url
    connections["default"].close()
    databases.drop(name)


@pytest.fixture
def clerk(database_url: str) -> Iterator[Clerk]:
    with closing(Clerk(database_url)) as somebody:
        yield somebody


@pytest.fixture
def schedules(database_url: str) -> Schedules:
    return Schedules(project.app)


@pytest.fixture
def user(database_url: str) -> Any:
    """Ada, who may do all."""
    from django.contrib.auth.models import User

    return User.objects.create_superuser("ada", password="lovelace")  # noqa: S106 - a test's


@pytest.fixture
def client(user: Any) -> Client:
    """A browser in which Ada is logged in."""
    found = Client(raise_request_exception=True)
    found.force_login(user)
    return found
