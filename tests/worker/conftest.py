"""Workers on the run's own servers, ended after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worker.fleet import Fleet


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Fleet]:
    """Workers on Redis."""
    with Fleet(tmp_path, database_url, redis_url) as fleet:
        yield fleet
