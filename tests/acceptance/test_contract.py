"""What Celery asks of a scheduler, and what people know of `celery beat`."""

import signal
import socket
from contextlib import closing

import pytest
from celery import Celery

from celery_dbbeat import DatabaseScheduler
from tests.faults.cluster import Cluster
from tests.support.server import LOOPBACK
from tests.support.waiting import wait_until

PLAIN_APP = """
from celery import Celery
app = Celery("shop")
app.conf.task_ignore_result = True
"""


@pytest.mark.parametrize("scheduler", ["dbbeat", "celery_dbbeat:DatabaseScheduler"])
def test_the_scheduler_is_found_by_its_names(cluster: Cluster, scheduler: str) -> None:
    cluster.write_app(PLAIN_APP)
    cluster.tables.add("first")
    beat = cluster.start("-S", scheduler, "--max-interval", "1")
    cluster.tables.wait_until_sent(0)
    assert "maxinterval -> 1.00 second" in beat.log()
    assert cluster.finish().doubled == 0


def test_the_banner_touches_no_database() -> None:
    with closing(socket.create_server((LOOPBACK, 0))) as server:
        server.setblocking(False)  # noqa: FBT003 - its only argument
        url = f"postgresql+psycopg://me:secret@{LOOPBACK}:{server.getsockname()[1]}/shop"
        app = Celery("shop", broker="memory://", set_as_current=False)
        app.conf.dbbeat_url = url
        scheduler = DatabaseScheduler(app, lazy=True)
        assert LOOPBACK in scheduler.info
        assert "secret" not in scheduler.info
        assert scheduler.max_interval > 0
        scheduler.close()
        with pytest.raises(BlockingIOError):
            server.accept()


def test_leader_and_standby_answer_a_ping(cluster: Cluster) -> None:
    cluster.write_app(PLAIN_APP + "app.conf.beat_enable_remote_control = True\n")
    cluster.tables.add("steady")
    names = ["celerybeat@one", "celerybeat@two"]
    for name in names:
        cluster.start("-S", "dbbeat", "-n", name)
    cluster.wait_until_ready()
    assert len(cluster.tables.leaders()) == 1

    def answered() -> bool:
        ping = cluster.run("inspect", "ping", "--timeout", "2")
        ping.wait()
        return all(name in ping.log() for name in names)

    wait_until(answered, 20, cluster.logs)
    cluster.finish()


def test_inside_a_worker(cluster: Cluster) -> None:
    cluster.tables.add("steady")
    worker = cluster.run("worker", "-B", "-c", "1", "-l", "INFO", "-S", "dbbeat")
    worker.wait_for("succeeded in")
    leaders = wait_until(cluster.tables.leaders, 10)
    assert leaders != [worker.pid]
    cluster.tables.settle()
    assert worker.terminate() == 0
    assert cluster.tables.value("SELECT count(*) FROM dbbeat_replica") == 0


@pytest.mark.parametrize("setting", [{"DBBEAT_URL": "nonsense"}, {"DBBEAT_LEASE_TTL": "soon"}])
def test_a_wrong_setting_ends_beat_with_one_line(cluster: Cluster, setting: dict[str, str]) -> None:
    beat = cluster.run("beat", **setting)
    assert beat.wait(30) == 1
    assert f"Error: {next(iter(setting)).lower()} is " in beat.log()
    assert "Traceback" not in beat.log()


def test_beat_init_is_signalled(cluster: Cluster) -> None:
    handler = """
from celery.signals import beat_init
@beat_init.connect
def greet(sender, **_):
    print(f"beat_init of {type(sender).__name__}")
"""
    cluster.write_app(PLAIN_APP + handler)
    cluster.start("-S", "dbbeat").wait_for("beat_init of Service")


@pytest.mark.parametrize(("number", "rc"), [(signal.SIGINT, 0), (signal.SIGHUP, -signal.SIGHUP)])
def test_a_signal_ends_beat_as_it_always_did(
    cluster: Cluster, number: signal.Signals, rc: int
) -> None:
    cluster.tables.add("steady", every="0.5", count=20)
    (beat,) = cluster.start_and_wait()
    cluster.tables.wait_until_sent(0)
    cluster.end(beat, number, rc)
    holder = cluster.tables.value("SELECT holder FROM dbbeat_lease")
    if number is not signal.SIGHUP:
        assert holder is None
        assert cluster.tables.unsent() == 0
    cluster.start_and_wait()
    cluster.tables.wait_until_sent(0)
    assert cluster.finish().doubled == 0
