"""Ticks that no worker took: which of them are gone, and which may still be waiting."""

from datetime import timedelta

import pytest

from tests.beat.broker import redis_lists
from tests.beat.leader import AWAITED, Leader, Send, attempts, fate, take_messages
from tests.store.kit import Person
from tests.support.guarded import age, read_queue, run

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


class TestNeverTaken:
    def test_from_an_empty_queue_it_is_gone_and_sent_again(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        identity = sent()
        age(person, 29 * SECOND)
        beat.look()
        assert attempts(redis_url) == []
        age(person, 2 * SECOND)
        beat.look()
        assert attempts(redis_url) == [2]
        take_messages(redis_url)
        age(person, 100 * SECOND)
        beat.look()
        assert attempts(redis_url) == []
        age(person, 21 * SECOND)
        beat.look()
        assert attempts(redis_url) == [3]
        assert fate(person, identity) == AWAITED

    def test_while_something_waits_it_may_be_waiting(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        identity = sent(taken=False)
        age(person, HOUR)
        beat.look()
        assert attempts(redis_url) == [1]
        assert fate(person, identity) == AWAITED

    def test_so_may_a_retry_of_its_own(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        identity = sent(taken=False)
        run(person, identity, "retry", lease=SECOND)
        age(person, HOUR)
        beat.look()
        assert attempts(redis_url) == [1]
        assert fate(person, identity) == AWAITED
        take_messages(redis_url)
        beat.look()
        assert attempts(redis_url) == [2]

    def test_unless_a_later_one_was_taken(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        identity = sent()
        age(person, MINUTE)
        # What waits is of another schedule.
        sent("other", taken=False)
        beat.look()
        assert attempts(redis_url) == [1]
        later = (
            "INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, due_at, replica)"
            " VALUES (%s, now(), gen_random_uuid(), 'sent', now(), 'a') RETURNING task_id"
        )
        taken = person.value(later, identity)
        person.do(
            "INSERT INTO dbbeat_dedup (task_id, nominal_at, schedule, status, attempt, worker,"
            " lease_until) SELECT task_id, nominal_at, 'one', 'done', 1, 'w', now()"
            " FROM dbbeat_tick WHERE task_id = %s",
            taken,
        )
        beat.look()
        assert attempts(redis_url) == [1, 2]

    def test_or_the_schedule_says_how_long_to_wait(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        sent(taken=False, resend_after=5 * SECOND)
        age(person, 6 * SECOND)
        beat.look()
        assert attempts(redis_url) == [1, 2]

    @pytest.mark.parametrize("silent", [None, 10 * MINUTE])
    def test_without_a_guarded_worker_alive_nothing_is_done(
        self, silent: timedelta | None, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        if silent is not None:
            read_queue(person, silent_for=silent)
        read_queue(person, "another queue")
        identity = sent()
        age(person, 23 * HOUR)
        beat.look()
        assert attempts(redis_url) == []
        assert fate(person, identity) == AWAITED

    def test_after_a_day_without_one_nothing_is_awaited(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        identity = sent()
        age(person, 25 * HOUR)
        beat.look()
        assert attempts(redis_url) == []
        assert fate(person, identity) == ("sent", None, False)

    def test_later_than_its_grace_it_is_dead(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        identity = sent()
        person.do("UPDATE dbbeat_tick SET due_at = now()")
        person.do("UPDATE dbbeat_schedule SET misfire_grace = %s", 10 * MINUTE)
        age(person, 11 * MINUTE)
        beat.look()
        assert attempts(redis_url) == []
        assert fate(person, identity) == ("dead", None, False)
        assert "misfire_grace 0:10:00" in person.ticks(identity)[0]["reason"]

    def test_what_is_to_run_later_is_looked_for_later(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        sent(options={"countdown": 600})
        age(person, 10 * MINUTE)
        beat.look()
        assert attempts(redis_url) == []
        age(person, MINUTE)
        beat.look()
        assert attempts(redis_url) == [2]

    def test_the_queue_of_the_options_counts(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person, "slow")
        sent(options={"queue": "slow"})
        sent("other", taken=False)
        age(person, MINUTE)
        beat.look()
        assert [len(found) for found in redis_lists(redis_url).values()] == [1, 1]


class TestExpires:
    def test_it_is_sent_again_with_what_is_left(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        sent(options={"expires": 100})
        age(person, 40 * SECOND)
        beat.look()
        (message,) = take_messages(redis_url)
        assert 55_000 <= int(message["properties"]["expiration"]) <= 60_000

    def test_also_where_celery_builds_the_message(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        sent(options={"expires": 100, "countdown": 1})
        age(person, 40 * SECOND)
        beat.look()
        (message,) = take_messages(redis_url)
        assert 55_000 <= int(message["properties"]["expiration"]) <= 60_000

    def test_afterwards_it_is_missed_and_never_sent_again(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        identity = sent(options={"expires": 100})
        age(person, 111 * SECOND)
        beat.look()
        assert attempts(redis_url) == []
        assert fate(person, identity) == ("missed", None, False)
        assert "expired" in person.ticks(identity)[0]["reason"]

    def test_sent_again_it_expires_by_its_first_sending(
        self, beat: Leader, person: Person, sent: Send, redis_url: str
    ) -> None:
        read_queue(person)
        identity = sent(options={"expires": 100})
        age(person, 40 * SECOND)
        beat.look()
        take_messages(redis_url)
        age(person, 71 * SECOND)
        beat.look()
        assert fate(person, identity) == ("missed", None, False)
