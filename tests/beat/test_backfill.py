"""Fire times past that somebody ordered; the workers are rows in their tables."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from celery import Celery

from celery_dbbeat import Schedules, failpoints
from celery_dbbeat.api import Backfill
from celery_dbbeat.beat.backfill import Backfills
from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.beat.replica import Replica
from celery_dbbeat.errors import BrokerUnavailable
from celery_dbbeat.failpoints import FailpointReached
from celery_dbbeat.rules.tick import task_id
from celery_dbbeat.settings import Settings
from celery_dbbeat.store.runs import Run, take
from tests.beat.broker import redis_ids
from tests.beat.conftest import MakeApp
from tests.beat.leader import Leader, take_messages
from tests.store.kit import Person
from tests.support.guarded import run
from tests.support.waiting import wait_until

HOUR = timedelta(hours=1)
#: Not so long ago that it is forgotten, and long before anything that beat dispatches.
START = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0) - 240 * HOUR
END = START + 9 * HOUR
TEN = [START + number * HOUR for number in range(10)]

Work = Callable[..., list[datetime]]


@pytest.fixture
def schedules(database_url: str) -> Schedules:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.update(dbbeat_url=database_url, dbbeat_guard=True)
    return Schedules(app)


@pytest.fixture
def hourly(person: Person, beat: Leader) -> UUID:
    """A schedule that beat has planned already."""
    identity = person.add("hourly", expression="3600")
    beat.dispatch()
    return identity


@pytest.fixture
def backfills(beat: Leader, settings: Settings) -> Backfills:
    return Backfills(beat.database, beat.dispatcher, settings, "a")


@pytest.fixture
def work(backfills: Backfills, redis_url: str) -> Work:
    """Passes of the leader; returns the fire times that were sent in them, in their order."""

    def passes(number: int = 1, using: Backfills = backfills) -> list[datetime]:
        for _ in range(number):
            using.run()
        return nominals(redis_url)

    return passes


def nominals(url: str) -> list[datetime]:
    """The fire times of the messages that wait, the first sent first."""
    headers = [message["headers"]["dbbeat"] for message in take_messages(url)]
    assert {header["kind"] for header in headers} <= {"backfill"}
    return [datetime.fromisoformat(header["nominal"]) for header in headers]


def put(person: Person, schedule: UUID, nominal: datetime, state: str, **columns: object) -> UUID:
    """Write the row of a fire time, as beat would have left it."""
    given = {
        "schedule_id": schedule,
        "nominal_at": nominal,
        "task_id": task_id(schedule, nominal),
        "state": state,
        "due_at": nominal,
        "replica": "before",
        **columns,
    }
    names, places = ", ".join(given), ", ".join(["%s"] * len(given))
    insert = f"INSERT INTO dbbeat_tick ({names}) VALUES ({places})"  # noqa: S608 - names of our own
    person.do(insert, *given.values())
    return task_id(schedule, nominal)


def end_all(person: Person, schedule: UUID, status: str = "done") -> None:
    """Let all that was sent and is not done end like this."""
    run(person, schedule, status)


def rows(person: Person, schedule: UUID) -> list[tuple[datetime, str, int]]:
    return [
        (row["nominal_at"].astimezone(timezone.utc), row["state"], row["count"])
        for row in person.ticks(schedule)
    ]


def look(schedules: Schedules) -> Backfill:
    (one,) = schedules.backfills()
    return one


class TestOrder:
    def test_one_after_the_other_in_order_under_the_ids_of_normal_ticks(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work
    ) -> None:
        schedules.backfill("hourly", START, END)
        sent: list[datetime] = []
        for number in range(10):
            new = work(3)
            assert len(new) == 1, "it waits until that one has ended"
            sent += new
            assert look(schedules).open == 1
            assert look(schedules).done == number
            end_all(person, hourly)
        assert sent == TEN
        assert work() == []
        found = look(schedules)
        assert (found.state, found.total, found.passed) == ("finished", 10, 10)
        assert (found.sent, found.done, found.failed, found.open) == (10, 10, 0, 0)
        ticks = person.ticks(hourly)
        assert [row["task_id"] for row in ticks] == [task_id(hourly, at) for at in TEN]
        assert {row["kind"] for row in ticks} == {"backfill"}

    @pytest.mark.usefixtures("hourly")
    def test_several_at_once(self, schedules: Schedules, work: Work) -> None:
        schedules.backfill("hourly", START, END, max_concurrent=4)
        assert work(3) == TEN[:4]

    @pytest.mark.usefixtures("hourly")
    def test_at_a_rate(self, schedules: Schedules, work: Work, person: Person) -> None:
        schedules.backfill("hourly", START, END, max_concurrent=100, rate=3)
        assert work(5) == TEN[:3]
        person.do("UPDATE dbbeat_backfill SET paced_at = paced_at - interval '1 hour'")
        assert work(5) == TEN[3:6]

    def test_without_the_guard_a_rate_holds_back(
        self, schedules: Schedules, hourly: UUID, person: Person, beat: Leader, settings: Settings
    ) -> None:
        without = replace(settings, guard=False)
        beat.dispatcher._guarded = False
        schedules.backfill("hourly", START, START + HOUR, max_concurrent=10)
        unguarded = Backfills(beat.database, beat.dispatcher, without, "a")
        for _ in range(3):
            unguarded.run()
        assert rows(person, hourly) == [(START, "sent", 1)]
        person.do("UPDATE dbbeat_backfill SET paced_at = paced_at - interval '1 hour'")
        for _ in range(2):
            unguarded.run()
        found = look(schedules)
        assert (found.state, found.sent, found.done, found.open) == ("finished", 2, 0, 0)

    def test_behind_the_schedules_own_ticks_where_it_is_told_so(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work
    ) -> None:
        now = datetime.now(timezone.utc)
        own = put(person, hourly, now, "sent", awaited=True)
        schedules.backfill("hourly", START, END, overlap="buffer_all")
        assert work(2) == []
        person.do("UPDATE dbbeat_tick SET awaited = false WHERE task_id = %s", own)
        assert work(2) == TEN[:1]

    def test_two_take_turns(self, schedules: Schedules, person: Person, work: Work) -> None:
        for name in "ab":
            person.add(name, expression="3600")
        person.do("UPDATE dbbeat_cursor SET replan_from = NULL, due_at = NULL")
        for name in "ab":
            schedules.backfill(name, START, END)
        assert work() == [START, START]


class TestWhatRan:
    def fill(self, person: Person, schedule: UUID) -> None:
        put(person, schedule, TEN[0], "sent", outcome="done")
        put(person, schedule, TEN[1], "dead", outcome="failed", reason="ValueError: no")
        put(person, schedule, TEN[2], "missed", reason="late")
        put(person, schedule, TEN[3], "recorded", replica="a")
        put(person, schedule, TEN[4], "sent", awaited=True)
        put(person, schedule, TEN[5], "sent")

    @pytest.mark.parametrize(
        ("reprocess", "sent"),
        [("none", [2, 6]), ("failed", [1, 2, 6]), ("all", [0, 1, 2, 5, 6])],
    )
    def test_is_sent_again_only_as_it_was_asked_for(
        self,
        reprocess: Any,  # noqa: ANN401 - one of three words
        sent: list[int],
        schedules: Schedules,
        hourly: UUID,
        person: Person,
        work: Work,
    ) -> None:
        self.fill(person, hourly)
        dry = schedules.backfill("hourly", START, TEN[6], dry_run=True, reprocess=reprocess)
        assert [one.standing for one in dry.fire_times] == [
            "done",
            "failed",
            "missed",
            "waiting",
            "waiting",
            "sent",
            "unsent",
        ]
        assert [n for n, one in enumerate(dry.fire_times) if one.action != "skip"] == sent
        assert (dry.count, dry.complete, dry.to_send) == (7, True, len(sent))
        schedules.backfill("hourly", START, TEN[6], reprocess=reprocess, max_concurrent=100)
        assert work(2) == [TEN[number] for number in sent]
        assert look(schedules).passed == 7

    def test_what_failed_gets_its_next_attempt(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work
    ) -> None:
        put(person, hourly, START, "dead", outcome="failed", attempt=3, sent_at=START)
        end_all(person, hourly, "failed")
        schedules.backfill("hourly", START, START, reprocess="failed")
        assert work() == [START]
        (tick,) = person.ticks(hourly)
        assert (tick["state"], tick["attempt"], tick["awaited"]) == ("sent", 4, True)
        # How it ended before counts no more.
        work()
        assert look(schedules).open == 1
        run(person, hourly, "done", attempt=4)
        work(2)
        assert (look(schedules).state, look(schedules).done) == ("finished", 1)

    def test_what_failed_when_it_was_ended_for_a_newer_one_can_be_taken_again(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work, beat: Leader
    ) -> None:
        put(person, hourly, START, "cancelled", outcome="failed", sent_at=START, reason="newer")
        end_all(person, hourly, "failed")
        identity = task_id(hourly, START)
        person.do("INSERT INTO dbbeat_cancelled (task_id) VALUES (%s)", identity)
        schedules.backfill("hourly", START, START, reprocess="failed")
        assert work() == [START]
        wanted = Run(identity, START, "hourly", 2, 0, "w")
        assert take(beat.database, wanted, timedelta(seconds=60)) is not None

    def test_what_is_done_is_done_again_under_another_id_and_once(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work
    ) -> None:
        own = put(person, hourly, START, "sent", outcome="done")
        for number in (1, 2):
            schedules.backfill("hourly", START, START, reprocess="all")
            assert work(3) == [START]
            ids = {row["task_id"] for row in person.ticks(hourly)}
            assert own in ids
            assert len(ids) == number + 1

    def test_what_failed_in_it_is_counted(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work, beat: Leader
    ) -> None:
        schedules.backfill("hourly", START, START)
        work()
        end_all(person, hourly, "failed")
        work()
        assert look(schedules).open == 1, "it may be tried again"
        beat.look()
        work(2)
        assert (look(schedules).state, look(schedules).failed) == ("finished", 1)


class TestRanges:
    def test_what_is_sent_leaves_its_range(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work
    ) -> None:
        put(person, hourly, TEN[1], "missed", last_at=TEN[8], count=8, reason="late")
        schedules.backfill("hourly", TEN[3], TEN[5], max_concurrent=2)
        dry = schedules.backfill("hourly", START, END, dry_run=True)
        assert [one.standing for one in dry.fire_times] == ["unsent", *["missed"] * 8, "unsent"]
        assert work(3) == TEN[3:5]
        left, right = (TEN[1], "missed", 2), (TEN[5], "missed", 4)
        assert rows(person, hourly) == [left, (TEN[3], "sent", 1), (TEN[4], "sent", 1), right]
        end_all(person, hourly)
        assert work(3) == [TEN[5]]
        found = rows(person, hourly)
        assert [found[0], found[-1]] == [left, (TEN[6], "missed", 3)]
        ticks = person.ticks(hourly)
        assert [row["last_at"] for row in (ticks[0], ticks[-1])] == [TEN[2], TEN[8]]
        assert {row["reason"] for row in (ticks[0], ticks[-1])} == {"late"}
        assert ticks[3]["reason"] == "was missed: late"

    def test_from_its_first_fire_time_to_its_last(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work
    ) -> None:
        put(person, hourly, TEN[2], "coalesced", last_at=TEN[4], count=3, reason="newer")
        schedules.backfill("hourly", START, END, max_concurrent=100)
        assert work(2) == TEN
        assert rows(person, hourly) == [(at, "sent", 1) for at in TEN]
        assert {row["last_at"] for row in person.ticks(hourly)} == {None}

    def test_of_other_fire_times_it_is_left_whole(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work
    ) -> None:
        put(person, hourly, TEN[2], "missed", last_at=TEN[4], count=121, reason="late")
        schedules.backfill("hourly", START, END, max_concurrent=100)
        assert work(2) == TEN
        found = rows(person, hourly)
        assert (TEN[2], "missed", 121) in found
        assert [row for row in found if row[1] == "sent"] == [(at, "sent", 1) for at in TEN]

    def test_the_paused_time_is_caught_up_on_where_that_is_asked_for(
        self, schedules: Schedules, hourly: UUID, person: Person, beat: Leader, work: Work
    ) -> None:
        schedules.pause("hourly", note="the printer is broken")
        person.do("UPDATE dbbeat_cursor SET held_at = %s, nominal_at = %s", START - HOUR / 2, START)
        ordered = schedules.resume("hourly", catch_up=True)
        assert ordered is not None
        assert work() == [], "the schedule says first what it has not sent"
        beat.dispatch()
        ((first, state, count),) = rows(person, hourly)
        assert (first, state, count >= 240) == (START, "paused", True)
        person.do("UPDATE dbbeat_backfill SET max_concurrent = 1000")
        sent = work(20)
        assert sent[:10] == TEN
        assert len(sent) == count
        assert rows(person, hourly) == [(at, "sent", 1) for at in sent]
        end_all(person, hourly)
        work(2)
        assert look(schedules).state == "finished"

    @pytest.mark.usefixtures("hourly")
    def test_resumed_twice_it_is_caught_up_on_once(
        self, schedules: Schedules, person: Person
    ) -> None:
        schedules.pause("hourly")
        person.do("UPDATE dbbeat_cursor SET nominal_at = %s, held_at = %s", TEN[2], TEN[2])
        assert schedules.resume("hourly", catch_up=True) is not None
        assert schedules.resume("hourly", catch_up=True) is None
        assert look(schedules).start == TEN[2]

    @pytest.mark.usefixtures("hourly")
    def test_what_is_late_was_not_paused(self, schedules: Schedules, person: Person) -> None:
        person.do("UPDATE dbbeat_cursor SET nominal_at = %s, due_at = now()", TEN[2])
        assert schedules.resume("hourly", catch_up=True) is None
        assert schedules.backfills() == []


class TestWhileItGoesOn:
    def test_paused_it_waits_and_resumed_it_goes_on(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work, beat: Leader
    ) -> None:
        schedules.backfill("hourly", START, END)
        work()
        schedules.pause("hourly")
        end_all(person, hourly)
        assert work(3) == []
        found = look(schedules)
        assert (found.state, found.done) == ("running", 1)
        assert found.reason == "waits: the schedule is paused"
        schedules.resume("hourly")
        beat.dispatch()
        assert work(3) == [TEN[1]]

    def test_edited_it_goes_on_by_what_the_schedule_says_now(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work, beat: Leader
    ) -> None:
        schedules.backfill("hourly", START, END)
        work()
        end_all(person, hourly)
        person.do("UPDATE dbbeat_schedule SET expression = '7200', task = 'other'")
        beat.dispatch()
        (after,) = work(3)
        assert after in TEN[1:3]
        assert after.timestamp() % 7200 == 0

    @pytest.mark.usefixtures("hourly")
    def test_deleted_it_is_stopped(self, schedules: Schedules, person: Person, work: Work) -> None:
        schedules.backfill("hourly", START, END)
        work()
        person.do("DELETE FROM dbbeat_schedule")
        assert work(2) == []
        found = look(schedules)
        assert (found.state, found.reason) == ("stopped", "the schedule was deleted")

    @pytest.mark.usefixtures("hourly")
    def test_invalid_it_is_stopped(self, schedules: Schedules, person: Person, work: Work) -> None:
        schedules.backfill("hourly", START, END)
        person.do("UPDATE dbbeat_schedule SET state = 'invalid', reason = 'no such zone'")
        assert work(2) == []
        assert look(schedules).reason == "the schedule is invalid: no such zone"

    @pytest.mark.usefixtures("hourly")
    def test_what_cannot_be_computed_stops_it_and_nobody_else(
        self, schedules: Schedules, person: Person, work: Work
    ) -> None:
        person.add("other", expression="3600")
        person.do("UPDATE dbbeat_cursor SET replan_from = NULL, due_at = NULL")
        for name in ("hourly", "other"):
            schedules.backfill(name, START, END)
        person.do("UPDATE dbbeat_schedule SET expression = 'soon' WHERE name = 'hourly'")
        person.do("UPDATE dbbeat_cursor SET replan_from = NULL, due_at = NULL")
        assert work(2) == [START]
        other, stopped = schedules.backfills()
        assert (other.state, stopped.state) == ("running", "stopped")
        assert stopped.reason is not None
        assert "interval 'soon' is not allowed" in stopped.reason

    def test_stopped_and_going_on(
        self, schedules: Schedules, hourly: UUID, person: Person, work: Work
    ) -> None:
        number = schedules.backfill("hourly", START, END).id
        work()
        assert schedules.stop_backfill(number).state == "stopped"
        end_all(person, hourly)
        assert work(3) == []
        found = look(schedules)
        assert (found.done, found.open) == (1, 0), "what was sent is looked after"
        assert schedules.continue_backfill(number).state == "running"
        assert work(3) == [TEN[1]]

    def test_fire_times_that_the_schedule_has_not_decided_are_its_own(
        self,
        schedules: Schedules,
        hourly: UUID,
        person: Person,
        work: Work,
        beat: Leader,
        redis_url: str,
    ) -> None:
        person.do(
            "UPDATE dbbeat_cursor SET nominal_at = %s, due_at = now() - interval '1 s'", TEN[5]
        )
        schedules.backfill("hourly", START, END, max_concurrent=100)
        assert work(3) == TEN[:5]
        end_all(person, hourly)
        assert work(3) == []
        assert look(schedules).state == "running"
        person.do("UPDATE dbbeat_schedule SET misfire_grace = '1 hour'")
        beat.dispatch()
        take_messages(redis_url)
        assert work(3) == TEN[5:]

    def test_a_million_fire_times_cost_no_more_than_a_few(
        self, schedules: Schedules, person: Person, backfills: Backfills, beat: Leader
    ) -> None:
        identity = person.add("often", expression="0.1")
        beat.dispatch()
        schedules.backfill("often", START, START + timedelta(seconds=100_000))
        found = look(schedules)
        assert found.total == 1_000_001
        dry = schedules.backfill(
            "often", START, START + timedelta(seconds=100_000), dry_run=True, limit=5
        )
        assert (dry.count, len(dry.fire_times)) == (1_000_001, 5)
        assert dry.following == START + timedelta(seconds=0.5)
        backfills.run()
        assert look(schedules).passed == 1
        kinds = [tick["kind"] for tick in person.ticks(identity)]
        assert kinds.count("backfill") == 1, "beside those that are due by themselves"


class TestFaults:
    def test_its_ticks_are_open_from_their_record(
        self,
        schedules: Schedules,
        hourly: UUID,
        person: Person,
        backfills: Backfills,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def crash() -> None:
            raise FailpointReached("after_slice")

        person.do("UPDATE dbbeat_schedule SET overlap = 'skip'")
        schedules.backfill("hourly", START, START)
        monkeypatch.setitem(failpoints._armed, "after_slice", crash)
        with pytest.raises(FailpointReached):
            backfills.run()
        opened = person.one("SELECT task_id FROM dbbeat_open WHERE schedule_id = %s", hourly)
        assert opened["task_id"] == task_id(hourly, START)

    def test_one_by_hand_is_open_from_its_record(
        self, schedules: Schedules, hourly: UUID, person: Person
    ) -> None:
        schedules.trigger("hourly")
        assert person.value("SELECT count(*) FROM dbbeat_open") == 0
        person.do("UPDATE dbbeat_schedule SET overlap = 'skip'")
        person.do("DELETE FROM dbbeat_open")
        identity = schedules.trigger("hourly")
        opened = person.one("SELECT task_id FROM dbbeat_open WHERE schedule_id = %s", hourly)
        assert opened["task_id"] == identity

    @pytest.fixture
    def other(self, other_beat: Leader, settings: Settings) -> Backfills:
        """Those of a replica that believes it leads as well."""
        return Backfills(other_beat.database, other_beat.dispatcher, settings, "b")

    @pytest.mark.parametrize(
        "point",
        ["before_slice", "in_slice", "after_slice", "before_publish", "after_publish"],
    )
    def test_killed_at_any_point_nothing_is_lost_or_sent_under_two_ids(
        self,
        point: str,
        schedules: Schedules,
        hourly: UUID,
        person: Person,
        backfills: Backfills,
        other: Backfills,
        other_beat: Leader,
        redis_url: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def crash() -> None:
            raise FailpointReached(point)

        schedules.backfill("hourly", START, END)
        sent = []
        for _ in TEN:
            with monkeypatch.context() as patch:
                patch.setitem(failpoints._armed, point, crash)
                with pytest.raises(FailpointReached):
                    backfills.run()
            # The replica is gone: the other takes over what it had recorded, and goes on.
            other_beat.dispatcher.recover()
            other.run()
            new = nominals(redis_url)
            assert len(set(new)) == 1, "the next only when this one has ended"
            sent += sorted(set(new))
            end_all(person, hourly)
        assert sent == TEN
        other.run()
        other.run()
        assert (look(schedules).state, look(schedules).done) == ("finished", 10)
        assert rows(person, hourly) == [(at, "sent", 1) for at in TEN]

    @pytest.mark.usefixtures("hourly")
    def test_two_that_believe_they_lead_share_the_work(
        self,
        schedules: Schedules,
        backfills: Backfills,
        other: Backfills,
        redis_url: str,
    ) -> None:
        schedules.backfill("hourly", START, END, max_concurrent=3)
        for one in (backfills, other, backfills, other):
            one.run()
        assert nominals(redis_url) == TEN[:3]

    @pytest.mark.usefixtures("hourly")
    def test_what_another_works_on_is_left_alone(
        self, schedules: Schedules, person: Person, work: Work
    ) -> None:
        schedules.backfill("hourly", START, END)
        for table in ("dbbeat_backfill", "dbbeat_cursor"):
            with person.connection.transaction():
                person.do(f"SELECT FROM {table} FOR UPDATE")
                assert work(2) == []
        assert work() == [START]

    def test_the_broker_goes_away_in_the_middle(
        self,
        schedules: Schedules,
        hourly: UUID,
        person: Person,
        beat: Leader,
        backfills: Backfills,
        publisher: Publisher,
        redis_url: str,
    ) -> None:
        schedules.backfill("hourly", START, END)
        publisher.close()
        with pytest.raises(BrokerUnavailable):
            backfills.run()
        assert rows(person, hourly) == [(START, "recorded", 1)]
        publisher.ensure()
        beat.dispatch()
        assert nominals(redis_url) == [START]

    def test_whoever_finds_its_tick_late_sends_it_all_the_same(
        self, hourly: UUID, person: Person, other_beat: Leader, redis_url: str
    ) -> None:
        put(person, hourly, START, "recorded", kind="backfill", replica="gone")
        assert other_beat.dispatcher.recover() == 1
        assert nominals(redis_url) == [START]


@pytest.fixture
def replica(make_app: MakeApp, settings: Settings, redis_url: str) -> Iterator[Replica]:
    with closing(Replica(make_app(redis_url), settings, {})) as one:
        yield one


def test_a_leader_does_it_by_itself_as_soon_as_it_is_ordered(
    schedules: Schedules, person: Person, replica: Replica, redis_url: str
) -> None:
    person.add("hourly", expression="3600")
    wait_until(lambda: replica.step() > 0)
    schedules.backfill("hourly", START, END, max_concurrent=10)

    def sent() -> list[str]:
        replica.wait(min(1.0, replica.step()))
        return redis_ids(redis_url)

    wait_until(lambda: len(sent()) == 10, 5)
