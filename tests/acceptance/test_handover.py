"""A replica that is asked to end hands over, and loses nothing of what it was doing."""

import signal
import time

from tests.faults.cluster import Cluster
from tests.support.waiting import wait_until


def test_the_leader_hands_over_when_it_ends(cluster: Cluster) -> None:
    cluster.start_and_wait(3)
    cluster.tables.add("steady", every="0.5", count=50)
    cluster.tables.wait_until_sent(0)
    leader, epoch = cluster.leader(), cluster.tables.epoch()
    started_at = time.monotonic()
    cluster.end(leader)
    assert time.monotonic() - started_at < 10  # 2 s, on a machine with nothing else to do
    assert cluster.leader() is not leader
    assert cluster.tables.epoch() == epoch + 1
    cluster.tables.wait_until_sent(1)
    report = cluster.finish()
    assert report.doubled == 0
    assert report.not_sent == 0
    # Less than half a second where nothing else runs; waiting for the lease would take ten.
    assert max(report.late) < 5


def test_all_end_at_once(cluster: Cluster) -> None:
    cluster.tables.add("steady", every="0.5", count=50)
    beats = cluster.start_and_wait(3)
    cluster.tables.wait_until_sent(0)
    for beat in beats:
        beat.send(signal.SIGTERM, only_leader=True)
    started_at = time.monotonic()
    for beat in beats:
        cluster.forget_ended(beat, 0)
    assert time.monotonic() - started_at < 10
    assert cluster.tables.unsent() == 0
    assert cluster.tables.value("SELECT count(*) FROM dbbeat_replica") == 0
    cluster.start_and_wait()
    cluster.tables.wait_until_sent(0)
    assert cluster.finish().doubled == 0


def test_a_batch_under_way_is_ended_first(cluster: Cluster) -> None:
    cluster.tables.add("steady", count=40)
    slow = cluster.start(DBBEAT_FAILPOINTS="during_publish=sleep:0.02")
    wait_until(cluster.tables.unsent, 20, slow.tail)
    cluster.end(slow)
    assert cluster.tables.unsent() == 0
    cluster.start_and_wait()
    cluster.tables.wait_until_sent(0)
    assert cluster.finish().doubled == 0
