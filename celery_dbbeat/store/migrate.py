"""Bring the tables up to date, or say that they are not.

The migrations are Alembic's, with a version table of their own, so that they live beside an
application's own Alembic migrations in the same database.
"""

import threading
from pathlib import Path

import alembic.command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import NullPool, create_engine

from celery_dbbeat.errors import SchemaError
from celery_dbbeat.store.database import Database, driver_error

#: Inside the wheel the migrations lie in the package; in a checkout beside it.
_PLACES = (
    Path(__file__).parents[1] / "migrations",
    Path(__file__).parents[2] / "migrations",
)

OLDEST_POSTGRES = 130000

# Alembic keeps the migration under way in globals: two threads would share one connection and hang.
_ONE_AT_A_TIME = threading.Lock()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_place()).replace("%", "%%"))
    return config


def _place() -> Path:
    return next(place for place in _PLACES if (place / "env.py").exists())


def head() -> str:
    """The version of the tables that this code needs."""
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def _known(version: str) -> bool:
    return any(
        script.revision == version
        for script in ScriptDirectory.from_config(_config()).walk_revisions()
    )


def migrate(url: str, schema: str | None = None, *, dedup_only: bool = False) -> str:
    """Make or upgrade the tables; safe on several machines at once. Returns the version.

    `dedup_only` is for a database that holds effects but no schedules: just the table of runs.
    """
    engine = create_engine(url, poolclass=NullPool, connect_args={"prepare_threshold": None})
    with _ONE_AT_A_TIME, driver_error(), engine.begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        config.attributes["schema"] = schema
        config.attributes["dedup_only"] = dedup_only
        alembic.command.upgrade(config, "head")
    return head()


def roles(schema: str | None) -> str:
    """The SQL that makes roles with the least rights, for the tables in this schema."""
    text = (_place() / "roles.sql").read_text()
    return f'SET search_path = "{schema}";\n\n{text}' if schema else text


def check(database: Database) -> None:
    """Raise SchemaError, saying what to run, unless the tables are those this code needs."""
    found = database.run("schema_version").one()
    if found["server_version"] < OLDEST_POSTGRES:
        raise SchemaError(
            f"this Postgres is version {found['server_version'] // 10000}; "
            f"allowed is {OLDEST_POSTGRES // 10000} or newer"
        )
    command = "celery -A your_app dbbeat migrate"
    # After a downgrade the version table is there, and empty.
    versions = database.run("current_version").all if found["has_version_table"] else []
    if not versions:
        raise SchemaError(
            f"the tables are missing in schema {database.schema or found['schema']!r}; "
            f"run `{command}` or set dbbeat_auto_migrate"
        )
    version = versions[0]["version_num"]
    if version == head():
        return
    if _known(version):
        raise SchemaError(
            f"the tables are at version {version}, this code needs {head()}; run `{command}` "
            "or set dbbeat_auto_migrate"
        )
