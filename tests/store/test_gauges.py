"""What is counted for metrics is right where there is little, and cheap where there is much."""

from datetime import timedelta

import pytest

from celery_dbbeat.observe.catalogue import CLUSTER
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import gauges, leases, workers
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.leases import Replica
from celery_dbbeat.store.workers import Reading
from tests.store.kit import TTL, Person, dispatch

SETTINGS = Settings(url="")
MANY = """
    INSERT INTO dbbeat_schedule (name, task, kind, expression, state)
    SELECT 'n' || n, 't', 'interval', '86400',
           CASE WHEN n %% 4 = 0 THEN 'paused' WHEN n <= 3 THEN 'invalid' ELSE 'active' END
    FROM generate_series(1, 12000) n
"""
TICK = """
    INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica, awaited)
    VALUES (gen_random_uuid(), now(), gen_random_uuid(), %s, now(), 'a', %s)
"""


def known(store: Database) -> dict[tuple[str, str], float]:
    readings = gauges.read(store, SETTINGS)
    return {(one.metric.name, one.value): one.numbers[0] for one in readings}


def test_of_empty_tables_all_is_known_and_zero(store: Database) -> None:
    names = {(metric.name, value) for metric in CLUSTER for value in metric.values}
    assert known(store) == dict.fromkeys(names, 0)


def test_what_is_due_and_what_is_late(store: Database, person: Person) -> None:
    for name, overdue in (("a", 0.5), ("b", 4), ("c", 30)):
        person.make_due(person.add(name), timedelta(seconds=overdue))
    person.add("not yet", start_at="2200-01-01")
    dispatched = known(store)
    assert dispatched["dbbeat_due_schedules", ""] == 4  # one waits for its first planning
    assert dispatched["dbbeat_late_schedules", ""] == 1
    assert 30 <= dispatched["dbbeat_oldest_due_seconds", ""] < 60


def test_ticks_on_their_way(store: Database, person: Person) -> None:
    person.add_due("one")
    assert len(dispatch(store)) == 1
    for state, awaited in (("sent", True), ("sent", True), ("dead", False), ("sent", False)):
        person.do(TICK, state, awaited)
    found = known(store)
    assert found["dbbeat_unsent_ticks", ""] == 1
    assert found["dbbeat_awaited_ticks", ""] == 2
    assert found["dbbeat_dead_ticks", ""] == 1


def test_who_is_alive(store: Database, person: Person) -> None:
    for name, ready in (("a", True), ("b", True), ("c", False), ("gone", True)):
        me = Replica(name, f"host-{name}", 1, "0.1.0")
        leases.heartbeat(store, me, ready=ready, listener_pid=None, ttl=TTL)
    person.do("UPDATE dbbeat_replica SET seen_at = now() - interval '1 minute' WHERE id = 'gone'")
    workers.announce(store, "celery@one", Reading(["celery"]), "0.1.0")
    found = known(store)
    assert found["dbbeat_replicas", "ready"] == 2
    assert found["dbbeat_replicas", "not_ready"] == 1
    assert found["dbbeat_workers", ""] == 1
    (seen,) = gauges.replicas_of(store, "host-gone", 10)
    assert (seen.id, seen.ready, seen.fresh) == ("gone", True, False)
    assert 60 <= seen.seen_ago < 100
    (seen,) = gauges.replicas_of(store, "host-c", 10)
    assert (seen.ready, seen.fresh) == (False, True)


class TestManySchedules:
    def test_few_are_counted(self, store: Database, person: Person) -> None:
        for state, count in (("active", 3), ("paused", 2), ("finished", 1)):
            for number in range(count):
                person.add(f"{state} {number}", state=state)
        found = known(store)
        assert found["dbbeat_schedules", "active"] == 3
        assert found["dbbeat_schedules", "paused"] == 2
        assert found["dbbeat_schedules", "finished"] == 1

    def test_many_are_estimated_and_few_among_them_counted(
        self, store: Database, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gauges, "MOST", 1000)
        person.connection.execute(MANY.replace("%%", "%").encode())
        person.do("ANALYZE dbbeat_schedule")
        found = known(store)
        assert found["dbbeat_schedules", "active"] == pytest.approx(8997, rel=0.1)
        assert found["dbbeat_schedules", "paused"] == pytest.approx(3000, rel=0.1)
        assert found["dbbeat_schedules", "invalid"] == 3
        assert found["dbbeat_due_schedules", ""] == 1000

    def test_a_count_ends_at_its_bound(
        self, store: Database, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(gauges, "MOST", 5)
        for number in range(8):
            person.add(f"n{number}")
        assert known(store)["dbbeat_due_schedules", ""] == 5
