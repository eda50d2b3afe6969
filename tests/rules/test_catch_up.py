"""What becomes of fire times that passed while nobody was dispatching."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from celery_dbbeat.rules.decision import NotSent, Stretch
from celery_dbbeat.rules.due import WALK_LIMIT, still_wanted
from celery_dbbeat.rules.plan import Plan, plan
from celery_dbbeat.rules.schedule import Cursor, Schedule

UTC = timezone.utc
NINE = datetime(2026, 3, 2, 9, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
ALL = Schedule(
    id=UUID(int=7),
    version=1,
    name="each minute",
    task="t",
    kind="interval",
    expression="60",
    start_at=NINE,
    catch_up="all",
    misfire_grace=None,
)


def minutes(first: int, last: int) -> list[datetime]:
    return [NINE + minute * MINUTE for minute in range(first, last + 1)]


def play(
    schedule: Schedule, now: datetime, cursor: Cursor | None = None, room: int = 1
) -> tuple[list[datetime], list[NotSent], Cursor]:
    """Plan until nothing is due and nothing waits for its turn; what was sent, and what not."""
    cursor = cursor or Cursor(NINE, NINE)
    sent: list[datetime] = []
    left: dict[datetime, NotSent] = {}
    while cursor.waits_since is not None or (cursor.due_at is not None and cursor.due_at <= now):
        turn = room if cursor.waits_since is not None else 0
        decided = plan(schedule, cursor, now, room=turn)
        assert len([one for one in decided.ticks if one.kind == "catch_up"]) <= turn
        sent += [one.nominal_at for one in decided.ticks]
        for one in decided.not_sent:
            if one.goes_on is None:
                left[one.first_at] = one
                continue
            row = left[one.goes_on.first_at]
            assert (row.last_at, row.state) == (one.goes_on.last_at, one.state)
            longer = replace(row, last_at=one.last_at, count=row.count + one.count)
            left[row.first_at] = longer
        assert decided.cursor != cursor, "it goes on"
        cursor = decided.cursor
    return sent, list(left.values()), cursor


class TestItsTurn:
    def test_what_is_late_by_more_than_a_minute_is_not_due_but_waits(self) -> None:
        daily = replace(ALL, expression="86400", catch_up="latest")
        now = NINE + 2 * MINUTE
        decided = plan(daily, Cursor(NINE, NINE), now)
        assert (decided.ticks, decided.not_sent) == ((), ())
        assert decided.cursor == Cursor(NINE, None, waits_for="turn", waits_since=now)
        (tick,) = plan(daily, decided.cursor, now + MINUTE, room=1).ticks
        assert (tick.kind, tick.due_at) == ("catch_up", NINE)

    def test_what_is_late_by_a_minute_was_merely_slow(self) -> None:
        daily = replace(ALL, expression="86400")
        (tick,) = plan(daily, Cursor(NINE, NINE), NINE + MINUTE).ticks
        assert tick.kind == "scheduled"

    def test_a_grace_that_ends_while_it_waits_counts(self) -> None:
        daily = replace(ALL, expression="86400", misfire_grace=HOUR)
        waiting = plan(daily, Cursor(NINE, NINE), NINE + 59 * MINUTE).cursor
        decided = plan(daily, waiting, NINE + 61 * MINUTE, room=1)
        assert decided.ticks == ()
        assert [one.state for one in decided.not_sent] == ["missed"]

    def test_a_newer_fire_time_that_comes_while_it_waits_takes_its_place(self) -> None:
        hourly = replace(ALL, expression="3600", catch_up="latest")
        waiting = plan(hourly, Cursor(NINE, NINE), NINE + 50 * MINUTE).cursor
        decided = plan(hourly, waiting, NINE + 62 * MINUTE, room=1)
        assert [one.nominal_at for one in decided.ticks] == [NINE + HOUR]
        assert [(one.state, one.count) for one in decided.not_sent] == [("coalesced", 1)]

    def test_after_a_late_one_the_next_has_to_see_that_it_is_out(self) -> None:
        daily = replace(ALL, expression="86400")
        decided = plan(daily, Cursor(NINE, NINE), NINE + HOUR, room=1)
        assert decided.cursor.due_at == NINE + timedelta(days=1)
        assert (decided.cursor.waits_for, decided.cursor.waits_since) == ("turn", None)
        following = plan(daily, decided.cursor, NINE + timedelta(days=1)).cursor
        assert following.plain


class TestAll:
    def test_each_is_sent_in_order(self) -> None:
        sent, left, cursor = play(ALL, NINE + 90 * MINUTE)
        assert sent == minutes(0, 90)
        assert left == []
        assert cursor.nominal_at == NINE + 91 * MINUTE

    def test_within_grace(self) -> None:
        sent, left, _ = play(replace(ALL, misfire_grace=HOUR), NINE + 90 * MINUTE)
        assert sent == minutes(30, 90)
        assert [(one.state, one.first_at, one.last_at, one.count) for one in left] == [
            ("missed", NINE, NINE + 29 * MINUTE, 30)
        ]

    def test_a_turn_with_more_room_sends_more(self) -> None:
        waiting = plan(ALL, Cursor(NINE, NINE), NINE + 90 * MINUTE).cursor
        decided = plan(ALL, waiting, NINE + 90 * MINUTE, room=7)
        assert [one.nominal_at for one in decided.ticks] == minutes(0, 6)
        assert decided.cursor.nominal_at == NINE + 7 * MINUTE
        assert decided.cursor.waits_since == NINE + 90 * MINUTE

    def test_no_more_than_max_runs(self) -> None:
        sent, _, cursor = play(replace(ALL, max_runs=5), NINE + 90 * MINUTE)
        assert sent == minutes(0, 4)
        assert cursor.due_at is None

    def test_of_what_is_late_no_more_than_the_limit_the_newest(self) -> None:
        sent, left, _ = play(replace(ALL, catch_up_limit=5), NINE + 90 * MINUTE)
        # The last one and the one before are late by no more than a minute.
        assert sent == minutes(84, 90)
        (one,) = left
        assert (one.state, one.first_at, one.count) == ("coalesced", NINE, 84)
        assert one.reason.startswith("catch_up_limit 5")

    def test_fewer_than_the_limit_are_all_sent(self) -> None:
        sent, left, _ = play(replace(ALL, catch_up_limit=89), NINE + 90 * MINUTE)
        assert (sent, left) == (minutes(0, 90), [])

    @pytest.mark.parametrize("kind", ["interval", "cron"])
    def test_the_limit_holds_for_more_than_one_walk(self, kind: str) -> None:
        schedule = replace(ALL, catch_up_limit=3, kind=kind)
        if kind == "cron":
            schedule = replace(schedule, expression="* * * * *")
        now = NINE + 3 * WALK_LIMIT * MINUTE
        sent, (left,), _ = play(schedule, now)
        assert sent == minutes(3 * WALK_LIMIT - 4, 3 * WALK_LIMIT)
        assert (left.first_at, left.count) == (NINE, 3 * WALK_LIMIT - 4)

    def test_the_limit_is_of_one_outage_and_not_of_each_turn(self) -> None:
        limited = replace(ALL, catch_up_limit=2)
        waiting = plan(limited, Cursor(NINE, NINE), NINE + 90 * MINUTE).cursor
        sent, left, _ = play(limited, NINE + 95 * MINUTE, waiting)
        assert (sent, left) == (minutes(87, 95), [])

    @settings(deadline=None)
    @given(
        every=st.integers(1, 900),
        grace=st.none() | st.integers(0, 7200),
        late=st.integers(0, 9000),
        limit=st.none() | st.integers(1, 50),
        jitter=st.sampled_from([0, 1, 30, 600]),
        room=st.integers(1, 40),
        catch_up=st.sampled_from(["latest", "all", "none"]),
    )
    def test_every_fire_time_once_and_in_order(
        self,
        every: int,
        grace: int | None,
        late: int,
        limit: int | None,
        jitter: int,
        room: int,
        catch_up: str,
    ) -> None:
        schedule = replace(
            ALL,
            expression=str(every),
            catch_up=catch_up,
            catch_up_limit=limit,
            jitter=timedelta(seconds=jitter),
            misfire_grace=None if grace is None else timedelta(seconds=grace),
        )
        now = NINE + timedelta(seconds=late + jitter)
        sent, left, cursor = play(schedule, now, room=room)
        assert sent == sorted(sent)
        told = sent + [at for one in left for at in members(schedule, one)]
        assert len(told) == len(set(told))
        assert cursor.nominal_at is not None
        expected = int((cursor.nominal_at - NINE).total_seconds()) // every
        assert len(told) == expected
        if catch_up == "all" and grace is None and limit is None:
            assert left == []


def members(schedule: Schedule, one: NotSent) -> Sequence[datetime]:
    every = timedelta(seconds=int(schedule.expression))
    found = [one.first_at + step * every for step in range(one.count)]
    assert found[-1] == one.last_at
    return found


class TestNone:
    def test_nothing_that_passed_is_sent(self) -> None:
        decided = plan(replace(ALL, catch_up="none"), Cursor(NINE, NINE), NINE + 90.5 * MINUTE)
        assert [one.nominal_at for one in decided.ticks] == [NINE + 90 * MINUTE]
        assert [(one.state, one.count) for one in decided.not_sent] == [("missed", 90)]

    def test_a_minute_is_the_longest_grace(self) -> None:
        daily = replace(ALL, expression="86400", catch_up="none")
        assert plan(daily, Cursor(NINE, NINE), NINE + MINUTE).ticks
        decided = plan(daily, Cursor(NINE, NINE), NINE + 1.1 * MINUTE, room=1)
        (one,) = decided.not_sent
        assert (one.state, one.reason) == ("missed", "later than 0:01:00, and catch_up is none")

    def test_a_shorter_grace_counts(self) -> None:
        daily = replace(
            ALL, expression="86400", catch_up="none", misfire_grace=timedelta(seconds=5)
        )
        (one,) = plan(daily, Cursor(NINE, NINE), NINE + timedelta(seconds=6)).not_sent
        assert one.reason == "later than misfire_grace 0:00:05"

    def test_what_is_not_wanted_late_is_not_sent_when_the_broker_is_back(self) -> None:
        daily = replace(ALL, expression="86400", catch_up="none")
        (tick,) = plan(daily, Cursor(NINE, NINE), NINE).ticks
        assert not still_wanted(daily, tick, NINE + 2 * MINUTE)


class TestOneRange:
    def test_a_long_absence_is_one_range_however_many_walks_it_takes(self) -> None:
        cron = replace(
            ALL, kind="cron", expression="* * * * *", catch_up="none", misfire_grace=None
        )
        _, left, _ = play(cron, NINE + 5 * WALK_LIMIT * MINUTE)
        assert {one.state for one in left} <= {"missed", "coalesced"}
        assert len([one for one in left if one.state == "missed"]) == 1

    def test_a_tick_ends_it(self) -> None:
        daily = replace(ALL, expression="86400", catch_up="none")
        day = timedelta(days=1)
        missed = plan(daily, Cursor(NINE, NINE), NINE + HOUR).cursor
        assert (missed.range_at, missed.range_until) == (NINE, NINE)
        again = plan(daily, missed, NINE + day + HOUR)
        (one,) = again.not_sent
        assert (one.first_at, one.count, one.goes_on) == (NINE + day, 1, Stretch(NINE, NINE))
        assert (again.cursor.range_at, again.cursor.range_until) == (NINE, NINE + day)
        sent = plan(daily, again.cursor, NINE + 2 * day)
        assert sent.ticks
        assert sent.cursor.plain


def changed(schedule: Schedule, at: datetime, **cursor: Any) -> Cursor:  # noqa: ANN401 - fields
    """The cursor as the database leaves it when the *when* is changed."""
    before = (
        f'{{"kind": "{schedule.kind}", "expression": "{schedule.expression}", '
        f'"timezone": "{schedule.timezone}", "exclude": "[]", '
        f'"start_at": "2026-03-02T09:00:00.000000+00:00", "end_at": null}}'
    )
    return replace(Cursor(NINE, at, replan_from=at, before=before), **cursor)


class TestEdits:
    HOURLY = replace(ALL, expression="3600", start_at=None)

    def test_what_had_passed_is_sent_by_the_when_it_passed_by(self) -> None:
        at = NINE + 5.5 * MINUTE
        sent, left, cursor = play(self.HOURLY, at + 3 * MINUTE, changed(ALL, at))
        assert (sent, left) == (minutes(0, 5), [])
        assert (cursor.nominal_at, cursor.before, cursor.replan_from) == (NINE + HOUR, None, None)

    def test_the_new_when_begins_after_the_change(self) -> None:
        at = NINE + 5.5 * MINUTE
        sent, _, _ = play(self.HOURLY, at + 3 * HOUR, changed(ALL, at))
        assert sent == [*minutes(0, 5), *(NINE + hour * HOUR for hour in (1, 2, 3))]

    def test_by_what_the_schedule_says_now(self) -> None:
        latest = replace(self.HOURLY, catch_up="latest")
        at = NINE + 50.5 * MINUTE
        sent, left, _ = play(latest, at + MINUTE, changed(ALL, at))
        assert sent == [NINE + 50 * MINUTE]
        assert [(one.state, one.count) for one in left] == [("coalesced", 50)]

    def test_one_whose_jitter_is_not_over_goes_when_it_is(self) -> None:
        jittery = replace(self.HOURLY, jitter=10 * MINUTE)
        at = NINE + timedelta(seconds=1)
        decided = plan(jittery, changed(ALL, at), at)
        assert (decided.ticks, decided.not_sent) == ((), ())
        assert decided.cursor.due_at is not None
        assert NINE < decided.cursor.due_at < NINE + 10 * MINUTE
        assert decided.cursor.replan_from == at
        sent, left, _ = play(jittery, decided.cursor.due_at, decided.cursor)
        assert (sent, left) == ([NINE], [])

    def test_the_end_of_the_old_when_is_not_the_end_of_the_schedule(self) -> None:
        at = NINE + 0.5 * MINUTE
        decided: Plan = plan(self.HOURLY, changed(ALL, at), at)
        assert decided.ends is None
