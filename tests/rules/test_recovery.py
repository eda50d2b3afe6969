"""What becomes of a tick that was sent and is not known to have ended."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery_dbbeat.rules.recovery import (
    EXPIRY_MARGIN,
    FORGET,
    WAIT,
    Limits,
    Open,
    Queue,
    Standing,
    Verdict,
    back_off,
    judge,
    overdue,
    standing,
    suspicious,
)

NOW = datetime(2026, 3, 2, 9, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

SENT = NOW - 60 * SECOND
UNTAKEN = Open(attempt=1, losses=0, due_at=SENT, claimed_at=SENT, sent_at=SENT)
RUNNING = replace(UNTAKEN, status="running", run_attempt=1, lease_until=NOW + SECOND)
LOST = replace(RUNNING, lease_until=NOW - SECOND)
FAILED = replace(
    RUNNING, status="failed", lease_until=NOW - SECOND, ended_at=NOW - SECOND, error="oh"
)
LIMITS = Limits(max_attempts=3, resend_after=30 * SECOND)
EMPTY = Queue(guarded=True, empty=True)
FULL = Queue(guarded=True, empty=False)
UNREAD = Queue(guarded=False)

seconds = st.integers(min_value=-10_000, max_value=10_000).map(lambda n: n * SECOND)
opens = st.builds(
    Open,
    attempt=st.integers(1, 4),
    losses=st.integers(0, 5),
    due_at=seconds.map(lambda ago: NOW + ago),
    claimed_at=seconds.map(lambda ago: NOW + ago),
    sent_at=seconds.map(lambda ago: NOW + ago),
    status=st.sampled_from([None, "running", "retry", "released", "failed", "done"]),
    run_attempt=st.integers(0, 5),
    lease_until=st.none() | seconds.map(lambda ago: NOW + ago),
    ended_at=st.none() | seconds.map(lambda ago: NOW + ago),
    error=st.none() | st.just("oh"),
)
limits = st.builds(
    Limits,
    max_attempts=st.integers(1, 4),
    resend_after=st.integers(1, 100).map(lambda n: n * SECOND),
    own_resend_after=st.booleans(),
    on_failure=st.sampled_from(["dead", "retry"]),
    misfire_grace=st.none() | st.integers(0, 9000).map(lambda n: n * SECOND),
    expires_at=st.none() | seconds.map(lambda ago: NOW + ago),
    not_before=st.none() | seconds.map(lambda ago: NOW + ago),
)
queues = st.builds(
    Queue,
    guarded=st.booleans(),
    deserted=st.booleans(),
    empty=st.sampled_from([None, True, False]),
    overtaken=st.booleans(),
)


class TestWhereItStands:
    @pytest.mark.parametrize("status", ["running", "retry", "released"])
    def test_a_lease_that_has_not_run_out_is_a_run(self, status: str) -> None:
        assert standing(replace(RUNNING, status=status), NOW) is Standing.RUNNING
        assert standing(replace(LOST, status=status), NOW) is Standing.LOST

    def test_a_lease_that_ran_out_before_the_last_sending_says_nothing_of_it(self) -> None:
        again = replace(LOST, attempt=2, claimed_at=NOW)
        assert standing(again, NOW) is Standing.UNTAKEN

    def test_a_failure_counts_for_the_attempt_that_was_sent(self) -> None:
        assert standing(FAILED, NOW) is Standing.FAILED
        assert standing(replace(FAILED, attempt=2), NOW) is Standing.UNTAKEN
        # Somebody took it over from a lost run: the attempt grew on the worker's side.
        assert standing(replace(FAILED, run_attempt=2), NOW) is Standing.FAILED

    def test_done_is_done_by_whichever_attempt(self) -> None:
        done = replace(RUNNING, status="done", attempt=3, run_attempt=1)
        assert standing(done, NOW) is Standing.ENDED_WELL


class TestFirstFilter:
    @given(tick=opens, limit=limits, queue=queues)
    def test_whatever_is_not_left_waiting_was_suspicious(
        self, tick: Open, limit: Limits, queue: Queue
    ) -> None:
        if tick.status is None:
            tick = replace(tick, lease_until=None)
        if judge(tick, limit, queue, NOW) != WAIT and limit.expires_at is None:
            assert suspicious(tick.status, tick.lease_until, tick.claimed_at, NOW, SECOND)

    def test_what_runs_or_was_just_sent_or_is_done_is_not(self) -> None:
        assert not suspicious("running", NOW + SECOND, SENT, NOW, SECOND)
        assert not suspicious(None, None, NOW - SECOND / 2, NOW, SECOND)
        assert not suspicious("running", NOW - SECOND, NOW - SECOND / 2, NOW, SECOND)
        assert not suspicious("done", NOW - SECOND, SENT, NOW, SECOND)


class TestLost:
    def test_it_is_sent_again_at_once(self) -> None:
        assert judge(LOST, LIMITS, UNREAD, NOW).action == "resend"

    def test_until_it_was_begun_max_attempts_times(self) -> None:
        assert judge(replace(LOST, losses=1), LIMITS, UNREAD, NOW).action == "resend"
        last = judge(replace(LOST, losses=2), LIMITS, UNREAD, NOW)
        assert last == Verdict("bury", "its worker was lost; sent 3 times, max_attempts is 3")

    def test_with_one_attempt_it_is_dead(self) -> None:
        only = judge(LOST, replace(LIMITS, max_attempts=1), UNREAD, NOW)
        assert only == Verdict("bury", "its worker was lost; sent once, max_attempts is 1")

    def test_lateness_does_not_matter_it_had_begun_in_time(self) -> None:
        late = replace(LOST, due_at=NOW - DAY)
        assert judge(late, replace(LIMITS, misfire_grace=SECOND), EMPTY, NOW).action == "resend"

    def test_after_its_expires_it_is_dead(self) -> None:
        expired = judge(LOST, replace(LIMITS, expires_at=NOW), EMPTY, NOW)
        assert expired == Verdict("bury", "its worker was lost, and its expires has passed since")


class TestItsOwnRetry:
    WAITS = replace(LOST, status="retry", lease_until=NOW - SECOND)

    def test_it_is_looked_for_like_what_was_never_taken(self) -> None:
        assert overdue(self.WAITS, LIMITS, NOW)
        assert judge(self.WAITS, LIMITS, FULL, NOW) == WAIT
        assert judge(self.WAITS, LIMITS, UNREAD, NOW) == WAIT
        for gone in (EMPTY, replace(FULL, overtaken=True), replace(EMPTY, empty=None)):
            verdict = judge(self.WAITS, LIMITS, gone, NOW)
            assert verdict == Verdict("resend", "no worker took its retry")

    def test_it_is_not_given_up_while_a_worker_holds_messages(self) -> None:
        last = replace(self.WAITS, losses=2)
        assert judge(last, LIMITS, replace(EMPTY, held=True), NOW) == WAIT
        assert judge(last, LIMITS, EMPTY, NOW).action == "bury"

    def test_its_lateness_does_not_matter_it_had_begun_in_time(self) -> None:
        late = replace(self.WAITS, due_at=NOW - DAY)
        assert judge(late, replace(LIMITS, misfire_grace=SECOND), EMPTY, NOW).action == "resend"

    def test_until_it_is_due_it_is_left_alone(self) -> None:
        due_later = replace(self.WAITS, lease_until=NOW + HOUR)
        assert not overdue(due_later, LIMITS, NOW)
        assert judge(due_later, LIMITS, EMPTY, NOW) == WAIT


class TestFailed:
    RETRY = replace(LIMITS, on_failure="retry")

    def test_it_is_dead_with_the_error(self) -> None:
        assert judge(FAILED, LIMITS, UNREAD, NOW) == Verdict("bury", "oh", failed=True)

    def test_without_an_error_it_has_a_reason_all_the_same(self) -> None:
        assert judge(replace(FAILED, error=None), LIMITS, UNREAD, NOW).reason

    @pytest.mark.parametrize(("losses", "wait"), [(0, 10), (1, 20)])
    def test_to_be_retried_it_rests_first(self, losses: int, wait: int) -> None:
        failed = replace(FAILED, losses=losses, ended_at=NOW - wait * SECOND + SECOND)
        assert judge(failed, self.RETRY, UNREAD, NOW) == WAIT
        assert judge(failed, self.RETRY, UNREAD, NOW + SECOND).action == "resend"

    def test_after_max_attempts_it_is_dead_with_the_error(self) -> None:
        failed = replace(FAILED, losses=2)
        assert judge(failed, self.RETRY, UNREAD, NOW) == Verdict("bury", "oh", failed=True)

    def test_after_its_expires_it_is_dead_with_the_error_and_that(self) -> None:
        expired = replace(self.RETRY, expires_at=NOW)
        verdict = judge(FAILED, expired, UNREAD, NOW + HOUR)
        assert (verdict.action, verdict.failed) == ("bury", True)
        assert verdict.reason == "oh; and its expires has passed since"

    def test_the_rest_doubles_up_to_an_hour(self) -> None:
        assert [back_off(n) for n in range(4)] == [n * SECOND for n in (10, 20, 40, 80)]
        assert back_off(9) == back_off(30_000) == HOUR


class TestUntaken:
    @pytest.mark.parametrize("losses", [0, 1, 2])
    def test_four_times_as_long_after_each_time(self, losses: int) -> None:
        patience = 30 * 4**losses * SECOND
        tick = replace(UNTAKEN, losses=losses, claimed_at=NOW - patience)
        many = replace(LIMITS, max_attempts=10)
        assert judge(tick, many, EMPTY, NOW) == WAIT
        assert not overdue(tick, many, NOW)
        assert judge(tick, many, EMPTY, NOW + SECOND).action == "resend"
        assert overdue(tick, many, NOW + SECOND)

    @pytest.mark.parametrize(
        ("own", "empty", "overtaken"),
        list(product([False, True], [None, True, False], [False, True])),
    )
    def test_what_may_be_waiting_waits(
        self,
        own: bool,  # noqa: FBT001 - one of the cases
        empty: bool | None,  # noqa: FBT001 - one of the cases
        overtaken: bool,  # noqa: FBT001 - one of the cases
    ) -> None:
        limit = replace(LIMITS, own_resend_after=own)
        queue = Queue(guarded=True, empty=empty, overtaken=overtaken)
        waits = not own and empty is False and not overtaken
        assert judge(UNTAKEN, limit, queue, NOW).action == ("wait" if waits else "resend")

    def test_without_a_guarded_worker_it_waits_whatever_else(self) -> None:
        for empty, own in product([None, True, False], [False, True]):
            queue = Queue(guarded=False, empty=empty, overtaken=True)
            assert judge(UNTAKEN, replace(LIMITS, own_resend_after=own), queue, NOW) == WAIT

    def test_after_a_day_without_one_nothing_is_awaited(self) -> None:
        deserted = Queue(guarded=False, deserted=True)
        assert judge(UNTAKEN, LIMITS, deserted, NOW) == WAIT
        old = replace(UNTAKEN, claimed_at=NOW - DAY - SECOND)
        assert judge(old, LIMITS, deserted, NOW) == FORGET
        assert judge(old, LIMITS, UNREAD, NOW) == WAIT

    def test_what_is_to_begin_later_is_looked_for_later(self) -> None:
        later = replace(LIMITS, not_before=NOW - 30 * SECOND)
        assert judge(UNTAKEN, later, EMPTY, NOW) == WAIT
        assert judge(UNTAKEN, later, EMPTY, NOW + SECOND).action == "resend"

    def test_later_than_its_grace_it_is_dead(self) -> None:
        strict = replace(LIMITS, misfire_grace=59 * SECOND)
        reason = "no worker took it within misfire_grace 0:00:59"
        assert judge(UNTAKEN, strict, EMPTY, NOW) == Verdict("bury", reason)
        # It may be waiting: that is no reason to give it up.
        assert judge(UNTAKEN, strict, FULL, NOW) == WAIT

    def test_what_a_busy_worker_may_hold_is_sent_again_but_never_given_up(self) -> None:
        held = replace(EMPTY, held=True)
        assert judge(UNTAKEN, LIMITS, held, NOW).action == "resend"
        last = replace(UNTAKEN, losses=2, claimed_at=NOW - DAY)
        assert judge(last, LIMITS, EMPTY, NOW).action == "bury"
        assert judge(last, LIMITS, held, NOW) == WAIT

    def test_after_max_attempts_it_is_dead(self) -> None:
        tick = replace(UNTAKEN, losses=2, claimed_at=NOW - HOUR)
        reason = "no worker took it; sent 3 times, max_attempts is 3"
        assert judge(tick, LIMITS, EMPTY, NOW) == Verdict("bury", reason)


class TestExpires:
    LIMITS = replace(LIMITS, expires_at=NOW)

    @pytest.mark.parametrize("queue", [EMPTY, FULL])
    def test_it_expired_in_its_queue(self, queue: Queue) -> None:
        assert judge(UNTAKEN, self.LIMITS, queue, NOW) == WAIT
        verdict = judge(UNTAKEN, self.LIMITS, queue, NOW + EXPIRY_MARGIN)
        assert verdict == Verdict("expire", "it expired in its queue, no worker took it")

    def test_before_that_it_is_sent_again(self) -> None:
        assert judge(UNTAKEN, self.LIMITS, EMPTY, NOW - SECOND).action == "resend"

    def test_a_short_one_need_not_wait_for_resend_after(self) -> None:
        short = replace(self.LIMITS, resend_after=HOUR)
        assert judge(UNTAKEN, short, EMPTY, NOW + EXPIRY_MARGIN).action == "expire"

    def test_others_may_have_run_it_without_saying_so(self) -> None:
        assert judge(UNTAKEN, self.LIMITS, UNREAD, NOW + HOUR) == WAIT


@given(tick=opens, limit=limits, queue=queues)
def test_a_tick_is_never_begun_more_often_than_allowed_nor_sent_when_expired(
    tick: Open, limit: Limits, queue: Queue
) -> None:
    verdict = judge(tick, limit, queue, NOW)
    if verdict.action == "resend":
        assert tick.losses + 1 < limit.max_attempts
        assert limit.expires_at is None or limit.expires_at > NOW
        assert standing(tick, NOW) not in {Standing.RUNNING, Standing.ENDED_WELL}
    assert bool(verdict.reason) == (verdict.action in {"resend", "bury", "expire"})
    assert verdict.failed <= (verdict.action == "bury")


@given(tick=opens, limit=limits)
def test_the_queue_matters_only_where_it_is_asked_about(tick: Open, limit: Limits) -> None:
    if not overdue(tick, limit, NOW):
        verdicts = {judge(tick, limit, queue, NOW) for queue in (EMPTY, FULL, UNREAD)}
        assert len(verdicts) == 1
