"""A replica that dies or stops at any step of a batch loses nothing: another goes on."""

import signal
from pathlib import Path

import pytest

from celery_dbbeat.failpoints import NAMES
from tests.faults.cluster import Cluster
from tests.support.processes import Process
from tests.support.waiting import wait_until

#: By then it leads, the other is there, and a batch is under way. Most points are reached once a
#: batch and once when nothing more is due; the others once a batch, or once a message.
NTH = {"after_plan": 4, "before_publish": 4, "after_publish": 4, "during_publish": 50}
EACH_PASS = 9


def lead_with(cluster: Cluster, point: str, action: str, **settings: str) -> Process:
    """A leader that meets its fate at this point, and a second replica beside it."""
    cluster.tables.add("steady", every="0.5", count=20)
    nth = NTH.get(point, EACH_PASS)
    doomed = cluster.start(DBBEAT_FAILPOINTS=f"{point}={action}@{nth}", **settings)
    wait_until(cluster.tables.leaders, 20, doomed.tail)
    cluster.start(**settings)
    return doomed


@pytest.mark.parametrize("point", NAMES)
def test_killed_at_a_step_loses_nothing(cluster: Cluster, point: str) -> None:
    doomed = lead_with(cluster, point, "kill")
    cluster.forget_ended(doomed, -signal.SIGKILL)
    cluster.tables.wait_until_sent(1)
    cluster.finish()


def test_killed_in_its_first_pass_it_is_known_to_be_gone(cluster: Cluster) -> None:
    """What it had recorded by then waits for the next replica, not for a lease's time."""
    cluster.tables.add("steady", every="0.5", count=20)
    cluster.start_and_wait()
    cluster.tables.wait_until_sent(0)
    cluster.kill(cluster.beats[0])
    doomed = cluster.start(DBBEAT_FAILPOINTS="before_publish=kill")
    cluster.forget_ended(doomed, -signal.SIGKILL)
    assert cluster.tables.unsent() > 0
    cluster.start()
    cluster.tables.wait_until_sent(1)
    assert max(cluster.finish().late) < 9


@pytest.mark.parametrize("point", ["after_claim", "before_publish", "before_mark"])
def test_stopped_at_a_step_and_woken_loses_nothing(cluster: Cluster, point: str) -> None:
    doomed = lead_with(cluster, point, "stop", DBBEAT_LEASE_TTL="3")
    wait_until(lambda: is_stopped(doomed), 20, doomed.tail)
    cluster.tables.wait_until_sent(1)
    doomed.cont()
    cluster.tables.wait_until_sent(1)
    cluster.finish()


def is_stopped(process: Process) -> bool:
    """Whether the kernel has it stopped."""
    stat = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8")
    return stat.rpartition(")")[2].split()[0] == "T"
