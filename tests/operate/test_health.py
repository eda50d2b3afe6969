"""What probes are told of real beats, in calm weather and in every outage."""

import signal

import pytest

from tests.operate.conftest import Watched
from tests.support.http import ask, status
from tests.support.proxy import Proxy
from tests.support.services import free_port


def test_a_standby_is_as_healthy_as_the_leader(watched: Watched) -> None:
    beats = watched.start_and_wait(2)
    leader = watched.leader()
    for beat in beats:
        watched.wait_for_status(beat, "/ready", 200)
        assert ask(watched.port(beat), "/live").json["live"] is True
        told = ask(watched.port(beat), "/ready").json
        assert (told["ready"], told["leads"]) == (True, beat is leader)
        assert told["replica"].split(":")[1] == str(beat.pid)
        assert status(watched.port(beat), "/other") == 404


def test_without_the_broker_it_lives_and_is_not_ready(watched: Watched, redis_url: str) -> None:
    with Proxy.to(redis_url) as proxy:
        watched.environment["CELERY_BROKER_URL"] = proxy.url(redis_url)
        (beat,) = watched.start_and_wait()
        watched.wait_for_status(beat, "/ready", 200)
        proxy.cut()
        watched.wait_for_status(beat, "/ready", 503)
        assert "the broker" in ask(watched.port(beat), "/ready").json["reason"]
        assert status(watched.port(beat), "/live") == 200
        proxy.heal()
        watched.wait_for_status(beat, "/ready", 200)
        assert "all is well again after" in beat.wait_for("all is well again")


def test_without_the_database_it_lives_and_is_not_ready(
    watched: Watched, database_url: str
) -> None:
    with Proxy.to(database_url) as proxy:
        watched.environment["DBBEAT_URL"] = proxy.url(database_url)
        (beat,) = watched.start_and_wait()
        watched.wait_for_status(beat, "/ready", 200)
        proxy.deaf()
        watched.wait_for_status(beat, "/ready", 503)
        assert "the database cannot be reached" in ask(watched.port(beat), "/ready").json["reason"]
        assert status(watched.port(beat), "/live") == 200
        assert status(watched.port(beat), "/metrics") == 200
        proxy.heal()
        watched.wait_for_status(beat, "/ready", 200)


def test_it_starts_where_nothing_can_be_reached(watched: Watched) -> None:
    nowhere = free_port()
    beat = watched.start(
        DBBEAT_URL=f"postgresql://a@127.0.0.1:{nowhere}/b",
        CELERY_BROKER_URL=f"redis://127.0.0.1:{nowhere}",
    )
    watched.wait_for_status(beat, "/live", 200)
    assert status(watched.port(beat), "/ready") == 503


def test_a_frozen_one_does_not_answer(watched: Watched) -> None:
    (beat,) = watched.start_and_wait()
    watched.wait_for_status(beat, "/ready", 200)
    beat.stop_signal()
    assert status(watched.port(beat), "/live") is None
    beat.cont()
    watched.wait_for_status(beat, "/ready", 200)


def test_it_ends_with_its_beat(watched: Watched) -> None:
    (beat,) = watched.start_and_wait()
    watched.wait_for_status(beat, "/ready", 200)
    watched.end(beat, signal.SIGTERM)
    assert status(watched.port(beat), "/live") is None


def test_a_port_that_is_taken_is_refused_at_start(watched: Watched) -> None:
    (first,) = watched.start_and_wait()
    address = f"127.0.0.1:{watched.port(first)}"
    second = watched.start(DBBEAT_HTTP=address)
    watched.beats.remove(second)
    assert second.wait() != 0
    assert f"dbbeat_http is {address!r}, which cannot be served" in second.log()
    watched.check_running()


def test_any_free_port(watched: Watched) -> None:
    beat = watched.start(DBBEAT_HTTP="127.0.0.1:0")
    log = beat.wait_for("/metrics on http://127.0.0.1:")
    port = int(log.split("/metrics on http://127.0.0.1:")[1].split()[0])
    assert status(port, "/live") == 200


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_in_a_worker_with_b(watched: Watched, pool: str) -> None:
    """There beat is a process that the worker forks."""
    beats_port, workers_port = free_port(), free_port()
    worker = watched.run(
        "worker", "-B", "-P", pool, "-c", "1", "-l", "INFO", "--without-mingle",
        DBBEAT_HTTP=f"127.0.0.1:{beats_port}",
        DBBEAT_WORKER_HTTP=f"127.0.0.1:{workers_port}",
    )  # fmt: skip
    watched.beats.append(worker)
    watched.ports[worker.pid] = beats_port
    watched.wait_for_status(worker, "/ready", 200)
    # This app has no guard, and so its workers serve nothing.
    assert status(workers_port, "/live") is None
