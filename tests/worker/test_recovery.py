"""Real beats, real workers, and everything that dies on the way: each tick has its one effect."""

import os
import random
import time
from pathlib import Path
from uuid import UUID

import pytest

from celery_dbbeat.failpoints import IN_A_RUN
from tests.support.postgres import Postgres
from tests.support.redis import Redis, flush
from tests.support.waiting import wait_until
from tests.worker.fleet import Fleet

BURST = """
    INSERT INTO dbbeat_schedule (name, task, kind, expression, start_at, max_runs, kwargs)
    SELECT 'burst-' || i, %(task)s, 'interval', %(every)s,
           now() + interval '1 s' + i * %(apart)s * interval '1 s', %(runs)s,
           jsonb_build_object('seconds', %(seconds)s::float8)
    FROM generate_series(1, %(count)s::int) AS i
"""
TICKS = "SELECT count(*) FROM dbbeat_tick WHERE state = 'sent'"
# Ticks by how many effects they had.
COUNTS = """
    SELECT effects, count(*) AS ticks FROM (
        SELECT (SELECT count(*) FROM effect e WHERE e.task_id = t.task_id) AS effects
        FROM dbbeat_tick t) AS by_tick
    GROUP BY effects ORDER BY effects
"""
NOT_ENDED = "SELECT count(*) FROM dbbeat_tick WHERE awaited OR state = 'recorded'"
UNFINISHED = """
    SELECT count(*) FROM dbbeat_schedule WHERE state = 'active' AND starts_with(name, 'burst-')
"""
OPEN = """
    SELECT t.state, t.attempt, t.losses, t.claimed_at, t.reason, d.status, d.lease_until
    FROM dbbeat_tick t LEFT JOIN dbbeat_dedup d USING (task_id, nominal_at)
    WHERE awaited OR t.state <> 'sent' LIMIT 5
"""


def by_effects(fleet: Fleet) -> dict[int, int]:
    return {row["effects"]: row["ticks"] for row in fleet.tables.rows(COUNTS)}


def start_burst(fleet: Fleet, task: str, count: int, **given: float) -> None:
    """So many schedules, at one instant or `apart`, that end after `runs` fire times."""
    usual = {"runs": 1, "every": 5.0, "apart": 0.0, "seconds": 0.0, **given}
    usual["every"] = f"{usual['every']:g}"  # type: ignore[assignment]
    fleet.tables.rows(BURST, task=task, count=count, **usual)


def wait_until_all_ended(fleet: Fleet, timeout: float = 60) -> None:
    """Until every schedule has had its runs, and how each ended is known."""

    def ended() -> bool:
        return not fleet.tables.value(UNFINISHED) and not fleet.tables.value(NOT_ENDED)

    def found() -> str:
        stand = (by_effects(fleet), fleet.tables.rows(OPEN), fleet.depth())
        return f"{stand}\n{fleet.worker_logs()}"

    wait_until(ended, timeout, found, every=0.2)


@pytest.mark.parametrize("point", IN_A_RUN)
def test_a_worker_dies_at_a_step_and_the_effect_is_there_once(fleet: Fleet, point: str) -> None:
    fleet.start_and_wait(1)
    doomed = fleet.start_worker(DBBEAT_FAILPOINTS=f"{point}=kill@2")
    start_burst(fleet, "exactly", 10)
    assert doomed.wait(20) == -9
    fleet.workers.remove(doomed)
    fleet.start_worker()
    wait_until_all_ended(fleet)
    assert by_effects(fleet) == {1: 10}


def test_without_once_a_dead_worker_costs_a_second_effect_at_the_most(fleet: Fleet) -> None:
    """At least once, as the documents say."""
    fleet.start_and_wait(1)
    doomed = fleet.start_worker(DBBEAT_FAILPOINTS="after_finish=kill@2")
    slow = fleet.start_worker(DBBEAT_FAILPOINTS="after_take=kill@2")
    start_burst(fleet, "plain", 10)
    for worker in (doomed, slow):
        assert worker.wait(20) == -9
        fleet.workers.remove(worker)
    fleet.start_worker()
    wait_until_all_ended(fleet)
    counts = by_effects(fleet)
    assert sum(counts.values()) == 10
    assert 0 not in counts


def test_a_frozen_worker_is_overtaken_and_what_it_does_on_waking_is_rolled_back(
    fleet: Fleet,
) -> None:
    fleet.start_and_wait(1)
    frozen = fleet.start_worker()
    start_burst(fleet, "exactly", 1, seconds=2)
    identity = wait_until(lambda: _running(fleet), 20, "a run")[0]
    frozen.stop_signal()
    fleet.start_worker()
    run = fleet.wait_for_status(identity, "done", 30)
    assert run["attempt"] == 2
    frozen.cont()

    def stale() -> bool:
        row = fleet.run_of(identity)
        return row is not None and [one["status"] for one in row["earlier"]] == ["stale"]

    wait_until(stale, 20, lambda: f"{fleet.run_of(identity)}\n{fleet.worker_logs()}")
    assert by_effects(fleet) == {1: 1}


def _running(fleet: Fleet) -> list[UUID]:
    rows = fleet.tables.rows("SELECT task_id FROM dbbeat_dedup WHERE status = 'running'")
    return [row["task_id"] for row in rows]


def test_a_broker_is_emptied_with_a_thousand_ticks_waiting(
    tmp_path: Path, database_url: str, own_redis: Redis
) -> None:
    with Fleet(tmp_path, database_url, own_redis.url) as fleet:
        fleet.start_and_wait(1)
        start_burst(fleet, "exactly", 1000)
        wait_until(lambda: fleet.tables.value(TICKS) == 1000, 20, "a thousand ticks sent")
        flush(own_redis.url)
        assert fleet.depth() == 0
        fleet.start_worker("-c", "2", pool="prefork")
        wait_until_all_ended(fleet)
        assert by_effects(fleet) == {1: 1000}


def test_a_long_queue_is_not_made_longer(fleet: Fleet) -> None:
    """Ticks that wait for longer than `resend_after` while others are taken are not sent again."""
    fleet.start_and_wait(1)
    start_burst(fleet, "plain", 40, seconds=0.2)
    wait_until(lambda: fleet.tables.value(TICKS) == 40, 20, "all sent")
    fleet.start_worker("--prefetch-multiplier", "1")
    wait_until_all_ended(fleet)
    assert by_effects(fleet) == {1: 40}
    assert fleet.tables.value("SELECT sum(losses) FROM dbbeat_tick") <= 2


def test_postgres_restarts_under_load(
    tmp_path: Path, own_postgres: Postgres, own_database_url: str, redis_url: str
) -> None:
    with Fleet(tmp_path, own_database_url, redis_url) as fleet:
        fleet.start_and_wait(2)
        fleet.start_worker("-c", "2", pool="prefork")
        start_burst(fleet, "exactly", 100, runs=6, every=1)
        # A task that cannot even connect has failed; this one is safe to be run again.
        fleet.tables.rows("UPDATE dbbeat_schedule SET on_failure = 'retry'")
        wait_until(lambda: fleet.tables.value(TICKS) > 150, 20, "load")
        own_postgres.restart()
        wait_until(lambda: fleet.tables.value(TICKS) > 300, 30, "more load", every=0.2)
        own_postgres.kill()
        own_postgres.start()
        wait_until_all_ended(fleet, 90)
        counts = by_effects(fleet)
        reasons = fleet.tables.value(
            "SELECT coalesce(sum(count), 0) FROM dbbeat_tick WHERE state IN ('coalesced', 'missed')"
        )
        sent = fleet.tables.value(TICKS)
        assert (counts.get(1), counts.keys() - {0, 1}) == (sent, set())
        assert fleet.tables.value("SELECT count(*) FROM dbbeat_tick WHERE state = 'dead'") == 0
        assert sent + reasons >= 600


def test_workers_without_the_guard_are_left_in_peace(fleet: Fleet) -> None:
    """Beat has the guard, the worker has not: it never takes an id, and gets nothing twice."""
    fleet.environment["DBBEAT_RESEND_AFTER"] = "1"
    fleet.start_and_wait(1)
    fleet.start_worker(DBBEAT_TEST_NO_GUARD="1")
    start_burst(fleet, "plain", 50)
    wait_until(lambda: fleet.effects() == 50, 20, "all effects")
    fleet.tables.rows("UPDATE dbbeat_tick SET claimed_at = claimed_at - interval '1 hour'")
    for _ in range(2):  # between two heartbeats there are several passes of recovery
        wait_for_heartbeat(fleet)
    assert by_effects(fleet) == {1: 50}
    assert fleet.tables.value("SELECT sum(losses) FROM dbbeat_tick") == 0


def wait_for_heartbeat(fleet: Fleet) -> None:
    now = fleet.tables.value("SELECT now()")
    seen = "SELECT seen_at > %(at)s FROM dbbeat_replica"
    wait_until(lambda: fleet.tables.value(seen, at=now), 20, "a heartbeat")


@pytest.mark.timeout(600)
def test_workers_and_beats_are_killed_all_the_time(fleet: Fleet, long_run: bool) -> None:  # noqa: FBT001 - a fixture
    """The bar: 20,000 ticks, a worker or a beat killed every three seconds."""
    seed = os.environ.get("DBBEAT_TEST_SEED") or str(random.randrange(10**6))  # noqa: S311 - no secret
    print(f"DBBEAT_TEST_SEED={seed}")
    chance = random.Random(seed)  # noqa: S311 - no secret
    schedules, runs, every = (1000, 20, 7) if long_run else (120, 6, 3)
    fleet.environment["DBBEAT_MAX_ATTEMPTS"] = "20"
    fleet.start_and_wait(2)
    for _ in range(4):
        fleet.start_worker()
    # All the time some are running, so that each kill hits something.
    apart = every / schedules
    start_burst(fleet, "exactly", schedules, runs=runs, every=every, apart=apart, seconds=0.02)
    while fleet.tables.value(UNFINISHED):
        time.sleep(3)  # the pace of the load
        fleet.check_running()
        if chance.random() < 0.3:
            fleet.kill(chance.choice(fleet.beats))
            fleet.start()
        else:
            fleet.kill_worker(chance.choice(fleet.workers))
            fleet.start_worker()
    wait_until_all_ended(fleet, 300)
    counts = by_effects(fleet)
    losses = fleet.tables.value("SELECT sum(losses) FROM dbbeat_tick")
    print(f"ticks by effects: {counts}; sent again: {losses}")
    assert counts == {1: schedules * runs}
