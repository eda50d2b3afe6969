"""Workers on the run's own servers, ended after each test."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine, NullPool, create_engine

from tests.worker.desk import Desk
from tests.worker.fleet import Fleet


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Fleet]:
    """Workers on Redis."""
    with Fleet(tmp_path, database_url, redis_url) as fleet:
        yield fleet


@pytest.fixture
def desk(database_url: str) -> Iterator[Desk]:
    """Messages delivered in this process."""
    with closing(Desk(database_url)) as desk:
        yield desk


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """SQLAlchemy's way to the test's database."""
    engine = create_engine(database_url, poolclass=NullPool)
    yield engine
    engine.dispose()
