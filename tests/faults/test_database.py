"""Postgres hangs up, restarts, crashes, or does not answer; beat says so and goes on."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.cluster import Cluster
from tests.support.postgres import Postgres
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until


def test_connections_ended_again_and_again(cluster: Cluster) -> None:
    cluster.tables.add("steady", every="0.5", count=50)
    cluster.start_and_wait(2)
    ended = 0
    for _ in range(10):
        ended += cluster.tables.terminate_beats()
        time.sleep(0.3)  # the length of the load
    assert ended > 10
    cluster.tables.wait_until_sent(1)
    cluster.finish()


@pytest.mark.parametrize("end", [Postgres.stop, Postgres.kill])
def test_postgres_goes_away_and_comes_back(
    tmp_path: Path,
    own_postgres: Postgres,
    own_database_url: str,
    redis_url: str,
    end: Callable[[Postgres], None],
) -> None:
    with Cluster(tmp_path, own_database_url, redis_url) as cluster, cluster.inbox:
        cluster.tables.add("steady", every="0.5", count=50)
        beats = cluster.start_and_wait(2)
        cluster.tables.wait_until_sent(0)
        end(own_postgres)
        for beat in beats:
            beat.wait_for("the database cannot be reached")
        own_postgres.start()
        cluster.tables.wait_until_sent(1)
        cluster.finish()


def test_postgres_does_not_answer_the_leader(cluster: Cluster, database_url: str) -> None:
    with Proxy.to(database_url) as proxy:
        cluster.tables.add("steady", every="0.5", count=50)
        leader = cluster.start(DBBEAT_URL=proxy.url(database_url), DBBEAT_LEASE_TTL="3")
        wait_until(cluster.tables.leaders, 20, leader.tail)
        cluster.start(DBBEAT_LEASE_TTL="3")
        cluster.wait_until_ready()
        proxy.deaf()
        leader.wait_for("the database cannot be reached")
        cluster.tables.wait_until_sent(1)
        proxy.heal()
        cluster.tables.wait_until_sent(1)
        cluster.finish()


def test_two_replicas_make_the_tables_at_once(
    tmp_path: Path, empty_database_url: str, redis_url: str
) -> None:
    with Cluster(tmp_path, empty_database_url, redis_url) as cluster, cluster.inbox:
        beats = [cluster.start(DBBEAT_AUTO_MIGRATE="true") for _ in range(2)]
        for beat in beats:
            beat.wait_for("beat: Starting...")
        there = "SELECT to_regclass('dbbeat_schedule') IS NOT NULL"
        wait_until(lambda: cluster.tables.value(there), 20, cluster.logs)
        cluster.wait_until_ready()
        cluster.tables.add("first", count=10)
        cluster.tables.wait_until_sent(1)
        assert cluster.finish().doubled == 0
