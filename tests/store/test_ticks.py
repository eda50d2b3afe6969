"""A tick changes state only from `recorded`, and each time one replica wins it."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from celery_dbbeat.store import leases, ticks
from celery_dbbeat.store.database import Database, Transaction
from celery_dbbeat.store.leases import Replica
from celery_dbbeat.store.ticks import Adopted, Adopter
from tests.store.kit import TTL, Person, dispatch
from tests.support.waiting import wait_until


def alive(
    store: Database, replica: str, listener_pid: int | None = None, *, ready: bool = True
) -> None:
    me = Replica(replica, "host", 1, "0.1.0")
    leases.heartbeat(store, me, ready=ready, listener_pid=listener_pid, ttl=TTL)


def adopt(
    transaction: Transaction, replica: str = "b", limit: int = 100, *, own_too: bool = False
) -> Adopted:
    return ticks.adopt_unsent(transaction, Adopter(replica, TTL, TTL), limit, own_too=own_too)


def adopted_by(store: Database, replica: str = "b", *, own_too: bool = False) -> list[UUID]:
    with store.transaction() as transaction:
        return [one.schedule.id for one in adopt(transaction, replica, own_too=own_too).outgoing]


def age(person: Person, seconds: float) -> None:
    person.do("UPDATE dbbeat_tick SET claimed_at = now() - %s", timedelta(seconds=seconds))


class TestStates:
    def test_only_what_is_recorded_becomes_sent(self, store: Database, person: Person) -> None:
        (identity,) = person.add_due("one")
        outgoing = dispatch(store)
        assert ticks.mark_sent(store, outgoing) == 1
        assert ticks.mark_sent(store, outgoing) == 0
        (tick,) = person.ticks(identity)
        assert tick["state"] == "sent"
        assert tick["sent_at"] is not None

    def test_what_is_given_up_has_the_reason_and_is_not_sent_after_all(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        outgoing = dispatch(store)
        assert ticks.give_up(store, dict.fromkeys(outgoing, "the task is unknown")) == 1
        assert ticks.mark_sent(store, outgoing) == 0
        (tick,) = person.ticks(identity)
        assert (tick["state"], tick["reason"]) == ("missed", "the task is unknown")

    def test_what_is_sent_is_not_given_up(self, store: Database, person: Person) -> None:
        (identity,) = person.add_due("one")
        outgoing = dispatch(store)
        ticks.mark_sent(store, outgoing)
        assert ticks.give_up(store, dict.fromkeys(outgoing, "too late")) == 0
        assert person.ticks(identity)[0]["state"] == "sent"

    def test_each_of_several_gets_its_own_reason(self, store: Database, person: Person) -> None:
        person.add_due("one", "two", "three")
        first, second, third = dispatch(store)
        assert ticks.give_up(store, {first: "no route", third: "too long"}) == 2
        ticks.mark_sent(store, [second])
        rows = person.do("SELECT state, reason FROM dbbeat_tick ORDER BY reason")
        assert [(row["state"], row["reason"]) for row in rows] == [
            ("missed", "no route"),
            ("missed", "too long"),
            ("sent", None),
        ]

    def test_sent_to_guarded_workers_it_is_awaited(self, store: Database, person: Person) -> None:
        person.add_due("one", "two")
        first, second = dispatch(store)
        ticks.mark_sent(store, [first])
        ticks.mark_sent(store, [second], guarded=True)
        awaited = {row["schedule_id"]: row["awaited"] for row in person.do("TABLE dbbeat_tick")}
        assert awaited == {first.schedule.id: False, second.schedule.id: True}

    def test_who_comes_late_does_not_mark_what_was_put_back_since(
        self, store: Database, person: Person
    ) -> None:
        person.add_due("one")
        outgoing = dispatch(store)
        person.do("UPDATE dbbeat_tick SET attempt = 2")
        assert ticks.mark_sent(store, outgoing) == 0
        assert ticks.give_up(store, dict.fromkeys(outgoing, "too late")) == 0

    def test_the_first_sending_stays_written(self, store: Database, person: Person) -> None:
        (identity,) = person.add_due("one")
        outgoing = dispatch(store)
        person.do("UPDATE dbbeat_tick SET sent_at = now() - interval '1 hour'")
        (before,) = person.ticks(identity)
        ticks.mark_sent(store, outgoing)
        assert person.ticks(identity)[0]["sent_at"] == before["sent_at"]

    def test_what_had_been_sent_before_is_dead_when_it_is_given_up(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        (outgoing,) = dispatch(store)
        person.do("UPDATE dbbeat_tick SET attempt = 2")
        again = replace(outgoing, tick=replace(outgoing.tick, attempt=2))
        assert ticks.give_up(store, {again: "the task is unknown"}) == 1
        assert person.ticks(identity)[0]["state"] == "dead"


class TestAdopt:
    def test_ticks_of_a_replica_nobody_knows_are_taken_at_once(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        dispatch(store, "a")
        assert adopted_by(store) == [identity]

    def test_ticks_of_a_killed_replica_are_taken_when_its_listener_is_gone(
        self, store: Database, person: Person, database_url: str
    ) -> None:
        (identity,) = person.add_due("one")
        dispatch(store, "a")
        with closing(Person(database_url)) as listener:
            alive(store, "a", listener.pid)
            assert adopted_by(store) == []
        wait_until(
            lambda: not person.do("SELECT pid FROM pg_stat_activity WHERE pid = %s", listener.pid)
        )
        assert adopted_by(store) == [identity]

    def test_ticks_of_a_live_replica_are_taken_only_after_a_leases_time(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        dispatch(store, "a")
        alive(store, "a")
        age(person, TTL.total_seconds() - 1)
        assert adopted_by(store) == []
        age(person, TTL.total_seconds() + 1)
        assert adopted_by(store) == [identity]

    def test_with_less_patience_they_are_taken_sooner_but_its_own_are_not(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        dispatch(store, "a")
        alive(store, "a")
        hasty = timedelta(seconds=1)
        age(person, 2)
        with store.transaction() as transaction:
            own = Adopter("a", TTL, hasty)
            assert ticks.adopt_unsent(transaction, own, 10, own_too=True).outgoing == []
            other = Adopter("b", TTL, hasty)
            (taken,) = ticks.adopt_unsent(transaction, other, 10, own_too=False).outgoing
        assert taken.schedule.id == identity

    def test_what_a_person_had_sent_again_stays_theirs(
        self, store: Database, person: Person
    ) -> None:
        person.add_due("one")
        dispatch(store, "a")
        person.do("UPDATE dbbeat_tick SET kind = 'manual', attempt = 4")
        with store.transaction() as transaction:
            (taken,) = adopt(transaction).outgoing
        assert (taken.tick.kind, taken.tick.attempt) == ("manual", 4)

    def test_ticks_of_a_silent_replica_are_taken_at_once(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        dispatch(store, "a")
        alive(store, "a")
        person.do("UPDATE dbbeat_replica SET seen_at = now() - %s", TTL)
        assert adopted_by(store) == [identity]

    def test_ticks_of_a_replica_without_a_broker_are_taken_at_once(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        dispatch(store, "a")
        alive(store, "a", ready=False)
        assert adopted_by(store) == [identity]

    def test_its_own_are_left_unless_it_says_so_and_a_leases_time_has_passed(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        dispatch(store, "a")
        alive(store, "a")
        assert adopted_by(store, "a", own_too=True) == []
        age(person, TTL.total_seconds() + 1)
        assert adopted_by(store, "a") == []
        assert adopted_by(store, "a", own_too=True) == [identity]

    def test_the_same_id_goes_out_again_as_a_recovery(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        (outgoing,) = dispatch(store, "a")
        with store.transaction() as transaction:
            (again,) = adopt(transaction).outgoing
        assert again.schedule == outgoing.schedule
        assert again.tick.task_id == outgoing.tick.task_id
        assert again.tick.nominal_at == outgoing.tick.nominal_at
        # It is the same sending, not known to have happened: no attempt at running it is lost.
        assert (again.tick.kind, again.tick.attempt) == ("recovery", 1)
        (tick,) = person.ticks(identity)
        assert (tick["replica"], tick["kind"], tick["attempt"]) == ("b", "recovery", 1)
        assert ticks.mark_sent(store, [outgoing]) == 1

    def test_what_was_sent_or_missed_is_nobodys_to_adopt(
        self, store: Database, person: Person
    ) -> None:
        person.add_due("one", "two")
        sent, missed = dispatch(store, "a")
        ticks.mark_sent(store, [sent])
        ticks.give_up(store, {missed: "too late"})
        assert adopted_by(store) == []

    def test_the_second_adopter_skips_what_the_first_holds(
        self, store: Database, other_store: Database, person: Person
    ) -> None:
        person.add_due("one", "two", "three")
        dispatch(store, "a")
        with store.transaction() as winner, other_store.transaction() as loser:
            first = adopt(winner, "b", limit=2).outgoing
            second = adopt(loser, "c").outgoing
        assert (len(first), len(second)) == (2, 1)
        assert {one.schedule.name for one in [*first, *second]} == {"one", "two", "three"}

    def test_a_mark_by_the_first_sender_still_counts_after_an_adoption(
        self, store: Database, other_store: Database, person: Person
    ) -> None:
        person.add_due("one")
        outgoing = dispatch(store, "a")
        with other_store.transaction() as transaction:
            adopt(transaction)
        assert ticks.mark_sent(store, outgoing) == 1
        assert adopted_by(other_store, "c") == []

    def test_ticks_of_a_deleted_schedule_are_given_up(
        self, store: Database, person: Person
    ) -> None:
        (identity,) = person.add_due("one")
        dispatch(store, "a")
        person.do("DELETE FROM dbbeat_schedule")
        with store.transaction() as transaction:
            adopted = adopt(transaction)
        assert adopted.now is not None
        assert adopted.outgoing == []
        (tick,) = person.ticks(identity)
        assert tick["state"] == "missed"
        assert "deleted" in tick["reason"]
