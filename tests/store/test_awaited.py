"""What is awaited of guarded workers, and how each tick leaves that state once."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from celery_dbbeat.store import awaited, ticks
from celery_dbbeat.store.awaited import BEGINNING, Closing, Readers, Slice, Suspect
from celery_dbbeat.store.cursors import Outgoing
from celery_dbbeat.store.database import Database
from tests.store.kit import Person, dispatch
from tests.support.guarded import age, read_queue, run

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def send(store: Database, person: Person, *names: str, **columns: object) -> list[Outgoing]:
    """Send the ticks of new schedules to guarded workers."""
    person.add_due(*names, **columns)
    sent = dispatch(store)
    ticks.mark_sent(store, sent, guarded=True)
    return sent


def look(store: Database, limit: int = 100) -> Slice:
    return awaited.settle(store, BEGINNING, limit)


def suspects(store: Database) -> list[Suspect]:
    _, found = awaited.suspects(store, look(store).unsettled)
    return found


def later_tick(person: Person, identity: UUID) -> UUID:
    """A tick of the same schedule, sent now for the day after its last."""
    task_id: UUID = person.value(
        "INSERT INTO dbbeat_tick"
        " (schedule_id, nominal_at, task_id, state, due_at, replica, awaited)"
        " SELECT schedule_id, max(nominal_at) + interval '1 day', gen_random_uuid(), 'sent', now(),"
        " 'a', true FROM dbbeat_tick WHERE schedule_id = %s GROUP BY schedule_id RETURNING task_id",
        identity,
    )
    return task_id


class TestSettle:
    def test_what_is_done_is_awaited_no_more(self, store: Database, person: Person) -> None:
        done, running = send(store, person, "done", "running")
        run(person, done.schedule.id, "done")
        run(person, running.schedule.id)
        found = look(store)
        assert (found.number, [one.status for one in found.unsettled]) == (2, ["running"])
        (tick,) = person.ticks(done.schedule.id)
        assert (tick["state"], tick["outcome"], tick["awaited"]) == ("sent", "done", False)
        (tick,) = person.ticks(running.schedule.id)
        assert (tick["state"], tick["outcome"], tick["awaited"]) == ("sent", None, True)
        assert look(store).number == 1

    def test_slices_go_on_where_the_last_one_ended(self, store: Database, person: Person) -> None:
        sent = send(store, person, *"abcde")
        seen: list[UUID] = []
        place = BEGINNING
        while (found := awaited.settle(store, place, 2)).number:
            seen += [one.task_id for one in found.unsettled]
            place = found.end
        assert sorted(seen) == sorted(one.tick.task_id for one in sent)

    def test_a_slice_of_done_ones_only_has_an_end_too(
        self, store: Database, person: Person
    ) -> None:
        (one,) = send(store, person, "one")
        run(person, one.schedule.id, "done")
        found = look(store)
        assert (found.number, found.end.task_id, found.now) == (1, one.tick.task_id, None)

    def test_nothing_awaited_nothing_found(self, store: Database, person: Person) -> None:
        person.add_due("one")
        ticks.mark_sent(store, dispatch(store))
        assert look(store) == Slice(0, BEGINNING)


class TestSuspects:
    def test_all_that_is_known_comes_together(self, store: Database, person: Person) -> None:
        (sent,) = send(
            store, person, "one", max_attempts=5, on_failure="retry", resend_after=MINUTE
        )
        run(person, sent.schedule.id, "failed", attempt=3, error="oh")
        (one,) = suspects(store)
        assert one.schedule == sent.schedule
        assert (one.max_attempts, one.on_failure, one.resend_after) == (5, "retry", MINUTE)
        known = one.open
        assert (known.attempt, known.losses, known.run_attempt) == (1, 0, 3)
        assert (known.status, known.error) == ("failed", "oh")
        assert known.ended_at is not None

    def test_without_a_run_and_without_a_schedule(self, store: Database, person: Person) -> None:
        (sent,) = send(store, person, "one")
        person.do("DELETE FROM dbbeat_schedule")
        (one,) = suspects(store)
        assert (one.schedule, one.open.status, one.open.run_attempt) == (None, None, 0)
        assert one.name == str(sent.schedule.id)

    def test_what_is_done_meanwhile_is_none(self, store: Database, person: Person) -> None:
        (sent,) = send(store, person, "one")
        unsettled = look(store).unsettled
        run(person, sent.schedule.id, "done")
        assert awaited.suspects(store, unsettled) == (None, [])


class TestOvertaken:
    def test_by_a_later_tick_that_was_sent_later_and_taken(
        self, store: Database, person: Person
    ) -> None:
        (sent,) = send(store, person, "one")
        age(person, MINUTE)
        (one,) = suspects(store)
        later_tick(person, sent.schedule.id)
        assert awaited.overtaken(store, [one]) == set()
        run(person, sent.schedule.id)
        assert awaited.overtaken(store, [one]) == {one.task_id}

    def test_a_retry_of_its_own_only_by_one_that_was_sent_after_that(
        self, store: Database, person: Person
    ) -> None:
        (sent,) = send(store, person, "one")
        age(person, MINUTE)
        (one,) = suspects(store)
        later_tick(person, sent.schedule.id)
        run(person, sent.schedule.id)
        for rested, by in ((SECOND, {one.task_id}), (2 * MINUTE, set())):
            lease = one.open.claimed_at + rested
            waits = replace(one, open=replace(one.open, status="retry", lease_until=lease))
            assert awaited.overtaken(store, [waits]) == by

    def test_not_by_one_that_was_sent_before_it_was_sent_again(
        self, store: Database, person: Person
    ) -> None:
        (sent,) = send(store, person, "one")
        later_tick(person, sent.schedule.id)
        run(person, sent.schedule.id)
        person.do(
            "UPDATE dbbeat_tick SET claimed_at = now() + interval '1 second' WHERE task_id = %s",
            sent.tick.task_id,
        )
        one = next(one for one in suspects(store) if one.task_id == sent.tick.task_id)
        assert awaited.overtaken(store, [one]) == set()


class TestResend:
    def test_it_is_recorded_again_for_a_higher_attempt(
        self, store: Database, person: Person
    ) -> None:
        (sent,) = send(store, person, "one")
        run(person, sent.schedule.id, attempt=4)
        age(person, 2 * MINUTE)
        (again,) = awaited.resend(store, suspects(store), "b")
        assert again.schedule == sent.schedule
        assert (again.tick.task_id, again.tick.nominal_at) == (
            sent.tick.task_id,
            sent.tick.nominal_at,
        )
        assert (again.tick.kind, again.tick.attempt) == ("recovery", 5)
        assert 2 * MINUTE <= again.tick.waited < 3 * MINUTE
        (tick,) = person.ticks(sent.schedule.id)
        assert (tick["state"], tick["awaited"], tick["kind"]) == ("recorded", False, "recovery")
        assert (tick["attempt"], tick["losses"], tick["replica"]) == (5, 1, "b")
        assert ticks.mark_sent(store, [sent], guarded=True) == 0
        assert ticks.mark_sent(store, [again], guarded=True) == 1

    def test_one_of_two_wins(self, store: Database, other_store: Database, person: Person) -> None:
        send(store, person, "one")
        found = suspects(store)
        assert len(awaited.resend(store, found, "a")) == 1
        assert awaited.resend(other_store, found, "b") == []

    def test_adopted_it_keeps_its_attempt_and_how_long_it_waited(
        self, store: Database, person: Person
    ) -> None:
        send(store, person, "one")
        age(person, MINUTE)
        (again,) = awaited.resend(store, suspects(store), "gone")
        with store.transaction() as transaction:
            adopter = ticks.Adopter("b", MINUTE, MINUTE)
            (adopted,) = ticks.adopt_unsent(transaction, adopter, 10, own_too=False).outgoing
        assert adopted.tick.attempt == again.tick.attempt == 2
        assert adopted.tick.waited >= MINUTE


class TestClose:
    def test_each_gets_its_state_and_reason(self, store: Database, person: Person) -> None:
        send(store, person, "failed", "expired", "forgotten")
        closings = [
            Closing("dead", "oh", "failed"),
            Closing("missed", "it expired"),
            Closing("sent"),
        ]
        found = suspects(store)
        by_name = dict(zip(("failed", "expired", "forgotten"), closings, strict=True))
        assert len(awaited.close(store, [(one, by_name[one.name]) for one in found])) == 3
        rows = person.do(
            "SELECT name, t.state, outcome, t.reason, awaited FROM dbbeat_tick t"
            " JOIN dbbeat_schedule s ON s.id = schedule_id"
        )
        assert {row["name"]: tuple(row.values())[1:] for row in rows} == {
            "failed": ("dead", "failed", "oh", False),
            "expired": ("missed", None, "it expired", False),
            "forgotten": ("sent", None, None, False),
        }

    def test_not_what_was_sent_again_meanwhile(self, store: Database, person: Person) -> None:
        send(store, person, "one")
        found = suspects(store)
        ticks.mark_sent(store, awaited.resend(store, found, "a"), guarded=True)
        assert awaited.close(store, [(found[0], Closing("dead", "why"))]) == set()
        (newer,) = suspects(store)
        assert newer.open == replace(
            found[0].open, attempt=2, losses=1, claimed_at=newer.open.claimed_at
        )


class TestRevive:
    def test_what_was_given_up_and_is_done_after_all(self, store: Database, person: Person) -> None:
        late, dead = send(store, person, "late", "dead")
        awaited.close(store, [(one, Closing("dead", "why")) for one in suspects(store)])
        run(person, late.schedule.id, "done")
        run(person, dead.schedule.id, "failed")
        assert awaited.revive(store) == 1
        (tick,) = person.ticks(late.schedule.id)
        assert (tick["state"], tick["outcome"], tick["reason"]) == ("sent", "done", None)
        assert person.ticks(dead.schedule.id)[0]["state"] == "dead"


def test_the_queues_that_guarded_workers_read(store: Database, person: Person) -> None:
    read_queue(person, "busy")
    read_queue(person, "silent", silent_for=timedelta(hours=1))
    read_queue(person, "deserted", silent_for=timedelta(hours=25))
    person.do("UPDATE dbbeat_worker SET holding = 2 WHERE queues = ARRAY['busy']")
    assert awaited.queue_readers(store) == {
        "busy": Readers(live=True, holding=True),
        "silent": Readers(live=False),
    }
