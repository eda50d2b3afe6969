"""Beats on the run's own servers, ended after each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Cluster]:
    """Beats on Redis, and a live reader of what they send."""
    with Cluster(tmp_path, database_url, redis_url) as cluster, cluster.inbox:
        yield cluster
