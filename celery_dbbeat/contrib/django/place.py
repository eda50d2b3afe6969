"""Where the schedules of a Django project are, and which Celery app they belong to."""

import os
from collections.abc import Mapping
from typing import Any

from celery import Celery, current_app
from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.db import connections
from django.utils.module_loading import import_string
from sqlalchemy import URL, make_url

from celery_dbbeat.api import Schedules
from celery_dbbeat.errors import SettingsError
from celery_dbbeat.settings import Settings, read_one

#: What of a database's OPTIONS Django keeps for itself; all else it passes on to the driver.
_DJANGOS = frozenset({"pool", "isolation_level", "server_side_binding", "assume_role"})


def alias() -> str:
    """The database of DATABASES that holds the schedules."""
    found = getattr(settings, "DBBEAT_DATABASE", "default")
    if found not in connections:
        known = ", ".join(map(repr, connections))
        raise SettingsError(f"DBBEAT_DATABASE is {found!r}; allowed is one of DATABASES: {known}")
    return str(found)


def url() -> str:
    """That database as a SQLAlchemy URL, as Django connects to it just now."""
    name = alias()
    connection = connections[name]
    if connection.vendor != "postgresql":
        raise SettingsError(
            f"DATABASES[{name!r}] is {connection.settings_dict['ENGINE']!r}; allowed is a Postgres "
            "database: set DBBEAT_DATABASE to one"
        )
    return _url(connection.settings_dict)


def _url(given: Mapping[str, Any]) -> str:
    host: str | None = given.get("HOST") or None
    query = {
        key: str(value)
        for key, value in (given.get("OPTIONS") or {}).items()
        if key not in _DJANGOS and isinstance(value, str | int)
    }
    if host is not None and host.startswith("/"):
        query["host"], host = host, None
    return URL.create(
        "postgresql+psycopg",
        username=given.get("USER") or None,
        password=given.get("PASSWORD") or None,
        host=host,
        port=int(given["PORT"]) if given.get("PORT") else None,
        database=given.get("NAME") or None,
        query=query,
    ).render_as_string(hide_password=False)


def find_app() -> Celery:
    """The app that DBBEAT_APP names, as "shop.celery:app", or the one that is current at start."""
    named = getattr(settings, "DBBEAT_APP", None)
    if named is None:
        return current_app._get_current_object()  # noqa: SLF001 - the app behind Celery's proxy
    allowed = "a module and a Celery app in it, such as 'shop.celery:app'"
    try:
        found = import_string(str(named).replace(":", "."))
    except ImportError as error:
        raise SettingsError(f"DBBEAT_APP is {named!r}: {error}; allowed is {allowed}") from error
    if not isinstance(found, Celery):
        raise SettingsError(
            f"DBBEAT_APP is {named!r}, a {type(found).__name__}; allowed is {allowed}"
        )
    return found


def app() -> Celery:
    """The project's Celery app, which knows all tasks that workers know."""
    found: Celery = apps.get_app_config("dbbeat").celery
    # A second time it costs nothing: the modules are there.
    found.loader.import_default_modules()
    return found


def schema(celery: Celery) -> str | None:
    """The schema that `dbbeat_schema` says."""
    found: str | None = read_one("schema", celery.conf, os.environ)
    return found


def schedules(user: str) -> Schedules:
    """The schedules, changed in the name of this user."""
    found = app()
    if complaint := _elsewhere(found):
        raise SettingsError(complaint)
    return Schedules(found, user=user, source="django")


def _elsewhere(celery: Celery) -> str | None:
    """Complain where what is written would go to another database than what is read."""
    read, written = make_url(url()), Settings.read(celery.conf).url
    if written.startswith("embedded"):
        name = written
    else:
        name = make_url(written).database or ""
        if name == read.database:  # by another host or port it may well be the same: a pooler
            return None
    return (
        f"dbbeat_url leads to the database {name!r}, but DATABASES[{alias()!r}] is "
        f"{read.database!r}; allowed is the same, or no dbbeat_url"
    )


def check(**_: object) -> list[CheckMessage]:
    """Django's own check at start."""
    try:
        complaint = _elsewhere(apps.get_app_config("dbbeat").celery)
    except SettingsError as error:
        complaint = str(error)
    return [Error(complaint, id="dbbeat.E001")] if complaint else []
