"""Redis, with what it was told on disk, so that a restart keeps it."""

from itertools import cycle
from pathlib import Path

import redis

from tests.support.server import LOOPBACK, Server, find_program

DATABASES = 16


class Redis(Server):
    """A server that appends each write to a file before it answers."""

    name = "redis"

    def __init__(self) -> None:
        super().__init__()
        self._numbers = cycle(range(DATABASES))
        self._program = find_program("redis-server", "redis-server")

    @property
    def url(self) -> str:
        """Database 0."""
        return f"redis://{LOOPBACK}:{self.port}/0"

    def fresh_url(self) -> str:
        """The next of its 16 databases, round and round; to be flushed."""
        return f"redis://{LOOPBACK}:{self.port}/{next(self._numbers)}"

    def command(self) -> list[str | Path]:
        options = {
            "port": str(self.port),
            "bind": LOOPBACK,
            "dir": str(self.folder),
            "databases": str(DATABASES),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "no",  # the kernel has it: enough to survive a kill
        }
        return [self._program, *(part for k, v in options.items() for part in (f"--{k}", v))]

    def check(self) -> None:
        with redis.Redis.from_url(self.url, socket_timeout=2) as client:
            client.ping()


def flush(url: str) -> None:
    """Empty the one database behind a URL."""
    with redis.Redis.from_url(url, socket_timeout=10) as client:
        client.flushdb()
