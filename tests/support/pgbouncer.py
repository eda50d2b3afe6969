"""PgBouncer in transaction mode: each transaction may run on another server connection."""

from pathlib import Path

import psycopg
from sqlalchemy import make_url

from tests.support.postgres import psycopg_url
from tests.support.server import LOOPBACK, Server, find_program

CONFIG = """\
[databases]
* = {target}
[pgbouncer]
listen_addr = {loopback}
listen_port = {port}
unix_socket_dir =
pool_mode = transaction
auth_type = any
max_client_conn = 500
default_pool_size = {pool_size}
ignore_startup_parameters = extra_float_digits
"""


class PgBouncer(Server):
    """In front of the Postgres behind a SQLAlchemy URL; any database of it can be reached."""

    name = "pgbouncer"

    def __init__(self, postgres_url: str, pool_size: int = 5) -> None:
        super().__init__()
        self._postgres = make_url(postgres_url)
        self._pool_size = pool_size
        self._program = find_program("pgbouncer", "pgbouncer")

    @property
    def url(self) -> str:
        """The database that the given URL names, through PgBouncer."""
        url = self._postgres.set(host=LOOPBACK, port=self.port)
        return url.render_as_string(hide_password=False)

    def prepare(self) -> None:
        postgres = self._postgres
        target = {
            "host": postgres.host,
            "port": postgres.port or 5432,
            "user": postgres.username,
            "password": postgres.password,
        }
        self._write(
            "pgbouncer.ini",
            CONFIG.format(
                target=" ".join(f"{key}={value}" for key, value in target.items() if value),
                loopback=LOOPBACK,
                port=self.port,
                pool_size=self._pool_size,
            ),
        )

    def command(self) -> list[str | Path]:
        return [self._program, self.folder / "pgbouncer.ini"]

    def check(self) -> None:
        plain = psycopg_url(self.url)
        with psycopg.connect(plain, connect_timeout=2, prepare_threshold=None) as connection:
            connection.execute("SELECT 1")
