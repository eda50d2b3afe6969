"""Where the tables can be: plain, embedded, behind a pooler, not there yet."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_dbbeat import embedded
from tests.faults.cluster import Cluster
from tests.support.pgbouncer import PgBouncer
from tests.support.reaper import reaper
from tests.support.waiting import wait_until


@pytest.fixture
def embedded_url() -> Iterator[str]:
    """A folder for an embedded server, where any user can get to."""
    path = Path(tempfile.mkdtemp(prefix="embedded-", dir=reaper().folder))
    path.chmod(0o711)
    url = f"embedded:{path / 'postgres'}"
    yield url
    embedded.stop(url)
    shutil.rmtree(path)


def test_a_row_by_plain_sql_is_sent_when_it_is_first_due(cluster: Cluster) -> None:
    cluster.start_and_wait()
    cluster.tables.add("new", count=1)
    first = wait_until(lambda: cluster.inbox.received, 15, cluster.logs)[0]
    inserted_at = cluster.tables.value(
        "SELECT created_at FROM dbbeat_schedule WHERE name = 'new-1'"
    )
    assert 0 < (first.nominal_at - inserted_at).total_seconds() <= 1.001
    # Milliseconds where nothing else runs; an interval of looking would be five seconds.
    assert (first.arrived_at - first.nominal_at).total_seconds() < 3
    cluster.tables.wait_until_sent(1)
    cluster.finish()


def test_an_embedded_database_is_shared_by_two_beats(
    tmp_path: Path, embedded_url: str, redis_url: str
) -> None:
    with Cluster(tmp_path, embedded.start(embedded_url), redis_url) as cluster, cluster.inbox:
        cluster.environment |= {"DBBEAT_URL": embedded_url, "DBBEAT_AUTO_MIGRATE": "true"}
        for _ in range(2):
            cluster.start()
        there = "SELECT to_regclass('dbbeat_schedule') IS NOT NULL"
        wait_until(lambda: cluster.tables.value(there), 20, cluster.logs)
        cluster.wait_until_ready()
        cluster.tables.add("steady", count=10)
        cluster.tables.wait_until_sent(1)
        cluster.kill(cluster.leader())
        cluster.tables.wait_until_sent(1)
        cluster.finish()
        for beat in list(cluster.beats):
            cluster.end(beat)


@pytest.mark.parametrize("direct", [True, False], ids=["listening directly", "looking"])
def test_behind_a_pooler_in_transaction_mode(
    cluster: Cluster, pgbouncer: PgBouncer, database_url: str, *, direct: bool
) -> None:
    settings = {"DBBEAT_URL": pgbouncer.url}
    if direct:
        settings["DBBEAT_LISTEN_URL"] = database_url
    cluster.tables.add("steady", every="0.5", count=20)
    leader = cluster.start(**settings)
    cluster.wait_until_ready()
    cluster.start(**settings)
    cluster.wait_until_ready()
    cluster.tables.add("later", every="0.5")
    cluster.tables.wait_until_sent(1)
    cluster.kill(leader)
    cluster.tables.wait_until_sent(1)
    cluster.finish()
    listening = "SELECT count(listener_pid) > 0 FROM dbbeat_replica"
    assert cluster.tables.value(listening) is direct


def test_without_tables_it_says_what_to_run_and_goes_on_after(
    tmp_path: Path, empty_database_url: str, redis_url: str
) -> None:
    with Cluster(tmp_path, empty_database_url, redis_url) as cluster, cluster.inbox:
        beat = cluster.start()
        beat.wait_for("the tables are missing in schema 'public'; run `celery -A")
        migrate = cluster.run("dbbeat", "migrate")
        assert migrate.wait() == 0, migrate.tail()
        cluster.wait_until_ready()
        cluster.tables.add("first", count=5)
        cluster.tables.wait_until_sent(0)
        assert cluster.finish().doubled == 0


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("DBBEAT_HEDGE_AFTER", "soon", "dbbeat_hedge_after is 'soon'; allowed is"),
        ("DBBEAT_URL", "mysql://me@host/shop", "dbbeat_url is 'mysql://…'; allowed is"),
    ],
)
def test_a_wrong_setting_is_refused_at_start(
    cluster: Cluster, name: str, value: str, said: str
) -> None:
    refused = cluster.run("beat", **{name: value})
    assert refused.wait() != 0
    assert f"Error: {said}" in refused.log()
    assert "Traceback" not in refused.log()
    assert "beat: Starting..." not in refused.log()
