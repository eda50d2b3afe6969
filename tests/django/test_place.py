"""Where the schedules of a project are: the database, its address, its schema, the app."""

from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from sqlalchemy import make_url

from celery_dbbeat import Schedules
from celery_dbbeat.errors import SettingsError
from celery_dbbeat.settings import Settings
from tests.api.kit import Clerk
from tests.django import project
from tests.django.conftest import point
from tests.support.services import Databases


@pytest.fixture
def place() -> Any:
    from celery_dbbeat.contrib.django import place

    return place


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({"NAME": "shop"}, "postgresql+psycopg:///shop"),
        ({"NAME": "shop", "HOST": "db", "PORT": 6432}, "postgresql+psycopg://db:6432/shop"),
        (
            {"NAME": "shop", "HOST": "db", "USER": "ada@x", "PASSWORD": "p:@/?"},
            "postgresql+psycopg://ada%40x:p%3A%40%2F%3F@db/shop",
        ),
        (
            {"NAME": "shop", "HOST": "/run/pg", "PORT": "5433", "USER": "ada"},
            "postgresql+psycopg://ada@:5433/shop?host=%2Frun%2Fpg",
        ),
        (
            {"NAME": "shop", "HOST": "db", "OPTIONS": {"sslmode": "require", "pool": True,
             "isolation_level": 2, "connect_timeout": 3}},
            "postgresql+psycopg://db/shop?connect_timeout=3&sslmode=require",
        ),
        (
            {"HOST": "db", "OPTIONS": {"service": "shop", "passfile": "/run/pass"}},
            "postgresql+psycopg://db?passfile=%2Frun%2Fpass&service=shop",
        ),
    ],
)  # fmt: skip
def test_the_url_of_a_database(place: Any, given: dict[str, Any], url: str) -> None:
    assert make_url(place._url(given)) == make_url(url)


def test_a_database_that_is_no_postgres(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(connections["default"]), "vendor", "sqlite")
    with pytest.raises(SettingsError, match="set DBBEAT_DATABASE"):
        place.url()


def test_a_database_that_is_not_there(place: Any) -> None:
    with (
        override_settings(DBBEAT_DATABASE="other"),
        pytest.raises(SettingsError, match=r"'other'; allowed is one of DATABASES: 'default'"),
    ):
        place.alias()


@pytest.mark.parametrize("named", ["shop", "nowhere.celery:app", "tests.django.project:TIME_ZONE"])
def test_an_app_that_is_none(place: Any, named: str) -> None:
    with (
        override_settings(DBBEAT_APP=named),
        pytest.raises(SettingsError, match="allowed is a module and a Celery app"),
    ):
        place.find_app()


def test_the_apps_of_a_project(place: Any) -> None:
    assert place.find_app() is project.app
    current = Celery("current", set_as_current=True)
    with override_settings(DBBEAT_APP=None):
        assert place.find_app() is current


def test_the_database_of_django_is_that_of_the_schedules(database_url: str) -> None:
    url = Settings.read(project.app.conf, {}).url
    assert make_url(url).database == make_url(database_url).database


def test_migrate_makes_the_tables_again_and_again(
    databases: Databases, database_url: str, clerk: Clerk
) -> None:
    call_command("migrate", verbosity=0)
    assert clerk.value("SELECT count(*) FROM dbbeat_alembic_version") == 1
    text = "SELECT count(*) FROM auth_permission WHERE codename = 'backfill_schedule'"
    assert clerk.value(text) == 1


def test_no_migration_of_djangos_own_is_wanted(database_url: str) -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_a_database_for_tests_gets_the_tables(database_url: str) -> None:
    """As Django's own test runner makes one."""
    connection = connections["default"]
    before = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0)
    try:
        assert connection.settings_dict["NAME"] == f"test_{before}"
        Schedules(project.app).create("in a test", "t", interval=60)
    finally:
        connection.creation.destroy_test_db(before, verbosity=0)
        point(database_url)
    assert Schedules(project.app).list() == []


def test_a_url_that_leads_elsewhere_is_refused(
    place: Any,
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert place.check() == []
    elsewhere = make_url(database_url).set(database="elsewhere")
    monkeypatch.setenv("DBBEAT_URL", elsewhere.render_as_string(hide_password=False))
    (said,) = place.check()
    assert "leads to the database 'elsewhere'" in said.msg
    with pytest.raises(SettingsError, match="elsewhere"):
        place.schedules("ada")
    through_a_pooler = make_url(database_url).set(host="pooler", port=6432)
    monkeypatch.setenv("DBBEAT_URL", through_a_pooler.render_as_string(hide_password=False))
    assert place.check() == []


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A schema that is set, and that the models read."""
    from django.apps import apps

    from celery_dbbeat.contrib.django import tables

    monkeypatch.setenv("DBBEAT_SCHEMA", "planner")
    before = {model: model._meta.db_table for model in apps.get_app_config("dbbeat").get_models()}
    tables.name_them(before, "planner")
    yield "planner"
    for model, table in before.items():
        tables.rename(model, table)


def test_a_schema_of_its_own(
    database_url: str, client: Any, planner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_command("migrate", verbosity=0)
    made = Schedules(project.app).create("in a schema", "t", interval=60)
    text = client.get("/admin/dbbeat/schedule/?q=schema").content.decode()
    assert "in a schema" in text
    assert client.get(f"/admin/dbbeat/schedule/{made.id}/runs/").status_code == 200
    monkeypatch.delenv("DBBEAT_SCHEMA")
    assert Schedules(project.app).list() == []
