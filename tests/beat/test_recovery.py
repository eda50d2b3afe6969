"""Ticks that were lost with their worker; the workers are rows in their tables."""

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from celery_dbbeat import failpoints
from celery_dbbeat.beat import recovery as module
from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.beat.replica import Replica
from celery_dbbeat.errors import BrokerUnavailable
from celery_dbbeat.failpoints import FailpointReached
from celery_dbbeat.settings import Settings
from tests.beat.broker import redis_ids
from tests.beat.conftest import MakeApp
from tests.beat.leader import AWAITED, DONE, Leader, Send, attempts, fate, take_messages
from tests.store.kit import Person
from tests.support.guarded import age, run
from tests.support.waiting import wait_until

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


class TestRuns:
    def test_a_run_that_ended_well_is_done(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        identity = sent()
        assert fate(person, identity) == AWAITED
        run(person, identity)
        beat.look()
        assert fate(person, identity) == AWAITED
        run(person, identity, "done")
        beat.look()
        assert fate(person, identity) == DONE
        assert redis_ids(redis_url) == []

    @pytest.mark.parametrize("status", ["running", "released"])
    def test_a_lost_run_is_sent_again_at_once(
        self, status: str, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        identity = sent()
        run(person, identity, status, lease=SECOND)
        age(person, 2 * SECOND)
        beat.look()
        assert attempts(redis_url) == [2]
        assert redis_ids(redis_url) == [str(person.ticks(identity)[0]["task_id"])]
        assert fate(person, identity) == AWAITED
        # Not taken yet: it is not sent once more.
        beat.look()
        assert attempts(redis_url) == [2]
        run(person, identity, "done", attempt=2)
        beat.look()
        assert fate(person, identity) == DONE

    def test_after_an_outage_those_who_run_may_renew_first(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        identity = sent()
        run(person, identity, lease=SECOND)
        age(person, 2 * SECOND)
        beat.recovery.distrust_leases()
        beat.look()
        assert (attempts(redis_url), fate(person, identity)) == ([], AWAITED)
        beat.recovery._trust_leases_at = float("-inf")
        beat.look()
        assert attempts(redis_url) == [2]

    def test_options_beyond_the_calendar_stop_nobody(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        for name in ("first", "second"):
            run(person, sent(name), lease=SECOND)
        age(person, 2 * SECOND)
        person.do("""UPDATE dbbeat_schedule SET options = '{"expires": 900000000000}'
                  WHERE name = 'first'""")
        beat.look()
        assert attempts(redis_url) == [2]
        reasons = person.do("SELECT name, reason FROM dbbeat_schedule WHERE state = 'invalid'")
        assert [row["name"] for row in reasons] == ["first"]

    def test_lost_too_often_it_is_dead(
        self,
        beat: Leader,
        person: Person,
        sent: Send,
        redis_url: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        identity = sent()
        for attempt in (1, 2, 3):
            assert fate(person, identity) == AWAITED
            run(person, identity, lease=SECOND, attempt=attempt)
            age(person, 2 * SECOND)
            with caplog.at_level(logging.WARNING):
                beat.look()
        assert attempts(redis_url) == [2, 3]
        (tick,) = person.ticks(identity)
        assert (tick["state"], tick["outcome"], tick["losses"]) == ("dead", None, 2)
        assert tick["reason"] == "its worker was lost; sent 3 times, max_attempts is 3"
        assert f"tick {tick['task_id']} of schedule one is dead: {tick['reason']}" in caplog.text
        assert "1 sent again, its worker was lost" in caplog.text

    def test_the_schedule_may_allow_fewer_attempts(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        identity = sent(max_attempts=1)
        run(person, identity, lease=SECOND)
        age(person, 2 * SECOND)
        beat.look()
        assert fate(person, identity) == ("dead", None, False)
        assert attempts(redis_url) == []

    def test_a_failed_task_is_a_dead_letter(self, beat: Leader, person: Person, sent: Send) -> None:
        identity = sent()
        run(person, identity, "failed", error="ValueError: no such plan")
        beat.look()
        assert fate(person, identity) == ("dead", "failed", False)
        assert person.ticks(identity)[0]["reason"] == "ValueError: no such plan"

    def test_it_may_be_retried_after_a_while(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        identity = sent(on_failure="retry", max_attempts=2)
        run(person, identity, "failed", error="oh")
        age(person, 8 * SECOND)
        beat.look()
        assert attempts(redis_url) == []
        age(person, 3 * SECOND)
        beat.look()
        assert attempts(redis_url) == [2]
        beat.look()
        assert fate(person, identity) == AWAITED
        run(person, identity, "failed", attempt=2, error="oh again")
        beat.look()
        assert fate(person, identity) == ("dead", "failed", False)
        assert person.ticks(identity)[0]["reason"] == "oh again"

    def test_done_after_it_was_given_up_it_is_done(
        self, beat: Leader, other_beat: Leader, person: Person, sent: Send
    ) -> None:
        identity = sent(max_attempts=1)
        run(person, identity, lease=SECOND)
        age(person, 2 * SECOND)
        beat.look()
        assert fate(person, identity) == ("dead", None, False)
        run(person, identity, "done")
        other_beat.look()
        assert fate(person, identity) == DONE


class TestDeletedSchedules:
    def test_a_lost_run_is_dead_with_that_reason(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        identity = sent()
        run(person, identity, lease=SECOND)
        person.do("DELETE FROM dbbeat_schedule")
        beat.look()
        assert fate(person, identity) == AWAITED
        age(person, 2 * SECOND)
        beat.look()
        assert fate(person, identity) == ("dead", None, False)
        assert person.ticks(identity)[0]["reason"].endswith("its schedule was deleted")
        assert attempts(redis_url) == []


class TestOrder:
    def test_no_more_than_so_many_are_sent_again_in_a_pass(
        self, beat: Leader, person: Person, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MOST_RESENT", 3)
        identities = person.add_due(*"abcdefgh")
        beat.dispatch()
        take_messages(redis_url)
        for identity in identities:
            run(person, identity, lease=SECOND)
        age(person, 2 * SECOND)
        counts = []
        for _ in range(4):
            beat.look()
            counts.append(len(redis_ids(redis_url)))
        assert counts == [3, 6, 8, 8]
        assert len(set(redis_ids(redis_url))) == 8

    def test_slices_cover_all_of_them(
        self, beat: Leader, person: Person, redis_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "SLICE", 2)
        identities = person.add_due(*"abcdefg")
        beat.dispatch()
        take_messages(redis_url)
        for identity in identities:
            run(person, identity, lease=SECOND)
        age(person, 2 * SECOND)
        for _ in identities:
            beat.look()
        assert len(redis_ids(redis_url)) == 7

    def test_a_crash_between_the_resend_and_its_message_is_made_good(
        self,
        beat: Leader,
        other_beat: Leader,
        person: Person,
        sent: Send,
        redis_url: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def crash() -> None:
            raise FailpointReached("before_publish")

        identity = sent()
        person.do("UPDATE dbbeat_schedule SET misfire_grace = %s", SECOND)
        run(person, identity, lease=SECOND)
        age(person, MINUTE)
        with monkeypatch.context() as patch:
            patch.setitem(failpoints._armed, "before_publish", crash)
            with pytest.raises(FailpointReached):
                beat.look()
        assert attempts(redis_url) == []
        assert fate(person, identity)[0] == "recorded"
        # However late by now: it was sent in time before.
        assert other_beat.dispatcher.recover() == 1
        assert attempts(redis_url) == [2]
        assert fate(person, identity) == AWAITED

    def test_a_broker_that_went_away_is_said_and_nothing_is_lost(
        self, beat: Leader, person: Person, sent: Send, redis_url: str, publisher: Publisher
    ) -> None:
        identity = sent()
        run(person, identity, lease=SECOND)
        age(person, 2 * SECOND)
        publisher.close()
        with pytest.raises(BrokerUnavailable):
            beat.look()
        assert fate(person, identity)[0] == "recorded"
        publisher.ensure()
        beat.dispatch()
        assert attempts(redis_url) == [2]
        assert fate(person, identity) == AWAITED


class TestWhen:
    def test_without_the_guard_never(
        self, database_url: str, publisher: Publisher, settings: Settings, person: Person
    ) -> None:
        without = Leader(database_url, publisher, replace(settings, guard=False), "a")
        (identity,) = person.add_due("one")
        without.dispatch()
        assert without.recovery.seconds_until_next == float("inf")
        assert fate(person, identity) == ("sent", None, False)
        without.database.close()

    def test_each_second_while_something_is_awaited_else_seldom(
        self, beat: Leader, person: Person, sent: Send
    ) -> None:
        assert beat.recovery.seconds_until_next == 0
        beat.look()
        assert beat.recovery.seconds_until_next > 20
        identity = sent()
        assert beat.recovery.seconds_until_next <= 1
        beat.look()
        assert 0.5 < beat.recovery.seconds_until_next <= 1
        run(person, identity, "done")
        beat.look()
        beat.look()
        assert beat.recovery.seconds_until_next > 20

    def test_soon_while_a_round_finds_much_that_is_done(
        self, beat: Leader, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "SLICE", 2)
        monkeypatch.setattr(module, "_LONGEST_PASS", 0.0)
        for identity in person.add_due(*"abc"):
            beat.dispatch()
            run(person, identity, "done")
        beat.look()
        assert 0 < beat.recovery.seconds_until_next <= 0.25
        beat.look()
        assert 0.25 < beat.recovery.seconds_until_next <= 1

    def test_a_leader_does_it_by_itself(
        self, make_app: MakeApp, settings: Settings, person: Person, redis_url: str
    ) -> None:
        replica = Replica(
            make_app(redis_url), replace(settings, renew_every=0.2, run_lease=1.0), {}
        )
        try:
            (identity,) = person.add_due("one")
            wait_until(lambda: replica.step() is None or redis_ids(redis_url))
            take_messages(redis_url)
            wait_until(lambda: replica.step() is None or person.ticks(identity)[0]["awaited"])
            run(person, identity, lease=SECOND)
            age(person, 2 * SECOND)
            wait_until(lambda: replica.step() is None or attempts(redis_url) == [2])
        finally:
            replica.close()
