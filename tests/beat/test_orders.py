"""What people triggered goes out by any beat, and what fails too often is paused."""

import logging
from datetime import timedelta

import pytest
from celery import Celery

from celery_dbbeat import Schedules
from celery_dbbeat.beat.publisher import Publisher
from tests.beat.broker import redis_ids
from tests.beat.leader import AWAITED, Leader, Send, fate, take_messages
from tests.beat.tasks import register
from tests.store.kit import Person
from tests.support.guarded import age, run

SECOND = timedelta(seconds=1)


@pytest.fixture
def schedules(database_url: str) -> Schedules:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = database_url
    return Schedules(app)


class TestTrigger:
    def sent(self, url: str) -> tuple[str, int, str, str]:
        """The kind and attempt of the only message, and what its task gets."""
        (message,) = take_messages(url)
        headers = message["headers"]
        header = headers["dbbeat"]
        return header["kind"], header["attempt"], headers["argsrepr"], headers["kwargsrepr"]

    def test_it_is_sent_at_once_by_whichever_beat_is_up(
        self, beat: Leader, schedules: Schedules, person: Person, redis_url: str
    ) -> None:
        identity = person.add("one", state="paused", args=[1], kwargs={"a": 2})
        task_id = schedules.trigger("one")
        assert beat.dispatcher.recover() == 1
        assert redis_ids(redis_url) == [str(task_id)]
        assert self.sent(redis_url) == ("manual", 1, "[1]", "{'a': 2}")
        assert fate(person, identity) == AWAITED
        assert beat.dispatcher.recover() == 0

    def test_however_late_it_was_wanted(
        self, beat: Leader, schedules: Schedules, person: Person, redis_url: str
    ) -> None:
        person.add("one", misfire_grace=SECOND)
        task_id = schedules.trigger("one")
        age(person, timedelta(days=1))
        assert beat.dispatcher.recover() == 1
        assert redis_ids(redis_url) == [str(task_id)]

    def test_wrong_arguments_of_its_own_are_not_the_schedules_fault(
        self, beat: Leader, publisher: Publisher, person: Person
    ) -> None:
        register(publisher._app)
        identity = person.add("one", task="tests.two", args=[1], state="paused")
        person.do("SELECT dbbeat_trigger('one', '[1, 2, 3]', NULL)")
        beat.dispatcher.recover()
        assert fate(person, identity) == ("missed", None, False)
        assert "positional arguments" in person.value("SELECT reason FROM dbbeat_tick")
        assert person.value("SELECT state FROM dbbeat_schedule") == "paused"

    def test_other_arguments_survive_recovery_and_replay(
        self, beat: Leader, other_beat: Leader, schedules: Schedules, person: Person, redis_url: str
    ) -> None:
        identity = person.add("one", args=[1], kwargs={"a": 2}, max_attempts=2)
        task_id = schedules.trigger("one", args=[3])
        beat.dispatcher.recover()
        assert self.sent(redis_url) == ("manual", 1, "[3]", "{'a': 2}")
        run(person, identity, lease=SECOND)
        age(person, 2 * SECOND)
        beat.look()
        assert self.sent(redis_url) == ("manual", 2, "[3]", "{'a': 2}")
        run(person, identity, "failed", error="ValueError: no")
        beat.look()
        assert fate(person, identity)[0] == "dead"
        schedules.replay(task_id)
        other_beat.dispatcher.recover()
        assert self.sent(redis_url) == ("manual", 3, "[3]", "{'a': 2}")


class TestPauseAfter:
    def fail(self, beat: Leader, person: Person, status: str = "failed") -> None:
        """The next tick is sent, and ends like this."""
        person.do(
            "UPDATE dbbeat_cursor SET due_at = now(), replan_from = NULL, nominal_at = coalesce("
            " (SELECT max(nominal_at) + interval '1 s' FROM dbbeat_tick), now() - interval '1 min')"
        )
        beat.dispatch()
        person.do(
            "INSERT INTO dbbeat_dedup (task_id, nominal_at, schedule, status, attempt, worker,"
            " lease_until, error) SELECT task_id, nominal_at, 'one', %s, 1, 'w', now(), 'no'"
            " FROM dbbeat_tick WHERE awaited",
            status,
        )
        beat.look()

    def test_so_many_in_a_row_pause_it_and_say_why(
        self, beat: Leader, person: Person, caplog: pytest.LogCaptureFixture
    ) -> None:
        identity = person.add("one", pause_after=2, expression="3600")
        beat.dispatch()
        for status in ("failed", "done", "failed"):
            self.fail(beat, person, status)
            assert person.schedule(identity)["state"] == "active"
        with caplog.at_level(logging.ERROR):
            self.fail(beat, person)
        row = person.schedule(identity)
        assert row["state"] == "paused"
        assert row["note"] == "2 ticks in a row failed, the last one: no"
        assert "schedule one is paused: 2 ticks in a row failed" in caplog.text
        assert person.cursor(identity)["due_at"] is None

    def test_resumed_it_begins_anew(
        self, beat: Leader, person: Person, schedules: Schedules
    ) -> None:
        identity = person.add("one", pause_after=2, expression="3600")
        beat.dispatch()
        for _ in range(2):
            self.fail(beat, person)
        schedules.resume("one")
        assert person.schedule(identity)["note"] is None
        beat.dispatch()
        self.fail(beat, person)
        assert person.schedule(identity)["state"] == "active"
        self.fail(beat, person)
        assert person.schedule(identity)["state"] == "paused"

    def test_what_people_triggered_does_not_count(
        self, beat: Leader, person: Person, schedules: Schedules
    ) -> None:
        identity = person.add("one", pause_after=1)
        beat.dispatch()
        schedules.trigger("one")
        beat.dispatcher.recover()
        run(person, identity, "failed", error="no")
        beat.look()
        assert fate(person, identity)[0] == "dead"
        assert person.schedule(identity)["state"] == "active"

    def test_without_it_nothing_is_paused(self, beat: Leader, person: Person, sent: Send) -> None:
        identity = sent()
        run(person, identity, "failed", error="no")
        beat.look()
        assert person.schedule(identity)["state"] == "active"
