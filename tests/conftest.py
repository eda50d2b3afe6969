"""Servers started once a run, when first asked for, and something fresh in them for each test.

DBBEAT_TEST_POSTGRES_URL, DBBEAT_TEST_REDIS_URL and DBBEAT_TEST_RABBITMQ_URL name servers to use
instead. Tests that stop or break a server take an `own_…` fixture: that is always started here.
"""

from collections.abc import Iterator
from functools import partial
from uuid import uuid4

import pytest

from tests.support.services import (
    Databases,
    Given,
    PgBouncer,
    Postgres,
    RabbitMQ,
    Redis,
    flush,
    shared,
)

# So many tests get a virtual host at no cost; each one after that costs about a second.
VIRTUAL_HOSTS = 64


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    parser.addoption("--long", action="store_true", help="longer fault runs")


@pytest.fixture(scope="session")
def long_run(pytestconfig: pytest.Config) -> bool:
    """Whether the longer fault runs were asked for."""
    return bool(pytestconfig.getoption("--long"))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres | Given]:
    """The run's Postgres; its `url` is the maintenance database."""
    with shared(Postgres, "DBBEAT_TEST_POSTGRES_URL") as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis | Given]:
    """The run's Redis."""
    with shared(Redis, "DBBEAT_TEST_REDIS_URL") as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq() -> Iterator[RabbitMQ | Given]:
    """The run's RabbitMQ."""
    with shared(partial(RabbitMQ, VIRTUAL_HOSTS), "DBBEAT_TEST_RABBITMQ_URL") as server:
        yield server


@pytest.fixture(scope="session")
def databases(postgres: Postgres | Given) -> Databases:
    """Makes and drops databases in the run's Postgres."""
    return Databases(postgres.url)


@pytest.fixture(scope="session")
def template(databases: Databases) -> Iterator[str]:
    """The name of a database with all migrations, to be copied."""
    name = f"dbbeat_template_{uuid4().hex}"
    _migrate(databases.create(name))
    yield name
    databases.drop(name)


@pytest.fixture
def database_url(databases: Databases, template: str) -> Iterator[str]:
    """A fresh database with all tables, as a SQLAlchemy URL."""
    name = f"dbbeat_test_{uuid4().hex}"
    yield databases.create(name, template)
    databases.drop(name)


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """A fresh database without tables, as a SQLAlchemy URL."""
    name = f"dbbeat_test_{uuid4().hex}"
    yield databases.create(name)
    databases.drop(name)


@pytest.fixture
def redis_url(redis: Redis | Given) -> str:
    """An empty Redis database."""
    url = redis.fresh_url()
    flush(url)
    return url


@pytest.fixture
def rabbitmq_url(rabbitmq: RabbitMQ | Given) -> str:
    """A virtual host that no other test has used."""
    return rabbitmq.fresh_url()


@pytest.fixture
def pgbouncer(database_url: str) -> Iterator[PgBouncer]:
    """PgBouncer in transaction mode; its `url` is the test's database through it."""
    with PgBouncer(database_url) as server:
        yield server


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A Postgres for this test alone, to stop, kill, pause and restart."""
    with Postgres() as server:
        yield server


@pytest.fixture
def own_database_url(own_postgres: Postgres) -> str:
    """A database with all tables in `own_postgres`, as a SQLAlchemy URL."""
    url = Databases(own_postgres.url).create("dbbeat")
    _migrate(url)
    return url


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    """A Redis for this test alone, to stop, kill, pause and restart."""
    with Redis() as server:
        yield server


@pytest.fixture
def own_rabbitmq() -> Iterator[RabbitMQ]:
    """A RabbitMQ for this test alone, to stop, kill, pause and restart."""
    with RabbitMQ() as server:
        yield server


def _migrate(url: str) -> None:
    # Late, so that tests without a database do not need one line of the store.
    from celery_dbbeat.store.migrate import migrate  # noqa: PLC0415

    migrate(url)
