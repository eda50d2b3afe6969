"""Rows of another scheduler's tables, from any database that SQLAlchemy reads."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from celery_dbbeat.errors import SourceError

# Those that the driver has to be told: without it SQLite gives texts and numbers.
_TYPES: Mapping[str, sa.types.TypeEngine[Any]] = {
    **dict.fromkeys(
        ("expires", "start_time", "last_run_at", "date_changed", "clocked_time"), sa.DateTime()
    ),
    **dict.fromkeys(("enabled", "one_off"), sa.Boolean()),
    **dict.fromkeys(("latitude", "longitude"), sa.Numeric(9, 6, asdecimal=False)),
}


@dataclass(frozen=True, slots=True)
class Join:
    """A table of schedules: which of its columns, and which of the main table's lead to it."""

    table: str
    columns: tuple[str, ...]
    key: str
    #: In the main table: which of the tables `key` leads to.
    discriminator: tuple[str, str] | None = None


def read(url: str, schema: str | None, main: str, joins: tuple[Join, ...]) -> list[dict[str, Any]]:
    """All rows of the main table, each with the row of its schedule."""
    with _connection(url) as connection:
        look = sa.inspect(connection)
        if not look.has_table(main, schema=schema):
            where = f"{schema}.{main}" if schema else main
            raise SourceError(f"{_shown(url)} has no table {where}: nothing to import there")
        names = [column["name"] for column in look.get_columns(main, schema=schema)]
        statement = _statement(schema, main, names, joins)
        return [dict(row) for row in connection.execute(statement).mappings()]


def _statement(
    schema: str | None, main: str, names: list[str], joins: tuple[Join, ...]
) -> sa.Select[Any]:
    tasks = _table(main, names, schema)
    source: sa.FromClause = tasks
    columns = list(tasks.columns)
    for join in joins:
        other = _table(join.table, ["id", *join.columns], schema)
        on = tasks.c[join.key] == other.c.id
        if join.discriminator is not None:
            name, value = join.discriminator
            on = sa.and_(on, tasks.c[name] == value)
        source = source.outerjoin(other, on)
        columns += [other.c[name] for name in join.columns]
    return sa.select(*columns).select_from(source).order_by(tasks.c.id)


def _table(name: str, columns: list[str], schema: str | None) -> sa.TableClause:
    made = [sa.column(column, _TYPES.get(column)) for column in columns]
    return sa.table(name, *made, schema=schema)


@contextmanager
def _connection(url: str) -> Iterator[sa.Connection]:
    try:
        engine = sa.create_engine(_with_driver(url), poolclass=sa.NullPool)
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        raise SourceError(f"the URL cannot be used: {_first_line(error)}") from None
    _check_file(engine.url)
    try:
        with engine.connect() as connection:
            yield connection
    except DBAPIError as error:
        raise SourceError(f"{_shown(url)} cannot be read: {_first_line(error.orig)}") from None
    except SQLAlchemyError as error:
        raise SourceError(f"{_shown(url)} cannot be read: {_first_line(error)}") from None


def _check_file(url: sa.URL) -> None:
    # SQLite would make it.
    file = url.database if url.get_backend_name() == "sqlite" else None
    if file and file != ":memory:" and not Path(file).exists():
        raise SourceError(f"the file {file} is not there")


def _with_driver(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    # The driver that is here, for the names that people write.
    plain = scheme in {"postgres", "postgresql"}
    return f"postgresql+psycopg://{rest}" if plain and separator else url


def _shown(url: str) -> str:
    return sa.make_url(url).render_as_string()


def _first_line(error: BaseException | None) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
