"""What becomes of a schedule whose cursor is due."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID, uuid5

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_dbbeat.rules import plan as plan_module
from celery_dbbeat.rules.plan import NotSent, Plan, plan, still_wanted
from celery_dbbeat.rules.schedule import Cursor, Schedule
from celery_dbbeat.rules.tick import due_at, task_id

UTC = timezone.utc
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
EVERY_MINUTE = Schedule(
    id=UUID(int=7), version=1, name="every minute", task="t", kind="interval", expression="60"
)


def at(nominal: datetime, **other: Any) -> Cursor:  # noqa: ANN401 - fields of a cursor
    return replace(Cursor(nominal, nominal), **other)


def covered(decided: Plan) -> int:
    """How many fire times the plan says something about."""
    return sum(one.count for one in decided.not_sent) + len(decided.ticks)


class TestOnTime:
    def test_one_fire_time_is_sent_and_the_cursor_moves_on(self) -> None:
        decided = plan(EVERY_MINUTE, at(NINE), NINE + timedelta(milliseconds=3))
        (tick,) = decided.ticks
        assert tick.nominal_at == NINE
        assert tick.kind == "scheduled"
        assert decided.cursor == Cursor(NINE + MINUTE, NINE + MINUTE, runs=1)
        assert decided.not_sent == ()

    def test_the_task_id_is_uuid5_of_schedule_and_nominal_time(self) -> None:
        decided = plan(EVERY_MINUTE, at(NINE), NINE)
        (tick,) = decided.ticks
        assert tick.task_id == uuid5(EVERY_MINUTE.id, "2026-03-02T09:00:00+00:00")

    def test_the_task_id_does_not_depend_on_the_zone_the_instant_is_told_in(self) -> None:
        elsewhere = NINE.astimezone(timezone(timedelta(hours=5, minutes=30)))
        assert task_id(EVERY_MINUTE.id, elsewhere) == task_id(EVERY_MINUTE.id, NINE)


class TestMisfire:
    def test_the_newest_within_grace_is_sent_and_the_others_have_a_reason(self) -> None:
        decided = plan(EVERY_MINUTE, at(NINE), NINE + 90 * MINUTE)
        missed, coalesced = decided.not_sent
        assert (missed.state, missed.first_at, missed.count) == ("missed", NINE, 30)
        assert missed.last_at == NINE + 29 * MINUTE
        assert (coalesced.state, coalesced.first_at) == ("coalesced", NINE + 30 * MINUTE)
        assert coalesced.last_at == NINE + 89 * MINUTE
        (tick,) = decided.ticks
        assert (tick.nominal_at, tick.kind) == (NINE + 90 * MINUTE, "scheduled")
        assert covered(decided) == 91

    def test_a_late_tick_is_a_catch_up(self) -> None:
        daily = replace(EVERY_MINUTE, expression="86400")
        decided = plan(daily, at(NINE), NINE + 30 * MINUTE, room=1)
        (tick,) = decided.ticks
        assert tick.kind == "catch_up"

    def test_later_than_grace_is_missed(self) -> None:
        daily = replace(EVERY_MINUTE, expression="86400")
        decided = plan(daily, at(NINE), NINE + timedelta(hours=2))
        assert not decided.ticks
        assert [one.state for one in decided.not_sent] == ["missed"]
        assert decided.cursor.runs == 0

    def test_without_grace_however_late_is_sent(self) -> None:
        patient = replace(EVERY_MINUTE, expression="86400", misfire_grace=None)
        decided = plan(patient, at(NINE), NINE + timedelta(hours=23), room=1)
        assert decided.ticks

    def test_the_exact_end_of_grace_is_still_sent(self) -> None:
        hourly = replace(EVERY_MINUTE, expression="86400", misfire_grace=timedelta(hours=1))
        end = NINE + timedelta(hours=1)
        assert plan(hourly, at(NINE), end, room=1).ticks
        assert plan(hourly, at(NINE), end + timedelta(microseconds=1), room=1).ticks == ()

    def test_a_long_absence_is_planned_in_pieces(self) -> None:
        cron = replace(EVERY_MINUTE, kind="cron", expression="* * * * *")
        now, cursor = NINE + timedelta(days=3), at(NINE)
        plans: list[Plan] = []
        while not plans or not plans[-1].ticks:
            plans.append(plan(cron, cursor, now))
            cursor = plans[-1].cursor
        assert len(plans) > 1
        assert sum(map(covered, plans)) == 3 * 24 * 60 + 1
        assert [tick.nominal_at for tick in plans[-1].ticks] == [now]

    @settings(deadline=None)
    @given(
        every=st.integers(min_value=1, max_value=900),
        grace=st.none() | st.integers(min_value=0, max_value=7200),
        late=st.integers(min_value=0, max_value=20_000),
        end=st.none() | st.integers(min_value=1, max_value=20_000),
    )
    def test_every_fire_time_is_sent_or_has_exactly_one_reason(
        self, every: int, grace: int | None, late: int, end: int | None
    ) -> None:
        schedule = replace(
            EVERY_MINUTE,
            expression=str(every),
            start_at=NINE,
            misfire_grace=None if grace is None else timedelta(seconds=grace),
            end_at=None if end is None else NINE + timedelta(seconds=end),
        )
        now = NINE + timedelta(seconds=late)
        expected = {
            NINE + timedelta(seconds=second)
            for second in range(0, min(late, late if end is None else end) + 1, every)
        }
        assert _told(schedule, now) == sorted(expected)


def _told(schedule: Schedule, now: datetime) -> list[datetime]:
    """All fire times that plans speak of until nothing is due, in order."""
    told: list[datetime] = []
    cursor = at(NINE)
    while cursor.due_at is not None and cursor.due_at <= now:
        decided = plan(schedule, cursor, now, room=1)
        for one in decided.not_sent:
            told += _members(schedule, one)
        for tick in decided.ticks:
            assert still_wanted(schedule, tick, now)
            told.append(tick.nominal_at)
        cursor = decided.cursor
    return told


def _members(schedule: Schedule, one: NotSent) -> list[datetime]:
    """The fire times that are new in a range: what it goes on with was told before."""
    members, last = [one.first_at], one.first_at
    while last < one.last_at:
        following = schedule.trigger.next(last)
        assert following is not None
        last = following
        members.append(last)
    assert len(members) >= one.count
    return members[-one.count :]


class TestPrompt:
    EVERY_SECOND = replace(EVERY_MINUTE, expression="1")

    def test_what_is_late_by_a_takeover_is_sent_one_by_one(self) -> None:
        decided = plan(self.EVERY_SECOND, at(NINE), NINE + timedelta(seconds=2.2))
        assert [tick.nominal_at for tick in decided.ticks] == [
            NINE + timedelta(seconds=second) for second in range(3)
        ]
        assert decided.not_sent == ()
        assert decided.cursor.nominal_at == NINE + timedelta(seconds=3)
        assert decided.cursor.runs == 3

    def test_what_is_later_than_that_is_coalesced(self) -> None:
        decided = plan(
            self.EVERY_SECOND, at(NINE), NINE + timedelta(seconds=60), timedelta(seconds=1)
        )
        (older,) = decided.not_sent
        assert (older.state, older.first_at, older.count) == ("coalesced", NINE, 59)
        assert len(decided.ticks) == 2

    def test_no_more_is_sent_than_max_runs_allows(self) -> None:
        twice = replace(self.EVERY_SECOND, max_runs=2)
        decided = plan(twice, at(NINE), NINE + timedelta(seconds=3))
        assert len(decided.ticks) == 2
        assert decided.ends == "finished"

    def test_an_unforeseen_error_of_a_trigger_makes_one_schedule_invalid(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: object) -> None:
            raise ZeroDivisionError("of course")

        monkeypatch.setattr(type(self.EVERY_SECOND.trigger), "next", broken)
        decided = plan(self.EVERY_SECOND, at(NINE), NINE)
        assert decided.ends == "invalid"
        assert decided.reason is not None
        assert "ZeroDivisionError: of course" in decided.reason


class TestNewAndChanged:
    def test_a_new_schedule_starts_at_its_next_future_fire_time(self) -> None:
        new = Cursor(None, NINE, replan_from=NINE)
        decided = plan(EVERY_MINUTE, new, NINE + timedelta(seconds=1))
        assert not decided.ticks
        assert decided.cursor == Cursor(NINE + MINUTE, NINE + MINUTE)

    def test_an_edit_before_the_fire_time_forgets_the_old_one(self) -> None:
        edited = at(NINE + 5 * MINUTE, replan_from=NINE + timedelta(seconds=30))
        decided = plan(EVERY_MINUTE, edited, NINE + timedelta(seconds=31))
        assert (decided.ticks, decided.not_sent) == ((), ())
        assert decided.cursor.nominal_at == NINE + MINUTE

    def test_an_edit_after_the_fire_time_still_sends_it(self) -> None:
        edited = at(NINE, replan_from=NINE + timedelta(milliseconds=5))
        decided = plan(EVERY_MINUTE, edited, NINE + timedelta(milliseconds=9))
        (tick,) = decided.ticks
        assert tick.nominal_at == NINE
        assert decided.cursor.nominal_at == NINE + MINUTE

    def test_an_edit_long_ago_coalesces_the_old_fire_time(self) -> None:
        edited = at(NINE, replan_from=NINE + timedelta(seconds=1))
        decided = plan(EVERY_MINUTE, edited, NINE + 10 * MINUTE)
        assert [one.state for one in decided.not_sent] == ["coalesced"]
        assert decided.cursor.nominal_at == NINE + MINUTE

    def test_resuming_fires_nothing_and_explains_what_passed(self) -> None:
        resumed = at(
            NINE, due_at=NINE, held_at=NINE - MINUTE, replan_from=NINE + timedelta(minutes=3.5)
        )
        decided = plan(EVERY_MINUTE, resumed, NINE + timedelta(minutes=3.6))
        assert not decided.ticks
        (paused,) = decided.not_sent
        assert (paused.state, paused.first_at, paused.count) == ("paused", NINE, 4)
        assert decided.cursor.nominal_at == decided.cursor.due_at == NINE + 4 * MINUTE
        assert (decided.cursor.replan_from, decided.cursor.held_at) == (None, None)

    def test_a_long_pause_is_explained_in_pieces(self) -> None:
        since = NINE + timedelta(minutes=2 * plan_module.WALK_LIMIT)
        cron = replace(EVERY_MINUTE, kind="cron", expression="* * * * *")
        cursor = at(NINE, held_at=NINE, replan_from=since)
        counts = []
        while cursor.replan_from is not None:
            decided = plan(cron, cursor, since)
            counts += [one.count for one in decided.not_sent]
            cursor = decided.cursor
        assert sum(counts) == 2 * plan_module.WALK_LIMIT + 1


class TestEnds:
    def test_once_is_finished_after_its_tick(self) -> None:
        once = replace(EVERY_MINUTE, kind="once", expression=NINE.isoformat())
        decided = plan(once, at(NINE), NINE)
        assert decided.ticks
        assert (decided.ends, decided.cursor.due_at) == ("finished", None)

    def test_once_in_the_past_is_finished_and_not_sent(self) -> None:
        once = replace(EVERY_MINUTE, kind="once", expression=NINE.isoformat())
        decided = plan(once, Cursor(None, NINE, replan_from=NINE + MINUTE), NINE + MINUTE)
        assert (decided.ticks, decided.ends) == ((), "finished")

    def test_max_runs_counts_what_is_sent(self) -> None:
        twice = replace(EVERY_MINUTE, max_runs=2)
        first = plan(twice, at(NINE), NINE)
        second = plan(twice, first.cursor, NINE + MINUTE)
        assert (first.ends, second.ends) == (None, "finished")
        assert second.reason == "max_runs 2 reached"

    def test_no_fire_time_after_the_end(self) -> None:
        ending = replace(EVERY_MINUTE, end_at=NINE + timedelta(seconds=90))
        first = plan(ending, at(NINE), NINE)
        last = plan(ending, first.cursor, NINE + MINUTE)
        assert last.ticks
        assert (first.ends, last.ends) == (None, "finished")

    def test_nothing_fires_before_the_start(self) -> None:
        later = replace(
            EVERY_MINUTE, kind="cron", expression="* * * * *", start_at=NINE + 90 * MINUTE
        )
        decided = plan(later, Cursor(None, NINE, replan_from=NINE), NINE)
        assert decided.cursor.nominal_at == NINE + 90 * MINUTE

    @pytest.mark.parametrize(
        "bad",
        [
            {"kind": "cron", "expression": "61 * * * *"},
            {"kind": "cron", "expression": "0 0 30 2 *"},
            {"timezone": "Europe/Atlantis"},
            {"expression": "0"},
            {"kind": "weekly"},
        ],
    )
    def test_what_cannot_be_understood_is_invalid_with_the_reason(
        self, bad: dict[str, Any]
    ) -> None:
        decided = plan(replace(EVERY_MINUTE, **bad), at(NINE), NINE)
        assert decided.ends == "invalid"
        assert not decided.ticks
        assert decided.reason
        assert any(value in decided.reason for value in bad.values())


class TestJitter:
    JITTERY = replace(EVERY_MINUTE, jitter=timedelta(seconds=30))

    def test_it_is_the_same_each_time_and_below_its_length(self) -> None:
        delays = set()
        for minute in range(200):
            nominal = NINE + minute * MINUTE
            identity = task_id(self.JITTERY.id, nominal)
            due = due_at(identity, nominal, self.JITTERY.jitter)
            assert due == due_at(identity, nominal, self.JITTERY.jitter)
            assert nominal <= due < nominal + self.JITTERY.jitter
            delays.add(due - nominal)
        assert len(delays) > 190

    def test_the_cursor_is_due_at_the_jittered_time(self) -> None:
        decided = plan(self.JITTERY, at(NINE), NINE)
        assert decided.cursor.nominal_at == NINE + MINUTE
        assert decided.cursor.due_at is not None
        assert decided.cursor.due_at > NINE + MINUTE

    def test_jitter_longer_than_the_interval_loses_nothing_and_coalesces_nothing(self) -> None:
        jittery = replace(EVERY_MINUTE, expression="10", jitter=timedelta(seconds=60))
        cursor = at(NINE)
        sent: list[datetime] = []
        while len(sent) < 20:
            assert cursor.due_at is not None
            decided = plan(jittery, cursor, cursor.due_at)
            assert decided.not_sent == ()
            (tick,) = decided.ticks
            sent.append(tick.nominal_at)
            cursor = decided.cursor
        assert sent == [NINE + timedelta(seconds=10 * place) for place in range(20)]


class TestOverlap:
    SKIPPING = replace(EVERY_MINUTE, overlap="skip")

    def test_without_the_guard_it_is_invalid_and_says_what_to_do(self) -> None:
        decided = plan(self.SKIPPING, at(NINE), NINE)
        assert (decided.ends, decided.ticks) == ("invalid", ())
        assert decided.reason is not None
        assert decided.reason.startswith(
            "overlap 'skip' needs the worker guard, celery_dbbeat.setup(app)"
        )

    def test_with_the_guard_it_is_fine(self) -> None:
        assert plan(self.SKIPPING, at(NINE), NINE, guarded=True).ticks


def test_what_is_sent_again_is_wanted_however_late() -> None:
    (tick,) = plan(EVERY_MINUTE, at(NINE), NINE).ticks
    late = NINE + timedelta(days=1)
    assert not still_wanted(EVERY_MINUTE, tick, late)
    assert still_wanted(EVERY_MINUTE, replace(tick, attempt=2), late)
