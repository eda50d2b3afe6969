"""Beats and workers that serve what they know, on free ports."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cluster import Cluster
from tests.support.http import status
from tests.support.processes import Process
from tests.support.services import free_port
from tests.support.waiting import wait_until


class Watched(Cluster):
    """A cluster of which each beat serves its health."""

    def __init__(self, folder: Path, database_url: str, broker_url: str) -> None:
        super().__init__(folder, database_url, broker_url)
        self.ports: dict[int, int] = {}

    def start(self, *arguments: str, **settings: str) -> Process:
        port = free_port()
        beat = super().start(*arguments, **{"DBBEAT_HTTP": f"127.0.0.1:{port}", **settings})
        self.ports[beat.pid] = port
        return beat

    def port(self, beat: Process) -> int:
        return self.ports[beat.pid]

    def wait_for_status(self, beat: Process, path: str, code: int | None) -> None:
        """Wait until a probe is answered like that."""
        wait_until(
            lambda: status(self.port(beat), path) == code,
            20,
            lambda: f"{code} of {path}, last {status(self.port(beat), path)}:\n{beat.tail()}",
        )


@pytest.fixture
def watched(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Watched]:
    """Beats on Redis that serve their health."""
    with Watched(tmp_path, database_url, redis_url) as cluster:
        yield cluster
