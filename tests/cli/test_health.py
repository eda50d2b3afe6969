"""What `dbbeat health` tells an exec probe."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest

from celery_dbbeat.observe.server import Server, said
from tests.cli.conftest import Run
from tests.support.services import free_port, psycopg_url

SEEN = """
    INSERT INTO dbbeat_replica (id, hostname, pid, release, ready, seen_at)
    VALUES (%(id)s, %(host)s, 1, '0', %(ready)s, now() - make_interval(secs => %(ago)s))
"""
#: A heartbeat to come: however long the command takes to start, it is a fresh one.
NOW = -60.0


@pytest.fixture
def tables(database_url: str) -> Iterator[psycopg.Connection]:
    with closing(psycopg.connect(psycopg_url(database_url), autocommit=True)) as connection:
        yield connection


def seen(tables: psycopg.Connection, ago: float, *, ready: bool = True, host: str = "") -> None:
    tables.execute(
        SEEN,
        {"id": f"{host}{ago}", "host": host or socket.gethostname(), "ready": ready, "ago": ago},
    )


class TestByTheTables:
    def test_one_that_was_heard_of_is_ready(
        self, celery: Run, database_url: str, tables: psycopg.Connection
    ) -> None:
        seen(tables, 5000)  # what a container before this one left
        seen(tables, NOW)
        done = celery("health", SHOP_URL=database_url)
        assert (done.returncode, done.stdout) == (0, "ready\n")
        done = celery("health", "--json", SHOP_URL=database_url)
        assert json.loads(done.stdout) == {"ready": True, "reason": ""}

    def test_none_of_this_host(
        self, celery: Run, database_url: str, tables: psycopg.Connection
    ) -> None:
        seen(tables, 0, host="elsewhere")
        done = celery("health", "--ready", SHOP_URL=database_url)
        assert done.returncode == 1
        assert done.stdout == f"not ready: no replica on {socket.gethostname()} was heard of\n"

    def test_one_without_its_broker_lives(
        self, celery: Run, database_url: str, tables: psycopg.Connection
    ) -> None:
        seen(tables, NOW, ready=False)
        done = celery("health", SHOP_URL=database_url)
        assert (done.returncode, "cannot reach the broker" in done.stdout) == (1, True)
        done = celery("health", "--live", SHOP_URL=database_url)
        assert (done.returncode, done.stdout) == (0, "live\n")

    def test_one_that_is_slow_is_not_ready_and_lives(
        self, celery: Run, database_url: str, tables: psycopg.Connection
    ) -> None:
        seen(tables, 30)
        assert celery("health", SHOP_URL=database_url).returncode == 1
        assert celery("health", "--live", SHOP_URL=database_url).returncode == 0

    def test_one_that_is_stuck_does_not_live(
        self, celery: Run, database_url: str, tables: psycopg.Connection
    ) -> None:
        seen(tables, 100)
        done = celery("health", "--live", SHOP_URL=database_url)
        assert done.returncode == 1
        assert "was heard of for 10" in done.stdout

    def test_without_the_database_nothing_is_ended(self, celery: Run) -> None:
        url = f"postgresql://a@127.0.0.1:{free_port()}/b"
        done = celery("health", SHOP_URL=url)
        assert (done.returncode, done.stderr.startswith("Error: ")) == (69, True)
        done = celery("health", "--live", SHOP_URL=url)
        assert done.returncode == 0
        assert "live: that cannot be told without the database" in done.stdout


class TestByItsOwnWord:
    def test_what_the_replica_says_counts(self, celery: Run) -> None:
        routes = {
            "/live": lambda _: said(yes=True, live=True),
            "/ready": lambda _: said(yes=False, ready=False, reason="no broker"),
        }
        with closing(Server("dbbeat_http", "127.0.0.1:0", routes)) as server:
            given = {"DBBEAT_HTTP": f"0.0.0.0:{server.port}", "SHOP_URL": "embedded:/nowhere"}
            assert celery("health", "--live", **given).returncode == 0
            done = celery("health", **given)
        assert done.returncode == 1
        assert "no broker" in done.stdout

    def test_nobody_answers(self, celery: Run) -> None:
        address = f"[::1]:{free_port()}"
        done = celery("health", "--live", DBBEAT_HTTP=address, SHOP_URL="embedded:/nowhere")
        assert done.returncode == 1
        assert f"not live: nothing answers on {address}" in done.stdout
