"""Where the schedules of a Django project are: in one of its own databases."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.db import connections
from sqlalchemy import URL

from celery_dbbeat.errors import SettingsError

#: What of a database's OPTIONS the driver knows, and Django passes on to it.
_OURS = frozenset({"pool", "isolation_level", "server_side_binding", "assume_role"})


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
            "database: set DBBEAT_DATABASE to one, or dbbeat_url"
        )
    return _url(connection.settings_dict)


def _url(given: Mapping[str, Any]) -> str:
    host = given.get("HOST") or None
    query = {
        key: str(value)
        for key, value in (given.get("OPTIONS") or {}).items()
        if key not in _OURS and isinstance(value, str | int)
    }
    if host is not None and host.startswith("/"):
        host, query["host"] = None, host
    return URL.create(
        "postgresql+psycopg",
        username=given.get("USER") or None,
        password=given.get("PASSWORD") or None,
        host=host,
        port=int(given["PORT"]) if given.get("PORT") else None,
        database=given.get("NAME") or None,
        query=query,
    ).render_as_string(hide_password=False)
