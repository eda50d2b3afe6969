"""The leader dies, freezes or leaves under load; two others are there."""

from collections.abc import Callable

import pytest

from tests.faults.cluster import Cluster
from tests.support.processes import Process


def kill(cluster: Cluster, leader: Process) -> None:
    cluster.kill(leader)


def freeze_for_a_while(cluster: Cluster, leader: Process) -> None:
    leader.stop_signal()
    cluster.tables.wait_until_sent(1)
    leader.cont()


def terminate(cluster: Cluster, leader: Process) -> None:
    cluster.end(leader)


@pytest.mark.parametrize("end", [kill, freeze_for_a_while, terminate])
def test_without_its_leader_a_cluster_goes_on(
    cluster: Cluster, end: Callable[[Cluster, Process], None]
) -> None:
    cluster.tables.add("steady", every="0.5", count=100)
    cluster.start_and_wait(3)
    cluster.tables.wait_until_sent(0)
    end(cluster, cluster.leader())
    cluster.tables.wait_until_sent(1)
    cluster.finish()


def test_all_replicas_believe_that_they_lead(cluster: Cluster) -> None:
    """As many slots as replicas, each slot with all shards: nobody waits for anybody."""
    cluster.tables.rows(
        "INSERT INTO dbbeat_lease (slot, first_shard, last_shard) VALUES (1, 0, 255), (2, 0, 255)"
    )
    beats = [cluster.start(DBBEAT_BATCH_SIZE="10") for _ in range(3)]
    cluster.tables.wait_until_led_by([beat.pid for beat in beats])
    cluster.tables.add("steady", every="0.2", count=100)
    cluster.tables.wait_until_sent(2)
    report = cluster.finish()
    assert report.doubled == 0
    senders = "SELECT count(DISTINCT replica) FROM dbbeat_tick WHERE epoch IS NOT NULL"
    assert cluster.tables.value(senders) > 1
