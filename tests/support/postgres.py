"""Postgres: a server of our own, and databases in it or in one that was given."""

import signal
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg import sql
from sqlalchemy import make_url

from tests.support.processes import Process
from tests.support.server import LOOPBACK, START_TIMEOUT, Server, find_program

# Without fsync a killed server still has all it committed: the kernel keeps the pages. Only a
# machine that loses power would not, and no test does that.
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "unix_socket_directories": "",
    "listen_addresses": LOOPBACK,
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}


class Postgres(Server):
    """A cluster in a temporary folder, with the superuser `postgres` and no password."""

    name = "postgres"
    # "Fast": ends the clients' sessions. SIGTERM would wait for them.
    stop_with = signal.SIGINT

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.data = self.folder / "data"
        self._settings = {**SETTINGS, **(settings or {}), "port": str(self.port)}
        found = find_program("postgres", "postgresql", after="/usr/lib/postgresql/*/bin")
        self._program = found.resolve()  # its initdb lies beside the real one

    @property
    def url(self) -> str:
        """The maintenance database, as a SQLAlchemy URL."""
        return f"postgresql+psycopg://postgres@{LOOPBACK}:{self.port}/postgres"

    def prepare(self) -> None:
        if self.data.exists():
            return
        initdb = self._program.with_name("initdb")
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
        made: Process = self._run([initdb, "-D", self.data, *options], self.folder / "initdb.log")
        if made.wait(START_TIMEOUT) != 0:
            raise RuntimeError(f"initdb failed:\n{made.tail()}")

    def command(self) -> list[str | Path]:
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        return [self._program, "-D", self.data, *settings]

    def check(self) -> None:
        psycopg.connect(psycopg_url(self.url), connect_timeout=2).close()


class Databases:
    """Makes and drops databases in the server behind a SQLAlchemy URL."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url)

    def url(self, name: str) -> str:
        """The same server, another database."""
        return self._url.set(database=name).render_as_string(hide_password=False)

    def create(self, name: str, template: str = "template1") -> str:
        """Make a database as a copy of `template`, and return its URL."""
        self._execute("CREATE DATABASE {} TEMPLATE {}", name, template)
        return self.url(name)

    def drop(self, name: str) -> None:
        """Drop it, whoever is still connected."""
        self._execute("DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _execute(self, statement: str, *names: str) -> None:
        plain = psycopg_url(self._url.render_as_string(hide_password=False))
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))


def psycopg_url(url: str) -> str:
    """The form of a SQLAlchemy URL that psycopg itself takes."""
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
