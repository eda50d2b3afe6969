"""Whatever a task may write by: each gives a target for `once` and a way to write."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

import psycopg
from sqlalchemy import NullPool, create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.support.postgres import psycopg_url

Write = Callable[[str], None]
Place = Callable[[], AbstractContextManager[tuple[Any, Write]]]


def session_place(url: str) -> Place:
    @contextmanager
    def place() -> Iterator[tuple[Any, Write]]:
        with Session(create_engine(url, poolclass=NullPool)) as session:
            yield session, lambda what: write_to(session, what)

    return place


def scoped_place(url: str) -> Place:
    @contextmanager
    def place() -> Iterator[tuple[Any, Write]]:
        scoped = scoped_session(sessionmaker(create_engine(url, poolclass=NullPool)))
        try:
            yield scoped, lambda what: write_to(scoped, what)
        finally:
            scoped.remove()

    return place


def connection_place(url: str) -> Place:
    @contextmanager
    def place() -> Iterator[tuple[Any, Write]]:
        with create_engine(url, poolclass=NullPool).connect() as connection:
            yield connection, lambda what: write_to(connection, what)

    return place


def psycopg_place(url: str) -> Place:
    @contextmanager
    def place() -> Iterator[tuple[Any, Write]]:
        with closing(psycopg.connect(psycopg_url(url))) as connection:
            yield connection, lambda what: driver_write(connection, what)

    return place


def psycopg_autocommit_place(url: str) -> Place:
    @contextmanager
    def place() -> Iterator[tuple[Any, Write]]:
        with closing(psycopg.connect(psycopg_url(url), autocommit=True)) as connection:
            yield connection, lambda what: driver_write(connection, what)

    return place


def write_to(place: Any, what: str) -> None:  # noqa: ANN401 - whatever has execute()
    place.execute(text("INSERT INTO effect VALUES (:what)"), {"what": what})


def driver_write(connection: psycopg.Connection[Any], what: str) -> None:
    connection.execute("INSERT INTO effect VALUES (%s)", (what,))


PLACES = [
    session_place, scoped_place, connection_place, psycopg_place, psycopg_autocommit_place,
]  # fmt: skip
