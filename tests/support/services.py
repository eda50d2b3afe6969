"""The servers that tests run against, each started on a free loopback port as an ordinary user."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import Databases, Postgres, psycopg_url
from tests.support.rabbitmq import RabbitMQ
from tests.support.redis import Redis, flush
from tests.support.server import Server, ServerMissing, free_port

__all__ = [
    "Databases",
    "Given",
    "PgBouncer",
    "Postgres",
    "RabbitMQ",
    "Redis",
    "Server",
    "ServerMissing",
    "flush",
    "free_port",
    "psycopg_url",
    "shared",
]

S = TypeVar("S", bound=Server)


@dataclass(frozen=True)
class Given:
    """A server that somebody else runs; nothing here stops or breaks it."""

    url: str

    def fresh_url(self) -> str:
        """The given URL itself: what was in it before is the giver's care."""
        return self.url


@contextmanager
def shared(make: type[S] | Callable[[], S], variable: str) -> Iterator[S | Given]:
    """The server that an environment variable names, else one of our own."""
    if url := os.environ.get(variable):
        yield Given(url)
        return
    with make() as server:
        yield server
