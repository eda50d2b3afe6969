"""Dead ticks: listed, and sent again when somebody says so."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from celery_dbbeat import Schedules
from celery_dbbeat.errors import NotFound, ScheduleError
from celery_dbbeat.store import history, ticks
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.ticks import Adopter
from tests.api.kit import NOON, SECOND, Clerk

HOUR = timedelta(hours=1)


class TestList:
    def test_a_dead_letter(self, clerk: Clerk, schedules: Schedules) -> None:
        task_id = clerk.dead(clerk.add(), attempt=3)
        (letter,) = schedules.dead()
        assert (letter.schedule, letter.task_id, letter.nominal) == ("nightly", task_id, NOON)
        assert (letter.attempt, letter.reason) == (3, "the task failed")
        assert (letter.error, letter.traceback) == ("ValueError: no", "Trace")
        assert (letter.worker, letter.ended) == ("celery@one", NOON + 3 * SECOND)

    def test_one_that_never_ran(self, clerk: Clerk, schedules: Schedules) -> None:
        clerk.tick(clerk.add(), state="dead", reason="nobody took it")
        (letter,) = schedules.dead()
        assert (letter.schedule, letter.reason) == ("nightly", "nobody took it")
        assert (letter.error, letter.traceback, letter.worker, letter.ended) == (None,) * 4

    def test_the_newest_first_up_to_a_limit(self, clerk: Clerk, schedules: Schedules) -> None:
        nightly = clerk.add()
        for hour in range(4):
            clerk.dead(nightly, NOON + hour * HOUR)
        clerk.tick(nightly, NOON + 9 * HOUR)
        assert [letter.nominal for letter in schedules.dead(limit=3)] == [
            NOON + hour * HOUR for hour in (3, 2, 1)
        ]

    def test_of_one_schedule(self, clerk: Clerk, schedules: Schedules) -> None:
        clerk.dead(clerk.add())
        other = clerk.dead(clerk.add("other"))
        assert [letter.task_id for letter in schedules.dead(schedule="other")] == [other]
        with pytest.raises(NotFound, match="no schedule 'third'"):
            schedules.dead(schedule="third")

    def test_of_a_deleted_schedule(self, clerk: Clerk, schedules: Schedules) -> None:
        """Its run knows the name; without a run nobody does."""
        clerk.dead(uuid4())
        clerk.tick(uuid4(), NOON - HOUR, "dead")
        assert [letter.schedule for letter in schedules.dead()] == ["nightly", None]


def row(clerk: Clerk, task_id: UUID) -> dict[str, object]:
    return clerk.one("SELECT * FROM dbbeat_tick WHERE task_id = %s", task_id)


class TestReplay:
    @pytest.mark.parametrize(("sent", "ran", "next_one"), [(3, 1, 4), (1, 5, 6), (30000, 1, 30000)])
    def test_it_becomes_an_unsent_tick_with_a_higher_attempt(
        self, clerk: Clerk, schedules: Schedules, sent: int, ran: int, next_one: int
    ) -> None:
        task_id = clerk.dead(clerk.add(), attempt=sent)
        clerk.do("UPDATE dbbeat_dedup SET attempt = %s", ran)
        before = clerk.value("SELECT now()")
        schedules.replay(task_id)
        tick = row(clerk, task_id)
        assert (tick["state"], tick["kind"], tick["replica"]) == ("recorded", "manual", "replay")
        assert (tick["attempt"], tick["losses"]) == (next_one, 0)
        assert (tick["reason"], tick["outcome"], tick["awaited"]) == (None, None, False)
        assert tick["claimed_at"] >= before
        assert schedules.dead() == []

    def test_beats_are_told_and_any_of_them_takes_it_at_once(
        self, clerk: Clerk, schedules: Schedules, database_url: str
    ) -> None:
        task_id = clerk.dead(clerk.add())
        clerk.do("LISTEN dbbeat_public")
        schedules.replay(str(task_id))
        heard = list(clerk.connection.notifies(timeout=5, stop_after=1))
        assert [one.payload for one in heard] == ["tick"]
        patient = Adopter("b", HOUR, HOUR)
        with Database(database_url, None, 5.0) as store, store.transaction() as transaction:
            adopted = ticks.adopt_unsent(transaction, patient, 10, own_too=False)
        assert [one.tick.task_id for one in adopted.outgoing] == [task_id]

    def test_one_that_never_ran(self, clerk: Clerk, schedules: Schedules) -> None:
        task_id = clerk.tick(clerk.add(), state="dead")
        schedules.replay(task_id)
        assert row(clerk, task_id)["attempt"] == 2

    def test_others_stay_dead(self, clerk: Clerk, schedules: Schedules) -> None:
        nightly = clerk.add()
        task_id, other = clerk.dead(nightly), clerk.dead(nightly, NOON + HOUR)
        schedules.replay(task_id)
        assert [letter.task_id for letter in schedules.dead()] == [other]

    def test_of_several_all_or_none(self, clerk: Clerk, schedules: Schedules) -> None:
        nightly = clerk.add()
        ids = [clerk.dead(nightly, NOON + hour * HOUR) for hour in range(2)]
        with pytest.raises(NotFound):
            schedules.replay(*ids, uuid4())
        assert len(schedules.dead()) == 2
        schedules.replay(*ids)
        assert schedules.dead() == []

    def test_a_second_time_it_is_not_dead(self, clerk: Clerk, schedules: Schedules) -> None:
        task_id = clerk.dead(clerk.add())
        schedules.replay(task_id)
        with pytest.raises(NotFound, match=f"{task_id} is not that of a dead tick.*'failed'"):
            schedules.replay(task_id)
        assert row(clerk, task_id)["attempt"] == 2

    def test_an_unknown_id(self, schedules: Schedules) -> None:
        with pytest.raises(NotFound, match="is not that of a dead tick; `dead` lists those"):
            schedules.replay(uuid4())

    def test_what_is_no_id(self, schedules: Schedules) -> None:
        with pytest.raises(NotFound, match=r"'nightly' is not a task id.*allowed is a UUID"):
            schedules.replay("nightly")

    def test_of_a_deleted_schedule(self, clerk: Clerk, schedules: Schedules) -> None:
        task_id = clerk.dead(clerk.add())
        clerk.do("DELETE FROM dbbeat_schedule")
        with pytest.raises(ScheduleError, match=f"{task_id} cannot.*its schedule was deleted"):
            schedules.replay(task_id)
        assert row(clerk, task_id)["state"] == "dead"


class TestReplayAll:
    def test_every_one_whose_schedule_is_there(
        self, clerk: Clerk, schedules: Schedules, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(history, "_AT_ONCE", 2)
        nightly, other = clerk.add(), clerk.add("other")
        for hour in range(5):
            clerk.dead(nightly, NOON + hour * HOUR)
        clerk.dead(other)
        gone = clerk.dead(uuid4())
        assert schedules.replay_all() == 6
        assert [letter.task_id for letter in schedules.dead()] == [gone]
        assert schedules.replay_all() == 0

    def test_of_one_schedule(self, clerk: Clerk, schedules: Schedules) -> None:
        kept = clerk.dead(clerk.add())
        clerk.dead(clerk.add("other"))
        assert schedules.replay_all(schedule="other") == 1
        assert [letter.task_id for letter in schedules.dead()] == [kept]
        with pytest.raises(NotFound, match="no schedule 'third'"):
            schedules.replay_all(schedule="third")
