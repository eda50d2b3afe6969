"""What becomes of fire times past that somebody ordered, and of the ranges that they stood in."""

from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_dbbeat.rules.backfill import (
    Carved,
    Order,
    Past,
    Stretch,
    budget,
    carve,
    decide,
    paced,
    standing,
    stretch_of,
)
from celery_dbbeat.rules.failures import Ended, why_pause
from celery_dbbeat.rules.interval import Interval
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.tick import task_id

NOON = datetime(2026, 1, 10, 12, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
INSTANT = timedelta(microseconds=1)
ONE = UUID(int=1)
HOURLY = Schedule(ONE, 1, "hourly", "t", "interval", "3600")


def at(hour: int) -> datetime:
    return NOON + hour * HOUR


def past(state: str, hour: int = 0, **more: object) -> Past:
    return Past(at(hour), task_id(ONE, at(hour)), state, NOON, **more)  # type: ignore[arg-type]


def missed(first: int, last: int) -> Past:
    return past("missed", first, last_at=at(last), count=last - first + 1, reason="late")


def stretch(first: int, last: int) -> Stretch:
    return Stretch(tuple(at(hour) for hour in range(first, last + 1)), at(last + 1))


class TestFireTimes:
    def test_both_ends_are_included(self) -> None:
        assert stretch_of(HOURLY, at(0), at(2), 10) == Stretch((at(0), at(1), at(2)), at(3))

    def test_up_to_a_limit(self) -> None:
        assert stretch_of(HOURLY, at(0), at(9), 2) == Stretch((at(0), at(1)), at(2))

    def test_none_in_between(self) -> None:
        assert stretch_of(HOURLY, at(0) + SECOND, at(1) - SECOND, 9) == Stretch((), at(1))

    def test_within_the_bounds_of_the_schedule(self) -> None:
        bounded = Schedule(ONE, 1, "a", "t", "interval", "3600", start_at=at(2), end_at=at(3))
        assert stretch_of(bounded, at(0), at(9), 10).nominals == (at(2), at(3))

    def test_the_first_so_many(self) -> None:
        assert stretch(0, 4).up_to(2) == Stretch((at(0), at(1)), at(2))
        assert stretch(0, 4).up_to(5) == stretch(0, 4)
        assert stretch(0, 4).up_to(0) == Stretch((), at(0))


STANDINGS = [
    (None, "unsent"),
    (past("missed"), "missed"),
    (past("paused"), "paused"),
    (past("recorded"), "waiting"),
    (past("sent", awaited=True), "waiting"),
    (past("sent", awaited=True, status="running"), "waiting"),
    (past("sent", awaited=True, status="failed"), "waiting"),
    (past("sent", awaited=True, status="done"), "done"),
    (past("sent", outcome="done"), "done"),
    (past("missed", status="done"), "done"),
    (past("dead", status="done"), "done"),
    (past("dead", outcome="failed"), "failed"),
    (past("dead"), "failed"),
    (past("sent"), "sent"),
]


@pytest.mark.parametrize(("row", "word"), STANDINGS)
def test_what_is_known_in_one_word(row: Past | None, word: str) -> None:
    assert standing(row) == word


class TestDecide:
    def test_the_id_is_that_of_the_tick_but_for_what_is_done_again(self) -> None:
        rows = {at(0): past("sent", 0, outcome="done"), at(1): past("dead", 1)}
        first, second, third = decide(Order(ONE, 7, "all"), stretch(0, 2), rows)
        assert (first.action, second.action, third.action) == ("anew", "again", "send")
        assert first.task_id != task_id(ONE, at(0))
        assert second.task_id == task_id(ONE, at(1))
        # The same for every leader, another for another backfill.
        (again, *_) = decide(Order(ONE, 7, "all"), stretch(0, 2), rows)
        (other, *_) = decide(Order(ONE, 8, "all"), stretch(0, 2), rows)
        assert again.task_id == first.task_id != other.task_id

    def test_a_range_covers_those_without_a_row_of_their_own(self) -> None:
        rows = {at(1): missed(1, 3), at(2): past("sent", 2, outcome="done")}
        words = [one.standing for one in decide(Order(ONE, 1), stretch(0, 5), rows)]
        assert words == ["unsent", "missed", "done", "missed", "unsent", "unsent"]

    def test_one_that_began_before_does_too(self) -> None:
        words = [one.standing for one in decide(Order(ONE, 1), stretch(0, 3), {}, missed(-5, 1))]
        assert words == ["missed", "missed", "unsent", "unsent"]


class TestCarve:
    @given(st.data())
    def test_each_fire_time_stays_in_one_row(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(0, 20))
        last = data.draw(st.integers(first + 1, 30))
        begin = data.draw(st.integers(0, last))
        end = data.draw(st.integers(max(begin, first), 40))
        whole, taken = missed(first, last), stretch(begin, end)
        before = None
        if begin > first:
            before = Interval(HOUR).walk(whole.nominal_at, at(begin) - INSTANT, whole.count)
        carved = carve(whole, taken, before)
        assert carved is not None
        inside = min(last, end) - max(first, begin) + 1
        front = 0 if carved.front is None else carved.front.count
        assert front + inside + carved.rest == whole.count
        assert (carved.rest_at is None) == (carved.rest == 0)
        if carved.rest_at is not None:
            assert carved.rest_at == at(end + 1)
        if carved.front is not None:
            assert carved.front.last == at(begin - 1)

    @pytest.mark.parametrize(
        "whole",
        [
            past("missed", 0, last_at=at(3), count=2),
            past("missed", 0, last_at=at(3), count=99),
            past("missed", 0, last_at=at(9), count=4),
            past("missed", 0, last_at=at(3) + SECOND, count=4),
        ],
    )
    def test_one_of_other_fire_times_does_not_fit(self, whole: Past) -> None:
        assert carve(whole, stretch(0, 3)) is None

    def test_one_that_begins_elsewhere_does_not_fit(self) -> None:
        other = Interval(HOUR, NOON + SECOND).walk(at(-3) + SECOND, at(0) - INSTANT, 9)
        assert carve(missed(-3, 3), stretch(0, 1), other) is None

    def test_nothing_is_left_of_one_that_is_taken_whole(self) -> None:
        assert carve(missed(1, 2), stretch(0, 5)) == Carved(missed(1, 2), None, None, 0)


class TestRate:
    def test_without_one_any_number(self) -> None:
        assert budget(NOON, None, None) == (None, NOON)

    def test_never_more_than_a_second_at_once(self) -> None:
        assert budget(NOON, None, 5)[0] == 5
        assert budget(NOON, NOON - HOUR, 5)[0] == 5
        assert budget(NOON, NOON - SECOND / 2, 5)[0] == 2
        assert budget(NOON, NOON, 5)[0] == 0

    def test_a_slow_one_waits_for_its_time(self) -> None:
        assert budget(NOON, NOON - 9 * SECOND, 0.1)[0] == 0
        assert budget(NOON, NOON - 10 * SECOND, 0.1)[0] == 1
        assert budget(NOON, NOON - HOUR, 0.1)[0] == 1

    @given(st.floats(0.01, 1000), st.lists(st.floats(0, 5), min_size=1, max_size=50))
    def test_over_time_it_holds(self, rate: float, steps: list[float]) -> None:
        now, paced_at, sent = NOON, None, 0
        for step in steps:
            now += SECOND * step
            allowed, since = budget(now, paced_at, rate)
            assert allowed is not None
            sent += allowed
            paced_at = paced(since, allowed, rate)
        seconds = (now - NOON).total_seconds()
        assert sent <= rate * (seconds + max(1, 1 / rate)) + 1


class TestWhyPause:
    def test_so_many_in_a_row(self) -> None:
        newest = [Ended(failed=True, reason="ValueError: no"), Ended(failed=True)]
        assert why_pause(newest, 3) is None
        assert why_pause([*newest, Ended(failed=False)], 3) is None
        assert why_pause([*newest, Ended(failed=True)], 3) == (
            "3 ticks in a row failed, the last one: ValueError: no"
        )

    def test_the_first(self) -> None:
        assert why_pause([Ended(failed=True)], 1) == "1 tick failed: no reason is known"
