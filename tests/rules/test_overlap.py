"""What becomes of a tick while earlier ones are not done."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from celery_dbbeat.rules.decision import Plan, Stretch
from celery_dbbeat.rules.overlap import Running
from celery_dbbeat.rules.plan import plan
from celery_dbbeat.rules.schedule import Cursor, Schedule

NINE = datetime(2026, 3, 2, 9, tzinfo=timezone.utc)
MINUTE = timedelta(minutes=1)
SCHEDULE = Schedule(id=UUID(int=7), version=1, name="n", task="t", kind="interval", expression="60")
FIRST = Running(NINE - 2 * MINUTE, UUID(int=1), begun=True)
SECOND = Running(NINE - MINUTE, UUID(int=2))


def decide(
    overlap: str,
    *running: Running,
    cursor: Cursor | None = None,
    now: datetime = NINE,
    room: int = 0,
    **other: Any,  # noqa: ANN401 - fields of a schedule
) -> Plan:
    schedule = replace(SCHEDULE, overlap=overlap, **other)
    return plan(
        schedule, cursor or Cursor(NINE, NINE), now, guarded=True, running=running, room=room
    )


def waiting(since: datetime = NINE) -> Cursor:
    """Waits since its fire time came, and a run has ended just now."""
    return Cursor(NINE, since, waits_for="run", waits_since=since)


def sent(decided: Plan) -> list[datetime]:
    return [tick.nominal_at for tick in decided.ticks]


@pytest.mark.parametrize(
    "overlap", ["allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other"]
)
def test_with_nothing_running_it_is_sent(overlap: str) -> None:
    decided = decide(overlap)
    assert sent(decided) == [NINE]
    assert (decided.stops, decided.not_sent, decided.cursor.plain) == ((), (), True)


@pytest.mark.parametrize("overlap", ["skip", "buffer_one", "buffer_all", "cancel_other"])
def test_as_many_at_once_as_max_concurrent_says(overlap: str) -> None:
    assert sent(decide(overlap, FIRST, max_concurrent=2)) == [NINE]
    assert sent(decide(overlap, FIRST, SECOND, max_concurrent=2)) == []


class TestSkip:
    def test_it_is_not_sent_and_says_why(self) -> None:
        decided = decide("skip", FIRST)
        (one,) = decided.not_sent
        assert (one.state, one.reason) == ("overlapped", "an earlier tick was not done")
        assert decided.cursor.nominal_at == NINE + MINUTE
        assert decided.cursor.runs == 0

    def test_those_of_one_long_run_are_one_range(self) -> None:
        first = decide("skip", FIRST)
        second = decide("skip", FIRST, cursor=first.cursor, now=NINE + MINUTE)
        (one,) = second.not_sent
        assert (one.first_at, one.count) == (NINE + MINUTE, 1)
        assert one.goes_on == Stretch(NINE, NINE)

    def test_what_would_be_skipped_needs_no_turn(self) -> None:
        decided = decide(
            "skip", FIRST, now=NINE + timedelta(minutes=1, seconds=30), expression="3600"
        )
        assert [one.state for one in decided.not_sent] == ["overlapped"]


class TestBufferOne:
    def test_it_waits(self) -> None:
        decided = decide("buffer_one", FIRST)
        assert (sent(decided), decided.not_sent) == ([], ())
        assert decided.cursor == Cursor(NINE, None, waits_for="run", waits_since=NINE)

    def test_when_the_run_has_ended_it_goes_and_those_that_came_meanwhile_do_not(self) -> None:
        decided = decide("buffer_one", cursor=waiting(), now=NINE + 5.5 * MINUTE)
        (tick,) = decided.ticks
        assert (tick.nominal_at, tick.kind) == (NINE, "scheduled")
        assert tick.due_at == NINE + 5.5 * MINUTE
        (one,) = decided.not_sent
        assert (one.state, one.count) == ("overlapped", 5)
        assert decided.cursor.nominal_at == NINE + 6 * MINUTE
        assert decided.cursor.waits_for is None

    def test_waiting_is_no_lateness(self) -> None:
        decided = decide(
            "buffer_one", cursor=waiting(), now=NINE + 90 * MINUTE, misfire_grace=MINUTE
        )
        assert sent(decided) == [NINE]

    def test_it_goes_on_waiting_if_somebody_else_got_in_between(self) -> None:
        decided = decide("buffer_one", FIRST, cursor=waiting(), now=NINE + 5.5 * MINUTE)
        assert decided.cursor == Cursor(NINE, None, waits_for="run", waits_since=NINE)
        assert decided.not_sent == ()


class TestBufferAll:
    def test_all_go_in_order_as_runs_end(self) -> None:
        cursor, went = waiting(), []
        now = NINE + 3.5 * MINUTE
        for _ in range(4):
            decided = decide("buffer_all", cursor=cursor, now=now)
            went += sent(decided)
            assert decided.not_sent == ()
            cursor = replace(decided.cursor, due_at=now)
        assert went == [NINE + step * MINUTE for step in range(4)]
        assert cursor.waits_for is None

    def test_as_many_as_fit_go_at_once(self) -> None:
        decided = decide(
            "buffer_all", SECOND, cursor=waiting(), now=NINE + 3.5 * MINUTE, max_concurrent=3
        )
        assert sent(decided) == [NINE, NINE + MINUTE]
        assert decided.cursor.nominal_at == NINE + 2 * MINUTE
        assert decided.cursor.waits_since == NINE

    def test_what_was_late_before_it_waited_needs_its_turn(self) -> None:
        since = NINE + 10 * MINUTE
        asked: dict[str, Any] = {"catch_up": "all", "misfire_grace": None}
        decided = decide("buffer_all", cursor=waiting(since), now=since + MINUTE, **asked)
        assert (sent(decided), decided.cursor.waits_for) == ([], "turn")
        decided = decide("buffer_all", cursor=decided.cursor, now=since + MINUTE, room=9, **asked)
        assert [tick.kind for tick in decided.ticks] == ["catch_up"]
        assert decided.cursor.waits_for == "run"


class TestCancelOther:
    def test_the_oldest_is_asked_to_end_and_it_waits_for_that(self) -> None:
        decided = decide("cancel_other", SECOND, FIRST, max_concurrent=2)
        (stop,) = decided.stops
        assert (stop.tick, stop.terminate) == (FIRST, False)
        assert stop.reason == "cancel_other for the fire time 2026-03-02T09:00:00+00:00"
        assert decided.cursor.waits_for == "run"

    def test_it_is_asked_once(self) -> None:
        asked = replace(FIRST, asked=True)
        decided = decide("cancel_other", asked, cursor=waiting())
        assert (decided.stops, decided.cursor.waits_for) == ((), "run")

    def test_the_newest_goes_when_the_run_has_ended(self) -> None:
        decided = decide("cancel_other", cursor=waiting(), now=NINE + 2.5 * MINUTE)
        assert sent(decided) == [NINE + 2 * MINUTE]
        (one,) = decided.not_sent
        assert (one.state, one.count) == ("overlapped", 2)


class TestTerminateOther:
    def test_the_oldest_is_ended_and_it_goes_at_once(self) -> None:
        decided = decide("terminate_other", FIRST, SECOND, max_concurrent=2)
        (stop,) = decided.stops
        assert (stop.tick, stop.terminate) == (FIRST, True)
        assert sent(decided) == [NINE]

    def test_what_was_ended_before_does_not_count(self) -> None:
        asked = replace(FIRST, asked=True)
        decided = decide("terminate_other", asked, SECOND, max_concurrent=2)
        assert (decided.stops, sent(decided)) == ((), [NINE])

    def test_nothing_is_ended_for_one_whose_turn_has_not_come(self) -> None:
        late = NINE + 30 * MINUTE
        decided = decide("terminate_other", FIRST, now=late, expression="86400")
        assert (decided.stops, decided.cursor.waits_for) == ((), "turn")


class TestEdits:
    def test_to_allow_lets_what_waits_go_by_what_it_says_of_catching_up(self) -> None:
        decided = decide("allow", FIRST, cursor=waiting(), now=NINE + 2.5 * MINUTE)
        assert sent(decided) == [NINE + 2 * MINUTE]
        assert [(one.state, one.count) for one in decided.not_sent] == [("coalesced", 2)]

    def test_to_skip_does_not_send_it_while_the_run_goes_on(self) -> None:
        decided = decide("skip", FIRST, cursor=waiting(), now=NINE + 0.5 * MINUTE)
        assert [one.state for one in decided.not_sent] == ["overlapped"]
