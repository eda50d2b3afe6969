"""A tick that arrives twice is run once, on every pool, whatever the acknowledgement."""

import json
import signal

import pytest
from celery.backends.redis import RedisBackend
from celery.result import AsyncResult
from kombu import Connection

from tests.support.waiting import wait_until
from tests.worker.app import app
from tests.worker.fleet import Fleet

POOLS = {"prefork": ("-c", "2"), "threads": ("-c", "4"), "solo": (), "gevent": ("-c", "10")}


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("late", ["", "1"], ids=["early", "late"])
def test_five_copies_are_run_once(fleet: Fleet, pool: str, late: str) -> None:
    fleet.start_worker(*POOLS[pool], pool=pool, DBBEAT_TEST_ACKS_LATE=late)
    identity = fleet.send("plain", copies=5)
    run = fleet.wait_for_status(identity, "done")
    fleet.wait_until_consumed()
    fleet.wait_for_status(fleet.send("plain"), "done")
    assert fleet.effects(identity) == 1
    assert (run["attempt"], run["result"], run["earlier"]) == (1, "SUCCESS", [])
    assert run["ended_at"] >= run["started_at"]


@pytest.mark.parametrize("task", ["plain", "exactly"])
def test_fifty_copies_at_once_on_four_processes_are_run_once(fleet: Fleet, task: str) -> None:
    identities = [fleet.send(task, copies=50, seconds=0.2) for _ in range(3)]
    fleet.start_worker("-c", "4", "--prefetch-multiplier", "50", pool="prefork")
    for identity in identities:
        fleet.wait_for_status(identity, "done")
    fleet.wait_until_consumed()
    fleet.wait_for_status(fleet.send(task), "done")
    assert [fleet.effects(identity) for identity in identities] == [1, 1, 1]


def test_a_second_delivery_leaves_the_stored_result_alone(fleet: Fleet, redis_url: str) -> None:
    fleet.start_worker(DBBEAT_TEST_RESULT_BACKEND=redis_url, DBBEAT_TEST_TRACK_STARTED="1")
    failed, done = fleet.send("failing"), fleet.send("plain")
    fleet.wait_for_status(done, "done")

    def stored() -> list[tuple[str, object]]:
        found = [AsyncResult(str(one), backend=backend) for one in (failed, done)]
        return [(result.state, result.date_done) for result in found]

    backend = RedisBackend(app=app, url=redis_url)
    before = stored()
    assert [state for state, _ in before] == ["FAILURE", "SUCCESS"]
    fleet.send("failing", number=1)
    fleet.send("plain", number=2)
    fleet.wait_for_status(fleet.send("plain"), "done")
    assert stored() == before
    assert (fleet.effects(failed), fleet.effects(done)) == (1, 1)


def test_a_failure_is_written_down_and_runs_again_only_when_sent_for_that(fleet: Fleet) -> None:
    fleet.start_worker()
    identity = fleet.send("failing", copies=3)
    run = fleet.wait_for_status(identity, "failed")
    assert run["error"] == "LookupError: no such customer"
    assert "raise LookupError" in run["traceback"]
    assert (run["result"], run["attempt"]) == ("FAILURE", 1)
    fleet.wait_for_status(fleet.send("plain"), "done")
    assert fleet.effects(identity) == 1
    fleet.send("failing", number=1, attempt=2, copies=2)
    wait_until(lambda: fleet.effects(identity) == 2, message="the second attempt")
    fleet.wait_for_status(fleet.send("plain"), "done")
    again = fleet.run_of(identity)
    assert again is not None
    assert (again["attempt"], fleet.effects(identity)) == (2, 2)
    assert [(one["attempt"], one["status"]) for one in again["earlier"]] == [(1, "failed")]


@pytest.mark.parametrize("late", ["", "1"], ids=["early", "late"])
def test_a_tasks_own_retry_goes_on_under_the_same_id(fleet: Fleet, late: str) -> None:
    fleet.start_worker("-c", "2", pool="prefork", DBBEAT_TEST_ACKS_LATE=late)
    identity = fleet.send("retrying", copies=4, times=3)
    run = fleet.wait_for_status(identity, "done")
    assert (run["attempt"], run["retries"], fleet.effects(identity)) == (1, 3, 1)
    assert len(run["earlier"]) == 3


def test_what_a_task_ignores_is_done_and_what_it_gives_back_comes_again(fleet: Fleet) -> None:
    fleet.start_worker()
    ignored = fleet.wait_for_status(fleet.send("ignoring"), "done")
    assert ignored["result"] == "IGNORED"
    identity = fleet.send("rejecting")
    run = fleet.wait_for_status(identity, "done")
    assert fleet.effects(identity) == 2
    assert [one["status"] for one in run["earlier"]] == ["released"]


def test_a_message_without_the_header_costs_nothing(fleet: Fleet, redis_url: str) -> None:
    fleet.start_worker()
    app.send_task("plain", connection=Connection(redis_url))
    wait_until(lambda: fleet.effects() == 1, message="the effect")
    assert fleet.tables.value("SELECT count(*) FROM dbbeat_dedup") == 0


@pytest.mark.parametrize("header", ["{}", '{"nominal": "soon"}', '"yes"', "7"])
def test_a_header_that_is_none_of_ours_does_not_stop_the_task(fleet: Fleet, header: str) -> None:
    fleet.start_worker()
    app.send_task(
        "plain", connection=Connection(fleet.broker_url), headers={"dbbeat": json.loads(header)}
    )
    wait_until(lambda: fleet.effects() == 1, message="the effect")
    assert "is not guarded" in fleet.workers[0].log()


@pytest.mark.parametrize("pool", POOLS)
def test_a_long_task_keeps_its_tick_while_its_worker_lives(fleet: Fleet, pool: str) -> None:
    fleet.start_worker(*POOLS[pool], pool=pool, DBBEAT_RUN_LEASE="1")
    identity = fleet.send("plain", seconds=4)
    first = fleet.wait_for_status(identity, "running")
    renewed = wait_until(
        lambda: (run := fleet.run_of(identity)) and run["lease_until"] > first["lease_until"],
        message="a longer lease",
    )
    assert renewed
    other = fleet.start_worker(pool="solo")
    fleet.send("plain", number=1, copies=3, seconds=0)
    fleet.wait_until_consumed()
    run = fleet.wait_for_status(identity, "done")
    assert (run["attempt"], fleet.effects(identity)) == (1, 1)
    assert other.running


@pytest.mark.parametrize("task", ["plain", "exactly"])
def test_a_frozen_worker_loses_its_tick_and_is_stale_when_it_wakes(fleet: Fleet, task: str) -> None:
    frozen = fleet.start_worker()
    identity = fleet.send(task, seconds=1)
    fleet.wait_for_status(identity, "running")
    frozen.stop_signal()
    wait_until(
        lambda: fleet.tables.value(
            "SELECT lease_until < now() FROM dbbeat_dedup WHERE task_id = %(id)s", id=identity
        ),
        message="the lease to run out",
    )
    fleet.start_worker()
    fleet.send(task, number=1, attempt=2)
    run = fleet.wait_for_status(identity, "done")
    assert run["attempt"] == 2
    frozen.cont()

    def stale() -> bool:
        row = fleet.run_of(identity)
        return row is not None and [one["status"] for one in row["earlier"]] == ["stale"]

    wait_until(stale, 20, lambda: f"{fleet.run_of(identity)}\n{fleet.worker_logs()}")
    # Without `once` nothing can take back what the first one did when it woke.
    assert fleet.effects(identity) == (1 if task == "exactly" else 2)


def test_a_worker_says_which_queues_it_guards_until_it_ends(fleet: Fleet) -> None:
    worker = fleet.start_worker("-Q", "celery,billing")
    queues = "SELECT queues FROM dbbeat_worker"
    wait_until(lambda: fleet.tables.rows(queues), message="the announcement")
    assert sorted(fleet.tables.value(queues)) == ["billing", "celery"]
    worker.send(signal.SIGTERM, only_leader=True)
    assert worker.wait() == 0
    assert fleet.tables.rows(queues) == []


def test_what_somebody_terminates_has_failed_and_does_not_come_back(
    fleet: Fleet, redis_url: str
) -> None:
    fleet.start_worker("-c", "1", pool="prefork")
    identity = fleet.send("plain", seconds=60)
    fleet.wait_for_status(identity, "running")
    control = fleet.run("control", "terminate", "SIGKILL", str(identity))
    control.wait()
    run = fleet.wait_for_status(identity, "failed")
    assert (run["result"], run["error"]) == ("REVOKED", "somebody revoked it while it ran")


def test_what_somebody_revokes_before_it_is_run_has_failed(fleet: Fleet) -> None:
    worker = fleet.start_worker("-c", "1", pool="prefork")
    busy = fleet.send("plain", seconds=2)
    fleet.wait_for_status(busy, "running")
    identity = fleet.send("plain")
    fleet.run("control", "revoke", str(identity)).wait()
    worker.wait_for("Discarding revoked task")
    run = fleet.wait_for_status(identity, "failed")
    assert (run["error"], fleet.effects(identity)) == ("somebody revoked it before it was run", 0)


def test_a_task_that_no_worker_knows_says_so_and_is_given_back(fleet: Fleet) -> None:
    fleet.start_worker()
    identity = fleet.send("nobody.knows")
    run = fleet.wait_for_status(identity, "released")
    assert run["error"] == "the worker does not know the task 'nobody.knows'"


def test_a_worker_with_a_wrong_setting_ends_with_one_line(fleet: Fleet) -> None:
    worker = fleet.run("worker", "-P", "solo", DBBEAT_RUN_LEASE="soon")
    assert worker.wait() == 1
    assert "Error: dbbeat_run_lease is 'soon'; allowed is a number of seconds" in worker.log()
    assert "Traceback" not in worker.log()
