"""What the log says of ticks and leases, with the facts that programs look for."""

import logging
from collections.abc import Iterable
from datetime import timedelta

import pytest

from celery_dbbeat.beat.dispatcher import Dispatcher
from celery_dbbeat.beat.leadership import Leadership
from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.beat.replica import Replica
from celery_dbbeat.observe import beat as observe
from celery_dbbeat.observe.board import Reading
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import leases
from celery_dbbeat.store.database import Database
from tests.beat.conftest import MakeApp
from tests.beat.leader import Leader, Send
from tests.store.kit import NOTHING, Person
from tests.support.services import free_port

Record = logging.LogRecord


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[Record]:
    return [one for one in caplog.records if getattr(one, "event", None) == name]


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "celery_dbbeat")


def test_a_batch(beat: Leader, person: Person, caplog: pytest.LogCaptureFixture) -> None:
    person.add_due("one", "two")
    beat.dispatch()
    (record,) = events(caplog, "sent")
    assert (record.levelno, record.__dict__["count"]) == (logging.DEBUG, 2)
    assert record.getMessage().startswith("sent a batch of 2 ticks in ")


def test_hedging(
    person: Person, database_url: str, publisher: Publisher, settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    person.add_due("one", "two")
    with Database(database_url, None, 5.0) as database:
        Dispatcher(database, publisher, settings, "standby").run(NOTHING, 1.0)
    (record,) = events(caplog, "hedged")
    assert record.getMessage() == "hedged: 2 schedules were overdue, and are not mine"
    assert record.__dict__["replica"] == "standby"


def test_an_invalid_schedule(
    beat: Leader, person: Person, caplog: pytest.LogCaptureFixture
) -> None:
    person.add("broken", kind="cron", expression="61 * * * *")
    beat.dispatch()
    (record,) = events(caplog, "invalid")
    assert record.__dict__["schedule"] == "broken"
    assert record.getMessage().startswith("schedule broken is invalid: ")


def test_a_dead_tick_and_one_sent_again(
    beat: Leader, person: Person, sent: Send, caplog: pytest.LogCaptureFixture
) -> None:
    for name, attempts in (("mortal", 1), ("tough", 3)):
        identity = sent(name, max_attempts=attempts)
        (tick,) = person.ticks(identity)
        person.do(
            "INSERT INTO dbbeat_dedup (task_id, nominal_at, schedule, status, attempt, worker,"
            " lease_until) VALUES (%s, %s, 's', 'running', 1, 'w', now() - interval '1 s')",
            tick["task_id"],
            tick["nominal_at"],
        )
        person.do(
            "UPDATE dbbeat_tick SET claimed_at = now() - interval '1 hour' WHERE task_id = %s",
            tick["task_id"],
        )
    person.do("UPDATE dbbeat_dedup SET lease_until = now() - interval '1 second'")
    beat.look()
    (dead,), (again,) = events(caplog, "dead"), events(caplog, "recovered")
    assert dead.levelno == logging.ERROR
    for record, name in ((dead, "mortal"), (again, "tough")):
        (tick,) = person.do(
            "SELECT t.* FROM dbbeat_tick t JOIN dbbeat_schedule s ON s.id = t.schedule_id"
            " WHERE s.name = %s",
            name,
        )
        facts = record.__dict__
        assert facts["schedule"] == name
        assert facts["task_id"] == str(tick["task_id"])
        assert facts["nominal"] == tick["nominal_at"].isoformat()
        assert str(tick["task_id"]) in record.getMessage()


def test_a_lease(database_url: str, settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    with Database(database_url, None, 5.0) as database:
        leadership = Leadership(database, settings, leases.Replica("a", "host", 1, "0.1.0"))
        leadership.keep("dbbeat_public", ready=True, listener_pid=None)
        leadership.leave("dbbeat_public")
    (gained,), (lost,) = events(caplog, "lease_gained"), events(caplog, "lease_lost")
    for record in (gained, lost):
        facts = record.__dict__
        assert (facts["slot"], facts["epoch"], facts["replica"]) == (0, 1, "a")
        assert "slot 0, epoch 1" in record.getMessage()


class TestAwayAndBack:
    def test_the_broker(
        self, make_app: MakeApp, settings: Settings, redis_url: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        app = make_app(f"redis://127.0.0.1:{free_port()}")
        replica = Replica(app, settings, {})
        try:
            for _ in range(2):
                replica.step()
            assert (replica.pulse.lives, replica.pulse.ready) == (True, False)
            assert "the broker cannot be reached" in replica.pulse.reason
            app.conf.broker_write_url = redis_url
            replica.step()
            assert replica.pulse.ready
        finally:
            replica.close()
        away, (back,) = events(caplog, "away"), events(caplog, "back")
        assert [one.__dict__["dependency"] for one in away] == ["broker", "broker"]
        assert "the broker cannot be reached" in back.__dict__["was"]

    def test_the_database(
        self, make_app: MakeApp, redis_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        nowhere = Settings(url=f"postgresql+psycopg://a@127.0.0.1:{free_port()}/b")
        replica = Replica(make_app(redis_url), nowhere, {})
        replica.step()
        replica.close()
        (away,) = events(caplog, "away")
        assert away.__dict__["dependency"] == "database"
        assert replica.pulse.reason.startswith("the database cannot be reached: ")


def test_a_batch_that_was_rolled_back_is_not_counted(
    beat: Leader, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = person.add("late", misfire_grace=timedelta(seconds=1))
    person.make_due(identity, timedelta(seconds=100))
    read = observe.enable()
    try:
        with monkeypatch.context() as broken:
            broken.setattr(beat.dispatcher, "_end", _fail)
            person.add("broken", kind="cron", expression="61 * * * *")
            with pytest.raises(LookupError):
                beat.dispatch()
        assert _counted(read(), "missed") == 0
        beat.dispatch()
        assert _counted(read(), "missed") == 1
    finally:
        observe.disable()


def _fail(*_: object) -> None:
    raise LookupError


def _counted(readings: Iterable[Reading], outcome: str) -> float:
    wanted = ("dbbeat_ticks_total", outcome)
    (found,) = (one.numbers[0] for one in readings if (one.metric.name, one.value) == wanted)
    return found
