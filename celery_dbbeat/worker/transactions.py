"""A transaction on whatever connection a task has."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from sqlalchemy import Connection, text
from sqlalchemy.orm import Session, SessionTransactionOrigin, scoped_session

from celery_dbbeat.errors import OnceError

_PARAMETER = re.compile(r"%\((\w+)\)s")


@dataclass(frozen=True, slots=True)
class Block:
    """An open transaction. `joined`: it was begun before, and is committed by who began it."""

    execute: Callable[[str, Mapping[str, object]], Any]
    joined: bool


@contextmanager
def transaction_on(target: Any, using: str | None = None) -> Iterator[Block]:
    """Commit at the end of the block and roll back when it raises, unless it was begun before."""
    if isinstance(target, scoped_session):
        target = target()
    if using is not None and target is None:
        opened = _django(using)
    elif isinstance(target, Session):
        opened = _session(target)
    elif isinstance(target, Connection):
        opened = _connection(target)
    elif isinstance(target, psycopg.Connection):
        opened = _psycopg(target)
    else:
        raise OnceError(
            f"once() got {target!r}; allowed is a SQLAlchemy Session or Connection, a psycopg "
            "connection, or using= with the name of a Django database"
        )
    with opened as block:
        yield block


@contextmanager
def _session(session: Session) -> Iterator[Block]:
    begun = session.get_transaction()
    joined = begun is not None and begun.origin is not SessionTransactionOrigin.AUTOBEGIN
    transaction = begun or session.begin()
    _refuse_autocommit(session.connection())

    def execute(sql: str, values: Mapping[str, object]) -> Any:
        _check_still_open(session.get_transaction() is transaction)
        session.flush()
        return _first(session.connection(), sql, values)

    if joined:
        yield Block(execute, joined=True)
        return
    try:
        yield Block(execute, joined=False)
        _check_still_open(session.get_transaction() is transaction)
        session.commit()
    except BaseException:
        session.rollback()
        raise


@contextmanager
def _connection(connection: Connection) -> Iterator[Block]:
    _refuse_autocommit(connection)
    begun = connection.get_transaction()
    transaction = begun or connection.begin()

    def execute(sql: str, values: Mapping[str, object]) -> Any:
        _check_still_open(transaction.is_active)
        return _first(connection, sql, values)

    if begun is not None:
        yield Block(execute, joined=True)
        return
    with transaction:
        yield Block(execute, joined=False)
        _check_still_open(transaction.is_active)


@contextmanager
def _psycopg(connection: psycopg.Connection[Any]) -> Iterator[Block]:
    # The driver itself refuses a commit inside its block.
    joined = connection.info.transaction_status is not TransactionStatus.IDLE

    def execute(sql: str, values: Mapping[str, object]) -> Any:
        with connection.cursor(row_factory=tuple_row) as cursor:
            return cursor.execute(sql.encode(), values).fetchone()

    with nullcontext() if joined else connection.transaction():
        yield Block(execute, joined=joined)


@contextmanager
def _django(using: str) -> Iterator[Block]:
    from django.db import connections, transaction  # noqa: PLC0415 - only who has it asks for it

    connection = connections[using]
    joined = connection.in_atomic_block

    def execute(sql: str, values: Mapping[str, object]) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql, values)
            return cursor.fetchone()

    with transaction.atomic(using=using, savepoint=False):
        yield Block(execute, joined=joined)


def _first(connection: Connection, sql: str, values: Mapping[str, object]) -> Any:
    return connection.execute(text(_PARAMETER.sub(r":\1", sql)), values).first()


def _refuse_autocommit(connection: Connection) -> None:
    if getattr(connection.connection.dbapi_connection, "autocommit", False):
        raise OnceError(
            "once() got a connection in autocommit mode; allowed is one with transactions: "
            "otherwise what the task writes cannot be committed together with its mark"
        )


def _check_still_open(still_open: bool) -> None:  # noqa: FBT001 - the only thing it is about
    if not still_open:
        raise OnceError(
            "the block of once() ended its transaction itself; allowed is to leave the commit "
            "to once(): what was committed before it cannot be taken back"
        )
