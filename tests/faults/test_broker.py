"""The broker restarts, crashes, or accepts and never answers; nothing is lost to it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.cluster import Cluster
from tests.support.proxy import Proxy
from tests.support.server import Server
from tests.support.services import RabbitMQ, Redis

#: What a beat says of a broker that is away, before and while it publishes.
AWAY = "the broker"


@pytest.mark.parametrize(
    ("broker", "end"),
    [("own_redis", Redis.stop), ("own_redis", Redis.kill), ("own_rabbitmq", RabbitMQ.kill)],
    ids=["redis stopped", "redis killed", "rabbitmq killed"],
)
def test_the_broker_goes_away_and_comes_back(
    tmp_path: Path,
    database_url: str,
    request: pytest.FixtureRequest,
    broker: str,
    end: Callable[[Server], None],
) -> None:
    server: Server = request.getfixturevalue(broker)
    with Cluster(tmp_path, database_url, server.url) as cluster:
        cluster.tables.add("steady", every="0.5", count=50)
        beats = cluster.start_and_wait(2)
        cluster.tables.wait_until_sent(0)
        end(server)
        for beat in beats:
            beat.wait_for(AWAY)
        server.start()
        cluster.tables.wait_until_sent(1)
        cluster.finish()


@pytest.mark.parametrize("broker", ["redis_url", "rabbitmq_url"])
def test_the_broker_accepts_and_never_answers(
    tmp_path: Path, database_url: str, request: pytest.FixtureRequest, broker: str
) -> None:
    url: str = request.getfixturevalue(broker)
    with Proxy.to(url) as proxy, Cluster(tmp_path, database_url, url) as cluster, cluster.inbox:
        cluster.tables.add("steady", every="0.5", count=50)
        beats = [
            cluster.start(CELERY_BROKER_URL=proxy.url(url), DBBEAT_LEASE_TTL="3") for _ in range(2)
        ]
        cluster.wait_until_ready()
        cluster.tables.wait_until_sent(0)
        proxy.deaf()
        for beat in beats:
            beat.wait_for(AWAY)
        proxy.heal()
        cluster.tables.wait_until_sent(1)
        cluster.finish()


def test_only_one_replica_reaches_the_broker(cluster: Cluster, redis_url: str) -> None:
    with Proxy.to(redis_url) as proxy:
        cluster.tables.add("steady", every="0.5", count=50)
        cut_off = cluster.start(CELERY_BROKER_URL=proxy.url(redis_url))
        cluster.wait_until_ready()
        cluster.start()
        proxy.cut()
        cut_off.wait_for(AWAY)
        cluster.tables.wait_until_sent(2)
        cluster.finish()
