"""The servers of a run, each started when first needed."""

from contextlib import ExitStack
from functools import cached_property
from itertools import count

import psycopg
from psycopg.rows import TupleRow

from celery_dbbeat.store.migrate import migrate
from tests.support.services import Databases, Postgres, RabbitMQ, Redis, flush, psycopg_url

#: Unlike in tests, a commit here reaches the disk.
POSTGRES = {
    "fsync": "on",
    "full_page_writes": "on",
    "shared_preload_libraries": "pg_stat_statements",
}


class Servers(ExitStack):
    """Postgres, Redis and RabbitMQ, gone at the end of the block."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count(1)

    @cached_property
    def postgres(self) -> Postgres:
        return self.enter_context(Postgres(POSTGRES))

    @cached_property
    def redis(self) -> Redis:
        return self.enter_context(Redis())

    @cached_property
    def rabbitmq(self) -> RabbitMQ:
        return self.enter_context(RabbitMQ(virtual_hosts=16))

    def fresh_database(self) -> str:
        """An empty database with all tables."""
        url = Databases(self.postgres.url).create(f"bench_{next(self._numbers)}")
        migrate(url)
        with connect(url) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
        return url

    def fresh_redis(self) -> str:
        """An empty Redis database."""
        url = self.redis.fresh_url()
        flush(url)
        return url

    def fresh_rabbitmq(self) -> str:
        """An unused virtual host."""
        return self.rabbitmq.fresh_url()


def connect(url: str) -> psycopg.Connection[TupleRow]:
    """A connection of the benchmark's own, in autocommit mode."""
    return psycopg.connect(psycopg_url(url), autocommit=True)


def value(connection: psycopg.Connection[TupleRow], query: str, *parameters: object) -> float:
    """The only value of a query."""
    row = connection.execute(query.encode(), parameters).fetchone()
    assert row is not None
    return float(row[0] or 0)


def statements_run(connection: psycopg.Connection[TupleRow]) -> float:
    """How many statements others have run in this database so far."""
    return value(
        connection,
        "SELECT sum(calls) FROM pg_stat_statements WHERE query NOT LIKE '%%pg_stat_statements%%'"
        " AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
        " AND %s = 1",
        1,
    )
