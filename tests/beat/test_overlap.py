"""Ticks while earlier ones of their schedule are not done, as workers' rows say it."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from celery_dbbeat.beat.overlaps import Waiting
from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.settings import Settings
from celery_dbbeat.store import runs
from celery_dbbeat.store.runs import Ending, Run
from tests.beat.leader import Leader, take_messages
from tests.store.kit import Person

LEASE = timedelta(seconds=60)
SECOND = timedelta(seconds=1)
NEVER = str(100 * 365 * 86400)


class Shop:
    """One schedule that cares, beat, and a worker that does as it is told."""

    def __init__(self, beat: Leader, person: Person, broker_url: str) -> None:
        self.beat, self.person, self.broker_url = beat, person, broker_url
        self.waiting = Waiting(beat.database)
        self.id, self.seconds = UUID(int=0), 0
        self.began_at = person.value("SELECT date_trunc('second', now()) - interval '30 s'")

    def add(self, overlap: str, **columns: object) -> None:
        """One schedule whose fire times come when the test says so."""
        given = {"expression": NEVER, "overlap": overlap, **columns}
        self.id = self.person.add("one", **given)

    def open(self, overlap: str, **columns: object) -> None:
        """One schedule, of which a tick is sent and its run goes on."""
        self.add(overlap, **columns)
        self.run = self.begin(self.next()[0])

    def pass_time(self) -> None:
        """The next fire time passes, and is due."""
        self.seconds += 1
        self.person.do(
            "UPDATE dbbeat_cursor SET replan_from = NULL, due_at = now(),"
            " nominal_at = %s + %s * interval '1 s' WHERE waits_for IS DISTINCT FROM 'run'",
            self.began_at,
            self.seconds,
        )

    def each_second(self) -> None:
        """From now on, fire times come by themselves."""
        self.person.do("UPDATE dbbeat_schedule SET expression = '1'")
        self.dispatch()

    def next(self) -> list[dict[str, Any]]:
        """Let a fire time come, and dispatch; returns the messages."""
        self.pass_time()
        return self.dispatch()

    def dispatch(self) -> list[dict[str, Any]]:
        self.beat.dispatch()
        return take_messages(self.broker_url)

    def begin(self, message: dict[str, Any]) -> Run:
        """A worker takes it."""
        run = self.try_to_begin(message)
        assert run is not None
        return run

    def try_to_begin(self, message: dict[str, Any]) -> Run | None:
        header = message["headers"]["dbbeat"]
        nominal = datetime.fromisoformat(header["nominal"])
        wanted = Run(UUID(message["headers"]["id"]), nominal, "one", header["attempt"], 0, "w")
        return runs.take(self.beat.database, wanted, LEASE)

    def finish(self, run: Run | None = None, status: str = "done") -> None:
        assert runs.finish(self.beat.database, run or self.run, Ending(status, "X", "why"))

    def look(self) -> int:
        return self.waiting.look()

    def states(self) -> list[str]:
        return [row["state"] for row in self.person.ticks(self.id)]

    def tick(self, run: Run) -> dict[str, Any]:
        return self.person.one("SELECT * FROM dbbeat_tick WHERE task_id = %s", run.task_id)

    def waits_for(self) -> str | None:
        found: str | None = self.person.cursor(self.id)["waits_for"]
        return found


@pytest.fixture
def shop(beat: Leader, person: Person, redis_url: str) -> Shop:
    return Shop(beat, person, redis_url)


class TestSkip:
    def test_while_a_run_goes_on_nothing_is_sent_and_it_is_one_row(self, shop: Shop) -> None:
        shop.open("skip")
        assert shop.next() == []
        assert shop.next() == []
        (row,) = [row for row in shop.person.ticks(shop.id) if row["state"] == "overlapped"]
        assert (row["count"], row["last_at"] - row["nominal_at"]) == (2, SECOND)
        assert row["reason"] == "an earlier tick was not done"
        shop.finish()
        assert len(shop.next()) == 1

    @pytest.mark.parametrize(
        ("on_failure", "sent"), [("dead", 1), ("retry", 0)], ids=["dead", "to be tried again"]
    )
    def test_a_failed_run_has_ended_unless_it_is_tried_again(
        self, shop: Shop, on_failure: str, sent: int
    ) -> None:
        shop.open("skip", on_failure=on_failure)
        shop.finish(status="failed")
        assert len(shop.next()) == sent

    def test_a_run_whose_worker_died_has_not_ended_until_it_is_dead(self, shop: Shop) -> None:
        shop.open("skip", max_attempts=1)
        shop.person.do("UPDATE dbbeat_dedup SET lease_until = now() - interval '1 s'")
        shop.person.do("UPDATE dbbeat_tick SET claimed_at = now() - interval '1 minute'")
        assert shop.next() == []
        shop.beat.look()
        assert shop.tick(shop.run)["state"] == "dead"
        assert len(shop.next()) == 1

    def test_one_that_is_on_its_way_counts(self, shop: Shop) -> None:
        shop.add("skip")
        assert len(shop.next()) == 1
        assert shop.next() == []

    def test_a_manual_one_that_is_sent_counts_too(self, shop: Shop) -> None:
        shop.add("skip")
        shop.person.do(
            "INSERT INTO dbbeat_tick (schedule_id, nominal_at, task_id, state, kind, due_at,"
            " replica) VALUES (%s, now(), %s, 'recorded', 'manual', now(), 'nobody')",
            shop.id,
            uuid4(),
        )
        assert shop.beat.dispatcher.recover() == 1
        take_messages(shop.broker_url)
        assert shop.next() == []

    def test_what_ran_before_the_overlap_was_changed_counts(self, shop: Shop) -> None:
        shop.open("allow")
        shop.person.do("UPDATE dbbeat_schedule SET overlap = 'skip'")
        assert shop.next() == []

    def test_so_many_at_once(self, shop: Shop) -> None:
        shop.open("skip", max_concurrent=2)
        assert len(shop.next()) == 1
        assert shop.next() == []


@pytest.mark.parametrize("overlap", ["buffer_one", "buffer_all", "cancel_other"])
class TestWaiting:
    def test_it_goes_when_the_run_has_ended(self, shop: Shop, overlap: str) -> None:
        shop.open(overlap)
        assert shop.next() == []
        assert shop.waits_for() == "run"
        assert shop.look() == 0
        shop.finish()
        assert shop.look() == 1
        (message,) = shop.dispatch()
        assert message["headers"]["dbbeat"]["kind"] == "scheduled"
        assert shop.person.value("SELECT count(*) FROM dbbeat_open") == 1

    def test_pausing_and_deleting_end_the_waiting(self, shop: Shop, overlap: str) -> None:
        shop.open(overlap)
        shop.next()
        shop.person.do("UPDATE dbbeat_schedule SET state = 'paused'")
        assert shop.waits_for() is None
        shop.finish()
        assert (shop.look(), shop.dispatch()) == (0, [])
        shop.person.do("UPDATE dbbeat_schedule SET state = 'active'")
        shop.dispatch()
        assert "paused" in shop.states()
        shop.person.do("DELETE FROM dbbeat_schedule")
        assert (shop.look(), shop.dispatch()) == (0, [])

    def test_deleted_while_it_waits_it_is_told(self, shop: Shop, overlap: str) -> None:
        shop.open(overlap)
        shop.next()
        shop.person.do("DELETE FROM dbbeat_schedule")
        assert "missed" in shop.states()

    def test_to_allow_it_is_let_go_at_once(self, shop: Shop, overlap: str) -> None:
        shop.open(overlap)
        shop.next()
        shop.person.do("UPDATE dbbeat_schedule SET overlap = 'allow'")
        assert len(shop.dispatch()) >= 1

    def test_more_at_once_let_it_go_at_once(self, shop: Shop, overlap: str) -> None:
        if overlap == "cancel_other":
            return  # the run was asked to end, and is still awaited
        shop.open(overlap)
        shop.next()
        shop.person.do("UPDATE dbbeat_schedule SET max_concurrent = 2")
        assert len(shop.dispatch()) == 1

    def test_new_arguments_count(self, shop: Shop, overlap: str) -> None:
        shop.open(overlap)
        shop.next()
        shop.person.do("UPDATE dbbeat_schedule SET args = '[7]'")
        assert shop.waits_for() == "run"
        shop.finish()
        shop.look()
        (message,) = shop.dispatch()
        assert message["headers"]["argsrepr"] == "[7]"


class TestBuffers:
    def test_of_one_the_first_goes_and_the_others_are_told(self, shop: Shop) -> None:
        shop.open("buffer_one")
        shop.each_second()
        shop.next()
        shop.person.do("UPDATE dbbeat_cursor SET nominal_at = nominal_at - interval '4 s'")
        waits = shop.person.cursor(shop.id)["nominal_at"]
        shop.finish()
        shop.look()
        (message,) = shop.dispatch()
        assert datetime.fromisoformat(message["headers"]["dbbeat"]["nominal"]) == waits
        told = [row for row in shop.person.ticks(shop.id) if row["state"] == "overlapped"]
        assert [row["nominal_at"] for row in told] == [waits + SECOND]
        assert told[0]["count"] >= 4

    def test_of_all_each_goes_as_the_one_before_ends(self, shop: Shop) -> None:
        shop.open("buffer_all")
        shop.each_second()
        shop.next()
        shop.person.do("UPDATE dbbeat_cursor SET nominal_at = nominal_at - interval '3 s'")
        first = shop.person.cursor(shop.id)["nominal_at"]
        run = shop.run
        for step in range(3):
            shop.finish(run)
            assert shop.look() == 1
            (message,) = shop.dispatch()
            header = message["headers"]["dbbeat"]
            assert datetime.fromisoformat(header["nominal"]) == first + step * SECOND
            run = shop.begin(message)


class TestCancel:
    def test_one_that_has_not_begun_is_never_run(self, shop: Shop) -> None:
        shop.add("cancel_other")
        (first,) = shop.next()
        assert shop.next() == []
        assert shop.states()[0] == "cancelled"
        assert shop.look() == 1
        assert len(shop.dispatch()) == 1
        assert shop.try_to_begin(first) is None

    def test_one_that_runs_is_asked_to_end_and_waited_for(self, shop: Shop) -> None:
        shop.open("cancel_other")
        assert not runs.is_cancelled(shop.beat.database, shop.run.task_id)
        shop.next()
        assert runs.is_cancelled(shop.beat.database, shop.run.task_id)
        tick = shop.tick(shop.run)
        assert (tick["state"], tick["awaited"]) == ("cancelled", False)
        assert tick["reason"].startswith("cancel_other for the fire time")
        assert shop.look() == 0
        shop.finish(status="failed")
        assert shop.look() == 1
        assert len(shop.dispatch()) == 1
        assert shop.tick(shop.run)["outcome"] == "failed"

    def test_one_whose_worker_dies_is_waited_for_no_longer_than_its_lease(self, shop: Shop) -> None:
        shop.open("cancel_other")
        shop.next()
        shop.person.do("UPDATE dbbeat_dedup SET lease_until = now() - interval '1 s'")
        assert shop.look() == 1
        assert len(shop.dispatch()) == 1
        shop.beat.look()
        assert shop.tick(shop.run)["state"] == "cancelled"
        again = {"headers": {"id": str(shop.run.task_id), "dbbeat": {
            "nominal": shop.run.nominal_at.isoformat(), "attempt": 2}}}  # fmt: skip
        assert shop.try_to_begin(again) is None

    def test_one_that_was_not_sent_yet_is_not_sent_any_more(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch, other_beat: Leader
    ) -> None:
        shop.add("cancel_other")
        with monkeypatch.context() as patched:
            patched.setattr(other_beat.dispatcher, "_publish", lambda _: None)  # it dies
            shop.pass_time()
            other_beat.dispatch()
        assert shop.states() == ["recorded"]
        shop.next()
        assert shop.states()[0] == "cancelled"
        assert shop.beat.dispatcher.recover() == 0


class TestTerminate:
    @pytest.fixture
    def terminated(self, publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
        told: list[UUID] = []
        monkeypatch.setattr(publisher, "terminate", told.extend)
        return told

    def test_one_that_runs_is_ended_and_the_new_one_goes_at_once(
        self, shop: Shop, terminated: list[UUID]
    ) -> None:
        shop.open("terminate_other")
        assert len(shop.next()) == 1
        assert terminated == [shop.run.task_id]
        assert shop.states()[0] == "cancelled"
        shop.beat.look()
        assert shop.states()[0] == "cancelled"

    def test_one_that_has_not_begun_is_never_run(self, shop: Shop, terminated: list[UUID]) -> None:
        shop.add("terminate_other")
        (first,) = shop.next()
        assert len(shop.next()) == 1
        assert terminated == []
        assert shop.try_to_begin(first) is None

    def test_the_broker_away_is_told_and_no_more(
        self, publisher: Publisher, monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:  # fmt: skip
        def gone(*_: object, **__: object) -> None:
            raise ConnectionError("it went away")

        monkeypatch.setattr(publisher._app.control, "revoke", gone)
        publisher.terminate([uuid4()])
        assert "workers were not told to end 1 runs: it went away" in caplog.text


class TestWithoutTheGuard:
    @pytest.fixture
    def unguarded(
        self, database_url: str, publisher: Publisher, settings: Settings
    ) -> Iterator[Leader]:
        bare = replace(settings, guard=False)
        with closing(Leader(database_url, publisher, bare, "a")) as leader:
            yield leader

    def test_it_says_so(self, unguarded: Leader, person: Person) -> None:
        identity = person.add("one", overlap="skip")
        unguarded.dispatch()
        schedule = person.schedule(identity)
        assert schedule["state"] == "invalid"
        assert "overlap 'skip' needs the worker guard" in schedule["reason"]


def test_who_allows_it_pays_nothing(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("nobody should ask")

    monkeypatch.setattr("celery_dbbeat.store.overlaps.running", asked)
    shop.open("allow")
    assert len(shop.next()) == 1
    assert shop.person.value("SELECT count(*) FROM dbbeat_open") == 0


def test_while_nothing_waits_nobody_looks(shop: Shop) -> None:
    shop.open("buffer_one")
    shop.waiting.observe(waiting=shop.beat.dispatcher.waiting, leads=True)
    assert shop.waiting.seconds_until_next == float("inf")
    shop.next()
    shop.waiting.observe(waiting=shop.beat.dispatcher.waiting, leads=True)
    assert shop.waiting.seconds_until_next <= 0.25
