"""Postgres goes away under a worker: nothing is run that cannot be taken, and nothing is lost."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from celery.exceptions import Reject

from celery_dbbeat import once
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import runs
from celery_dbbeat.store.database import Database
from celery_dbbeat.worker.connections import Connections
from celery_dbbeat.worker.guard import Guard
from celery_dbbeat.worker.renewer import Renewer
from tests.support.postgres import Postgres, psycopg_url
from tests.support.services import PgBouncer
from tests.support.waiting import wait_until
from tests.worker.desk import NOMINAL, Desk
from tests.worker.fleet import Fleet


@pytest.fixture
def desk(own_database_url: str) -> Iterator[Desk]:
    with closing(Desk(own_database_url)) as desk:
        yield desk


def _look_again(desk: Desk) -> Desk:
    """With a new connection to look by, as the old one went with the server."""
    fresh = Desk(desk.url)
    fresh.guard = desk.guard
    desk.look.close()
    return fresh


def test_what_cannot_be_taken_is_not_run_and_goes_back(own_postgres: Postgres, desk: Desk) -> None:
    own_postgres.stop()
    ran: list[str] = []
    state, error = desk.deliver(lambda: ran.append("ran"))
    assert (state, ran) == ("REJECTED", [])
    assert isinstance(error, Reject)
    assert error.requeue
    own_postgres.start()
    assert desk.deliver(lambda: ran.append("ran"))[0] == "SUCCESS"
    assert ran == ["ran"]


def test_how_a_run_ended_is_written_down_later(own_postgres: Postgres, desk: Desk) -> None:
    task_id = uuid4()
    assert desk.deliver(own_postgres.kill, task_id)[0] == "SUCCESS"
    own_postgres.start()
    with closing(_look_again(desk)) as again:
        wait_until(lambda: again.run_of(task_id)["status"] == "done", message="the ending")
        ran: list[str] = []
        again.deliver(lambda: ran.append("twice"), task_id)
        assert ran == []


def test_what_failed_for_want_of_its_database_is_given_back(
    own_postgres: Postgres, desk: Desk
) -> None:
    task_id = uuid4()

    def task() -> None:
        with closing(psycopg.connect(psycopg_url(desk.url))) as connection, once(connection):
            connection.execute("INSERT INTO effect VALUES ('half')")
            own_postgres.restart()
            connection.execute("INSERT INTO effect VALUES ('other half')")

    assert desk.deliver(task, task_id)[0] == "FAILURE"
    with closing(_look_again(desk)) as again:
        wait_until(lambda: again.run_of(task_id)["status"] == "released", message="the ending")
        assert again.effects() == []
        ran: list[str] = []
        assert again.deliver(lambda: ran.append("now"), task_id)[0] == "SUCCESS"
        assert (ran, again.run_of(task_id)["attempt"]) == (["now"], 2)


def test_after_an_outage_leases_are_renewed_at_once(own_postgres: Postgres, desk: Desk) -> None:
    task_id = uuid4()
    lease = timedelta(minutes=10)  # the next renewal is more than three minutes off
    taken = runs.Run(task_id, NOMINAL, "nightly", 1, 0, "here")
    with closing(Connections(desk.settings)) as connections:
        with connections.one() as database:
            assert runs.take(database, taken, timedelta(seconds=1)) is not None
        renewer = Renewer(connections, lease)
        own_postgres.stop()
        renewer.keep(taken)
        renewer._hurry.set()
        wait_until(lambda: renewer._failed, message="a renewal that failed")
        own_postgres.start()
        with closing(_look_again(desk)) as again:
            now = again.look.execute("SELECT now() AS now").fetchall()[0]["now"]
            wait_until(lambda: again.run_of(task_id)["lease_until"] > now, message="a longer lease")


def test_a_database_that_refuses_makes_no_storm(desk: Desk) -> None:
    desk.look.execute("ALTER TABLE dbbeat_dedup RENAME TO elsewhere")
    began = time.monotonic()
    state, error = desk.deliver(lambda: None)
    assert (state, error.requeue) == ("REJECTED", True)
    assert time.monotonic() - began > 0.5


@pytest.mark.parametrize("pool", ["solo", "prefork", "threads"])
def test_a_late_acknowledged_message_waits_at_the_broker(
    tmp_path: Path, own_postgres: Postgres, own_database_url: str, redis_url: str, pool: str
) -> None:
    with Fleet(tmp_path, own_database_url, redis_url, DBBEAT_DATABASE_TIMEOUT="1") as fleet:
        worker = fleet.start_worker("-c", "2", pool=pool, DBBEAT_TEST_ACKS_LATE="1")
        own_postgres.stop()
        identity = fleet.send("plain")
        worker.wait_for("its id cannot be taken")
        own_postgres.start()
        fleet.wait_for_status(identity, "done")
        assert fleet.effects(identity) == 1
        assert worker.running


def test_a_pooler_in_transaction_mode_is_fine(database_url: str, pgbouncer: PgBouncer) -> None:
    with closing(Desk(database_url)) as desk:
        desk.guard = Guard(Settings(pgbouncer.url, run_lease=30.0))
        ids = [uuid4() for _ in range(20)]
        ran: list[str] = []
        for task_id in ids * 2:
            desk.deliver(lambda: ran.append("ran"), task_id)
        assert len(ran) == 20
        assert {desk.run_of(task_id)["status"] for task_id in ids} == {"done"}


def test_a_run_costs_two_round_trips(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Desk(database_url)) as desk:
        names: list[str] = []
        run = Database.run

        def counted(self: Database, name: str, /, **parameters: object) -> object:
            names.append(name)
            return run(self, name, **parameters)

        monkeypatch.setattr(Database, "run", counted)
        desk.deliver(lambda: None)
        assert names == ["take", "finish"]


def test_a_forked_process_does_not_use_its_parents_connections(database_url: str) -> None:
    connections = Connections(Settings(database_url))
    with connections.one() as database:
        database.now()
    child = os.fork()
    if child == 0:
        with connections.one() as database:
            database.now()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0
    with connections.one() as database:
        assert database.now() is not None
    connections.close()
