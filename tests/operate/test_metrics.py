"""What real beats and workers count."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_dbbeat.observe.catalogue import BEAT, CLUSTER, WORKER, Metric
from tests.operate.conftest import Watched
from tests.support.family import family, signal_all
from tests.support.http import ask, status
from tests.support.metrics import Samples, scrape
from tests.support.services import free_port
from tests.support.waiting import wait_until
from tests.worker.fleet import Fleet


def missing(shown: Samples, metrics: tuple[Metric, ...]) -> set[str]:
    """Those of which not every value of the label is there."""
    return {
        metric.name
        for metric in metrics
        for value in metric.values
        if (metric.name + ("_count" if metric.kind == "histogram" else ""), value) not in shown
    }


def ours(shown: Samples) -> set[str]:
    return {name for name, _ in shown if name.startswith("dbbeat_")}


@pytest.fixture
def fleet(tmp_path: Path, database_url: str, redis_url: str) -> Iterator[Fleet]:
    with Fleet(tmp_path, database_url, redis_url) as fleet:
        yield fleet


def test_of_leader_and_standby(watched: Watched) -> None:
    watched.tables.add("steady", every="0.5", count=4)
    watched.start_and_wait(2)
    leader = watched.leader()
    (standby,) = (beat for beat in watched.beats if beat is not leader)
    port = watched.port(leader)
    wait_until(lambda: scrape(port)["dbbeat_ticks_total", "sent"] >= 8, 20, watched.logs)
    shown = scrape(port)
    assert missing(shown, BEAT) == set()
    assert missing(shown, CLUSTER) == set()
    assert shown["dbbeat_leases_held", ""] == 1
    assert shown["dbbeat_ready", ""] == 1
    assert shown["dbbeat_lease_changes_total", "gained"] >= 1
    assert shown["dbbeat_tick_lateness_seconds_count", ""] >= 8
    assert shown["dbbeat_batch_seconds_count", "commit"] >= 2
    assert shown["dbbeat_batch_seconds_sum", "publish"] > 0
    assert shown["dbbeat_schedules", "active"] == 5  # with Celery's own
    shown = scrape(watched.port(standby))
    assert missing(shown, BEAT) == set()
    assert not ours(shown) & {metric.name for metric in CLUSTER}
    assert (shown["dbbeat_leases_held", ""], shown["dbbeat_ready", ""]) == (0, 1)


def test_a_standby_counts_what_it_hedges(watched: Watched) -> None:
    watched.tables.add("steady", every="0.5", count=4)
    watched.start_and_wait(2)
    leader = watched.leader()
    (standby,) = (beat for beat in watched.beats if beat is not leader)
    watched.tables.wait_until_sent()
    leader.stop_signal()
    port = watched.port(standby)
    wait_until(lambda: scrape(port)["dbbeat_hedged_ticks_total", ""] > 0, 20, watched.logs)
    assert "hedged: " in standby.log()
    leader.cont()


def test_the_broker_is_away(watched: Watched) -> None:
    beat = watched.start(CELERY_BROKER_URL=f"redis://127.0.0.1:{free_port()}")
    watched.wait_for_status(beat, "/live", 200)
    port = watched.port(beat)
    wait_until(lambda: scrape(port)["dbbeat_errors_total", "broker"] >= 2, 20, beat.tail)
    assert scrape(port)["dbbeat_ready", ""] == 0


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo"])
def test_of_a_worker_and_its_pool(fleet: Fleet, pool: str) -> None:
    port = free_port()
    fleet.start_worker("-c", "2", pool=pool, DBBEAT_WORKER_HTTP=f"127.0.0.1:{port}")
    fleet.send("plain", copies=3)
    fleet.send("exactly")
    fleet.send("failing")
    wait_until(
        lambda: (
            sum(n for (name, _), n in scrape(port).items() if name == "dbbeat_runs_total") >= 3
            and scrape(port)["dbbeat_duplicates_skipped_total", ""] >= 2
        ),
        20,
        lambda: str({key: n for key, n in scrape(port).items() if key[0].startswith("dbbeat")}),
    )
    shown = scrape(port)
    assert missing(shown, WORKER) == set()
    assert not ours(shown) & {metric.name for metric in (*BEAT, *CLUSTER)}
    assert shown["dbbeat_runs_total", "done"] == 2
    assert shown["dbbeat_runs_total", "failed"] == 1
    assert shown["dbbeat_duplicates_skipped_total", ""] == 2
    assert shown["dbbeat_run_seconds_count", ""] == 3
    assert shown["dbbeat_guard_seconds_count", "take"] == 5
    wait_until(lambda: status(port, "/ready") == 200, 10, lambda: ask(port, "/ready").text)
    assert status(port, "/live") == 200


def test_a_killed_pool_process_takes_no_count_with_it(fleet: Fleet) -> None:
    port = free_port()
    worker = fleet.start_worker("-c", "1", pool="prefork", DBBEAT_WORKER_HTTP=f"127.0.0.1:{port}")
    fleet.send("plain")
    done = ("dbbeat_runs_total", "done")
    wait_until(lambda: scrape(port)[done] == 1, 20, worker.tail)
    signal_all([pid for pid in family(worker.pid) if pid != worker.pid], signal.SIGKILL)
    fleet.send("plain")
    wait_until(lambda: scrape(port)[done] == 2, 20, worker.tail)


def test_a_workers_port_that_is_taken_is_refused_at_start(fleet: Fleet) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    fleet.start_worker(DBBEAT_WORKER_HTTP=address)
    second = fleet.run("worker", "-P", "solo", "-n", "second@test", DBBEAT_WORKER_HTTP=address)
    assert second.wait() == 1
    assert f"Error: dbbeat_worker_http is {address!r}, which cannot be served" in second.log()


def test_a_killed_worker_leaves_its_port_free(fleet: Fleet) -> None:
    """Though processes of its pool may live on for a while."""
    port = free_port()
    worker = fleet.start_worker("-c", "1", pool="prefork", DBBEAT_WORKER_HTTP=f"127.0.0.1:{port}")
    fleet.send("plain", seconds=5)
    wait_until(lambda: "received" in worker.log(), 10, worker.tail)
    worker.kill9(only_leader=True)
    fleet.workers.remove(worker)
    fleet.start_worker("-c", "1", pool="prefork", DBBEAT_WORKER_HTTP=f"127.0.0.1:{port}")
    assert status(port, "/live") == 200
