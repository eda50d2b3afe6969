"""One connection to Postgres that is never waited on for ever.

- Every statement has a deadline on this side, so that a cut network or a server that accepts and
  never answers costs a time-out, not a hang.
- A transaction sets its limits on the server for itself alone: a replica that is stopped in the
  middle of one loses its row locks after `idle_timeout`, and a pooler in transaction mode is
  fine.
- Whatever goes wrong with the connection, it is dropped and DatabaseUnavailable is raised; the
  next use connects again.
"""

from collections.abc import Generator, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from types import TracebackType
from typing import Any, TypeVar

import psycopg
from psycopg.rows import DictRow, dict_row
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from celery_dbbeat.clock import monotonic
from celery_dbbeat.errors import DatabaseUnavailable, DbbeatError, SchemaError
from celery_dbbeat.store import statements

T = TypeVar("T")

#: Errors after which the same statement may succeed on a new connection, or a little later.
_PASSING = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.InternalError)
_MISSING = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn)


def translate(error: Exception) -> DbbeatError:
    """Say a driver's error in this package's words."""
    said = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    text = " ".join((said or str(error)).split()) or type(error).__name__
    if isinstance(error, _MISSING):
        return SchemaError(f"{text}; run `celery -A your_app dbbeat migrate`")
    if isinstance(error, _PASSING):
        return DatabaseUnavailable(text)
    return DbbeatError(f"Postgres refused: {text}")


@contextmanager
def driver_error() -> Iterator[None]:
    """Raise this package's errors instead of the driver's or SQLAlchemy's."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error) from error
    except DBAPIError as error:
        raise translate(error.orig if isinstance(error.orig, Exception) else error) from error


def connect_arguments(url: str) -> dict[str, Any]:
    """The driver's arguments for a SQLAlchemy URL."""
    parsed = make_url(url)
    _, arguments = parsed.get_dialect()().create_connect_args(parsed)
    return dict(arguments)


class DeadlineConnection(psycopg.Connection[DictRow]):
    """A connection on which every wait ends by a deadline."""

    deadline_after: float = 5.0

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:  # noqa: ANN401 - the driver's own, by version
        """Wait as the driver does, for `deadline_after` seconds at the most."""
        return super().wait(_until(gen, monotonic() + self.deadline_after), *args, **kwargs)


def _until(gen: Generator[Any, Any, T], deadline: float) -> Generator[Any, Any, T]:
    # The driver wakes the generator ten times a second even when nothing arrives.
    try:
        ready = yield next(gen)
        while True:
            if not ready and monotonic() > deadline:
                raise psycopg.OperationalError("the server did not answer in time")
            ready = yield gen.send(ready)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


class Transaction:
    """Runs statements inside one transaction."""

    def __init__(self, connection: DeadlineConnection, sql: Mapping[str, str]) -> None:
        """Use this connection and these statements."""
        self._connection = connection
        self._sql = sql

    def run(self, name: str, /, **parameters: object) -> "Rows":
        """Run one named statement."""
        return Rows(self._connection.execute(self._sql[name], parameters, binary=True))

    def act_as(self, user: str | None, source: str) -> None:
        """Say who changes schedules in this transaction, and by which way: the audit keeps it.

        Without a user it is the database's.
        """
        self.run("act_as", user=user or "", source=source)


class Rows:
    """What a statement returned."""

    def __init__(self, cursor: psycopg.Cursor[DictRow]) -> None:
        """Take the rows off the cursor, if the statement returns any."""
        self.all: list[DictRow] = cursor.fetchall() if cursor.description else []
        self.count = cursor.rowcount

    def one(self) -> DictRow:
        """The only row."""
        (row,) = self.all
        return row


class Database:
    """Statements by name, one by one or in a transaction."""

    def __init__(
        self, url: str, schema: str | None, timeout: float, idle_timeout: float | None = None
    ) -> None:
        """Connect at first use, not here."""
        self._arguments = connect_arguments(url)
        self._sql = statements.load(schema)
        self._schema = schema
        self._timeout = timeout
        self._begin = _begin(timeout, idle_timeout or timeout)
        self._connection: DeadlineConnection | None = None

    @property
    def schema(self) -> str | None:
        """The schema that was asked for."""
        return self._schema

    def _connect(self) -> DeadlineConnection:
        if self._connection is None:
            self._connection = connect(self._arguments, self._timeout)
        return self._connection

    def run(self, name: str, /, **parameters: object) -> Rows:
        """Run one named statement by itself."""
        with self._guarded() as connection:
            return Transaction(connection, self._sql).run(name, **parameters)

    def now(self) -> datetime:
        """What the database's clock shows."""
        instant: datetime = self.run("database_now").one()["now"]
        return instant

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Commit at the end of the block; roll back when it raises."""
        with self._guarded() as connection:
            connection.execute(self._begin)
            yield Transaction(connection, self._sql)
            connection.execute("COMMIT")

    @contextmanager
    def _guarded(self) -> Iterator[DeadlineConnection]:
        try:
            with driver_error():
                yield self._connect()
        except BaseException:
            # Also ends an open transaction: the server rolls back when the connection goes.
            self.close()
            raise

    def close(self) -> None:
        """Drop the connection; the next use makes a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def __enter__(self) -> "Database":  # noqa: PYI034 - Self is not in Python 3.10
        """Close at the end of the block."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()


def in_transaction(database: Database | Transaction) -> AbstractContextManager[Transaction]:
    """The transaction that is open, or one for this alone: there, the planner walks indexes."""
    return nullcontext(database) if isinstance(database, Transaction) else database.transaction()


def connect(arguments: Mapping[str, Any], timeout: float) -> DeadlineConnection:
    """A new connection, in autocommit mode and without prepared statements."""
    patience = max(2, round(timeout))
    defaults = {
        "connect_timeout": patience,
        "keepalives_idle": patience,
        "keepalives_interval": 1,
        "keepalives_count": 3,
        "tcp_user_timeout": round(timeout * 1000),
        "application_name": "celery-dbbeat",
    }
    connection = DeadlineConnection.connect(
        **{**defaults, **arguments},
        autocommit=True,
        prepare_threshold=None,
        row_factory=dict_row,
    )
    connection.deadline_after = timeout
    return connection


def _begin(timeout: float, idle_timeout: float) -> str:
    limit, idle = round(timeout * 1000), round(idle_timeout * 1000)
    local = {
        "statement_timeout": limit,
        "lock_timeout": limit,
        "idle_in_transaction_session_timeout": idle,
        # The claim must walk the index on due_at and look schedules up one by one, whatever
        # stale statistics make the planner believe.
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
        # Nor may it read days of ticks, to look for a few of them there.
        "enable_material": "off",
        "jit": "off",
    }
    # SET LOCAL for all of them in one statement.
    calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in local.items())
    return f"BEGIN; SELECT {calls}"
