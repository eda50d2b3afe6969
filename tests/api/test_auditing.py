"""Changes, explanations, differences and the check, as people ask for them."""

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from uuid import UUID, uuid4

import pytest

from celery_dbbeat import Schedules
from celery_dbbeat.errors import FieldError, NotFound, SettingsError
from celery_dbbeat.rules.tick import task_id
from celery_dbbeat.store.database import Database
from tests.api.kit import NOON, Clerk
from tests.store.conftest import EMPTY
from tests.store.kit import dispatch
from tests.support.services import Databases
from tests.support.waiting import wait_until

HOUR = timedelta(hours=1)
UTC = timezone.utc


@pytest.fixture(scope="module")
def shared_url(databases: Databases, template: str) -> Iterator[str]:
    """One database for all tests here."""
    name = f"dbbeat_test_{uuid4().hex}"
    yield databases.create(name, template)
    databases.drop(name)


@pytest.fixture
def database_url(shared_url: str) -> Iterator[str]:
    """Emptied after each test."""
    yield shared_url
    with closing(Clerk(shared_url)) as cleaner:
        cleaner.do(EMPTY)


class Past:
    """Puts what happened now at some time in the past."""

    def __init__(self, clerk: Clerk) -> None:
        self._clerk = clerk

    def moves(self, *instants: datetime) -> None:
        """The changes, in order, happened then."""
        ids = [row["id"] for row in self._clerk.do("SELECT id FROM dbbeat_audit ORDER BY id")]
        for identity, at in zip(ids, instants, strict=True):
            self._clerk.do("UPDATE dbbeat_audit SET changed_at = %s WHERE id = %s", at, identity)

    def stood(self, action: str, at: datetime) -> None:
        """The cursor stood there at the change."""
        self._clerk.do("UPDATE dbbeat_audit SET stood_at = %s WHERE action = %s", at, action)

    def stands(self, identity: UUID, at: datetime, overdue: timedelta = -HOUR) -> None:
        """The cursor stands there."""
        self._clerk.do(
            "UPDATE dbbeat_cursor SET nominal_at = %s, due_at = now() - %s, replan_from = NULL"
            " WHERE schedule_id = %s",
            at,
            overdue,
            identity,
        )

    def waits(self, what: str) -> None:
        """The only cursor waits."""
        self._clerk.do(
            "UPDATE dbbeat_cursor SET waits_for = %s, waits_since = now(), due_at = NULL", what
        )


@pytest.fixture
def past(clerk: Clerk) -> Past:
    return Past(clerk)


def regular(
    clerk: Clerk, identity: UUID, at: datetime, state: str = "sent", **more: object
) -> UUID:
    return clerk.tick(identity, at, state, task_id=task_id(identity, at), **more)


class TestChanges:
    def test_who_when_and_what(self, schedules: Schedules) -> None:
        ada = Schedules(schedules._app, user="ada")
        ada.create("nightly", "t", interval=60)
        schedules.update("nightly", interval=30)
        edited, made = schedules.changes("nightly")
        assert (made.who, made.source, made.action) == ("ada", "api", "insert")
        assert (edited.who, edited.source) == ("postgres", "api")
        assert edited.after == {"expression": "30"}

    def test_limits(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add()
        clerk.do("UPDATE dbbeat_schedule SET expression = '60'")
        assert [one.action for one in schedules.changes("nightly", 1)] == ["update"]
        with pytest.raises(SettingsError, match="limit is 0"):
            schedules.changes("nightly", 0)


class TestExplain:
    def test_sent_and_run(self, schedules: Schedules, clerk: Clerk, past: Past) -> None:
        identity = clerk.add(expression="3600")
        past.moves(NOON - 5 * HOUR)
        clerk.run(regular(clerk, identity, NOON, epoch=4))
        found = schedules.explain("nightly", NOON)
        assert (found.verdict, found.fire_time) == ("sent", True)
        assert found.entry is not None
        assert (found.entry.epoch, found.entry.worker) == (4, "celery@one")
        assert "(epoch 4)" in found.text
        assert "sent at 2026-01-10 12:00:00.500 UTC, 0.500 s after it was due" in found.text
        assert "celery@one took it at 2026-01-10 12:00:01 UTC" in found.text

    def test_dead_with_the_reason(self, schedules: Schedules, clerk: Clerk, past: Past) -> None:
        identity = clerk.add(expression="3600")
        past.moves(NOON - 5 * HOUR)
        clerk.dead(identity, NOON, task_id=task_id(identity, NOON))
        found = schedules.explain("nightly", NOON)
        assert found.verdict == "dead"
        assert "It is dead: the task failed." in found.text

    @pytest.mark.parametrize("state", ["missed", "coalesced", "paused"])
    def test_in_a_range_that_was_not_sent(
        self, schedules: Schedules, clerk: Clerk, past: Past, state: str
    ) -> None:
        identity = clerk.add(expression="3600")
        past.moves(NOON - 9 * HOUR)
        why = {"last_at": NOON + HOUR, "count": 3, "reason": "too late", "sent_at": None}
        clerk.tick(identity, NOON - HOUR, state, **why)
        found = schedules.explain("nightly", NOON)
        assert found.verdict == state
        assert "as one of 3 from 2026-01-10 11:00:00 UTC to 2026-01-10 13:00:00 UTC" in found.text
        assert "too late" in found.text
        assert schedules.explain("nightly", NOON + 2 * HOUR).verdict != state

    def test_not_a_fire_time_with_the_nearest(
        self, schedules: Schedules, clerk: Clerk, past: Past
    ) -> None:
        clerk.add(expression="3600")
        clerk.do("UPDATE dbbeat_schedule SET expression = '1800'")
        past.moves(NOON - 9 * HOUR, NOON + HOUR)
        found = schedules.explain("nightly", NOON + HOUR / 2)
        assert (found.verdict, found.fire_time) == ("not_a_fire_time", False)
        assert (found.previous, found.following) == (NOON, NOON + HOUR)
        assert "by what counts since then: it was changed (expression from '3600'" in found.text

    def test_local_times_where_clocks_change(
        self, schedules: Schedules, clerk: Clerk, past: Past
    ) -> None:
        clerk.add(kind="cron", expression="30 2 * * *", timezone="Europe/Berlin")
        past.moves(NOON - 99 * HOUR)
        gap = schedules.explain("nightly", "2026-03-29T02:30")
        assert (gap.at, gap.dst) == (datetime(2026, 3, 29, 1, tzinfo=UTC), "gap")
        assert "clocks skipped" in gap.text
        fold = schedules.explain("nightly", "2026-10-25T02:30")
        assert (fold.at, fold.dst) == (datetime(2026, 10, 25, 0, 30, tzinfo=UTC), "fold")

    def test_before_during_a_pause_and_after(
        self, schedules: Schedules, clerk: Clerk, past: Past
    ) -> None:
        clerk.add(expression="3600")
        clerk.do("UPDATE dbbeat_schedule SET state = 'paused'")
        clerk.do("DELETE FROM dbbeat_schedule")
        past.moves(NOON, NOON + 2 * HOUR, NOON + 4 * HOUR)
        past.stood("update", NOON + 3 * HOUR)
        verdicts = [schedules.explain("nightly", NOON + n * HOUR).verdict for n in (-1, 1, 3, 5)]
        assert verdicts == ["not_created", "lost", "paused", "deleted"]
        text = schedules.explain("nightly", NOON + 5 * HOUR).text
        assert "it was deleted by postgres (sql) at 2026-01-10 16:00:00 UTC" in text

    @pytest.mark.parametrize(
        ("stands_at", "verdicts"),
        [(NOON + 4 * HOUR, ["lost"] * 3), (NOON + 2 * HOUR, ["lost", "waiting", "waiting"])],
        ids=["through", "on the way"],
    )
    def test_what_had_passed_before_an_edit(
        self,
        schedules: Schedules,
        clerk: Clerk,
        past: Past,
        stands_at: datetime,
        verdicts: list[str],
    ) -> None:
        identity = clerk.add(expression="3600")
        clerk.do("UPDATE dbbeat_schedule SET expression = '7200'")
        edited = NOON + 3.5 * HOUR
        past.moves(NOON, edited)
        past.stood("update", NOON + HOUR)
        past.stands(identity, stands_at)
        if stands_at < edited:
            clerk.do("UPDATE dbbeat_cursor SET replan_from = %s", edited)
            past.waits("turn")
        found = [schedules.explain("nightly", NOON + n * HOUR).verdict for n in (1, 2, 3)]
        assert found == verdicts

    @pytest.mark.parametrize(
        ("what", "words"),
        [("run", "for an earlier run to end, since"), ("turn", "for its turn among late ticks")],
    )
    def test_what_waits(
        self, schedules: Schedules, clerk: Clerk, past: Past, what: str, words: str
    ) -> None:
        identity = clerk.add(expression="3600")
        past.moves(NOON - 9 * HOUR)
        past.stands(identity, NOON)
        past.waits(what)
        first, second = (schedules.explain("nightly", NOON + n * HOUR) for n in (0, 1))
        assert (first.verdict, second.verdict) == ("waiting", "waiting")
        assert f"It is due, and waits {words}" in first.text
        assert f"comes after that of 2026-01-10 12:00:00 UTC, which waits {words}" in second.text

    def test_ended_for_a_newer_one(self, schedules: Schedules, clerk: Clerk, past: Past) -> None:
        identity = clerk.add(expression="3600")
        past.moves(NOON - 9 * HOUR)
        regular(clerk, identity, NOON, "cancelled", reason="cancel_other for the fire time X")
        found = schedules.explain("nightly", NOON)
        assert found.verdict == "cancelled"
        assert "It was sent at 2026-01-10 12:00:00.500 UTC" in found.text
        assert "cancelled, to end for a newer one: cancel_other for the fire time X." in found.text

    def test_one_by_hand_that_was_ended_speaks_for_no_fire_time(
        self, schedules: Schedules, clerk: Clerk, past: Past
    ) -> None:
        identity = clerk.add(expression="3600")
        past.moves(NOON - 9 * HOUR)
        past.stands(identity, NOON + HOUR)
        clerk.tick(identity, NOON, "cancelled", kind="manual", reason="why")
        assert schedules.explain("nightly", NOON).verdict == "lost"

    def test_to_come_and_under_way(self, schedules: Schedules, clerk: Clerk, past: Past) -> None:
        identity = clerk.add(expression="3600")
        past.moves(NOON - 9 * HOUR)
        past.stands(identity, NOON)
        assert schedules.explain("nightly", NOON).verdict == "under_way"
        far = datetime(2090, 1, 1, tzinfo=UTC)
        assert schedules.explain("nightly", far).verdict == "to_come"

    def test_before_the_audit_began(self, schedules: Schedules, clerk: Clerk, past: Past) -> None:
        clerk.add(expression="3600")
        clerk.do("UPDATE dbbeat_audit SET action = 'found'")
        past.moves(NOON)
        found = schedules.explain("nightly", NOON - HOUR)
        assert (found.verdict, "is not known" in found.text) == ("unknown", True)

    def test_of_two_under_one_name_the_one_that_was_there_then(
        self, schedules: Schedules, clerk: Clerk, past: Past
    ) -> None:
        first = clerk.add(expression="3600")
        clerk.do("DELETE FROM dbbeat_schedule")
        second = clerk.add(expression="3600")
        past.moves(NOON, NOON + 2 * HOUR, NOON + 4 * HOUR)
        assert schedules.explain("nightly", NOON + HOUR).schedule_id == first
        assert schedules.explain("nightly", NOON + 9 * HOUR).schedule_id == second

    def test_what_was_triggered_by_hand_is_told_besides(
        self, schedules: Schedules, clerk: Clerk, past: Past
    ) -> None:
        identity = clerk.add(expression="3600")
        past.moves(NOON - 9 * HOUR)
        clerk.tick(identity, NOON, kind="manual")
        found = schedules.explain("nightly", NOON)
        assert found.entry is None
        assert "Besides" in found.text

    def test_an_expression_that_nobody_can_read(
        self, schedules: Schedules, clerk: Clerk, past: Past
    ) -> None:
        clerk.add(expression="soon")
        clerk.do("UPDATE dbbeat_schedule SET state = 'invalid', reason = 'no such interval'")
        past.moves(NOON, NOON + HOUR)
        assert "no such interval" in schedules.explain("nightly", NOON + 2 * HOUR).text

    @pytest.mark.parametrize("at", ["noon", datetime(2026, 1, 1), "0001-01-01T00:00Z"])  # noqa: DTZ001 - that is what is refused
    def test_what_is_no_instant(self, schedules: Schedules, clerk: Clerk, at: str) -> None:
        clerk.add()
        with pytest.raises(FieldError, match="at is "):
            schedules.explain("nightly", at)

    def test_a_name_that_never_was(self, schedules: Schedules) -> None:
        with pytest.raises(NotFound, match="no schedule 'nightly'"):
            schedules.explain("nightly", NOON)


class TestDiff:
    def test_what_comes_and_goes_and_what_overlaps(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        identity = clerk.add(expression="3600")
        for hour in range(3):
            at = NOON + hour * HOUR
            clerk.run(regular(clerk, identity, at), at, started_at=at, ended_at=at + HOUR * 0.6)
        found = schedules.diff("nightly", n=4, interval=1800)
        assert (len(found.added), len(found.kept), found.removed) == (4, 4, ())
        assert (found.typical_run, found.longest_run) == (HOUR * 0.6, HOUR * 0.6)
        assert len(found.overlapping) == 7
        assert schedules.get("nightly").expression == "3600"

    def test_a_wrong_change_is_refused(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add()
        with pytest.raises(FieldError, match="interval"):
            schedules.diff("nightly", interval=-1)


class TestCheck:
    def test_what_beat_does_is_complete_and_each_tick_that_goes_is_a_gap(
        self, schedules: Schedules, clerk: Clerk, database_url: str
    ) -> None:
        """With edits, a pause and a deletion between, at any time."""
        with Database(database_url, None, 5.0) as store:
            first = clerk.value("SELECT now()")
            ids = [clerk.add(name, expression="0.1") for name in ("a", "b", "c")]

            def run_until(count: int) -> None:
                def enough() -> bool:
                    dispatch(store)
                    return bool(clerk.value("SELECT count(*) FROM dbbeat_tick") >= count)

                wait_until(enough, 20, f"{count} ticks", every=0.02)

            run_until(9)
            clerk.do("UPDATE dbbeat_schedule SET expression = '0.2' WHERE name = 'a'")
            clerk.do("UPDATE dbbeat_schedule SET state = 'paused' WHERE name = 'b'")
            run_until(18)
            clerk.do("UPDATE dbbeat_schedule SET state = 'active' WHERE name = 'b'")
            clerk.do("UPDATE dbbeat_schedule SET name = 'd' WHERE name = 'a'")
            run_until(36)
            clerk.do("DELETE FROM dbbeat_schedule WHERE name = 'c'")
            run_until(45)
        found = schedules.check(first)
        assert found.complete, found
        assert found.schedules == 3
        assert found.fire_times >= 36
        gone = clerk.one(
            "DELETE FROM dbbeat_tick WHERE task_id = (SELECT task_id FROM dbbeat_tick"
            " WHERE schedule_id = %s AND state = 'recorded' ORDER BY nominal_at OFFSET 2 LIMIT 1)"
            " RETURNING nominal_at",
            ids[2],
        )
        found = schedules.check(first)
        (gap,) = found.gaps
        assert (gap.schedule, gap.nominal, gap.state) == ("c", gone["nominal_at"], "lost")
        assert not found.complete

    def test_what_nobody_dispatches_is_overdue(
        self, schedules: Schedules, clerk: Clerk, past: Past
    ) -> None:
        identity = clerk.add(expression="3600")
        now = clerk.value("SELECT date_trunc('hour', now())")
        past.moves(now - 5.5 * HOUR)
        past.stands(identity, now - 3 * HOUR, overdue=3 * HOUR)
        for hour in (5, 4):
            regular(clerk, identity, now - hour * HOUR)
        found = schedules.check(timedelta(hours=9), limit=2)
        assert [(gap.nominal, gap.state) for gap in found.gaps] == [
            (now - 3 * HOUR, "overdue"),
            (now - 2 * HOUR, "overdue"),
        ]
        assert found.missing in {3, 4}

    def test_a_range_from_before_speaks_for_what_is_after(
        self, schedules: Schedules, clerk: Clerk, past: Past
    ) -> None:
        identity = clerk.add(expression="3600")
        now = clerk.value("SELECT date_trunc('hour', now())")
        past.moves(now - 50 * HOUR)
        past.stands(identity, now + HOUR)
        last = {"last_at": now, "count": 49, "sent_at": None, "reason": "resting"}
        clerk.tick(identity, now - 49 * HOUR, "paused", **last)
        found = schedules.check(now - 30 * HOUR)
        assert (found.complete, found.fire_times) == (True, 31)

    def test_many_schedules_and_rows_go_page_by_page(
        self,
        schedules: Schedules,
        clerk: Clerk,
        past: Past,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("celery_dbbeat.store.completeness._SCHEDULES", 7)
        monkeypatch.setattr("celery_dbbeat.store.completeness._ROWS", 5)
        ids = [clerk.add(f"n{number}", expression="3600") for number in range(20)]
        now = clerk.value("SELECT date_trunc('hour', now())")
        past.moves(*[now - 30.5 * HOUR] * 20)
        for number, identity in enumerate(ids):
            past.stands(identity, now + HOUR)
            for hour in range(31):
                if hour != number:
                    regular(clerk, identity, now - hour * HOUR)
        found = schedules.check(timedelta(days=3))
        assert (found.schedules, found.fire_times, found.missing) == (20, 20 * 31, 20)
        assert {(gap.schedule, gap.nominal) for gap in found.gaps} == {
            (f"n{number}", now - number * HOUR) for number in range(20)
        }

    def test_what_is_older_than_the_retention_is_not_looked_at(
        self, schedules: Schedules, clerk: Clerk
    ) -> None:
        found = schedules.check(timedelta(days=1000))
        assert found.since > clerk.value("SELECT now() - interval '92 days'")

    def test_what_nobody_can_read_is_told(self, schedules: Schedules, clerk: Clerk) -> None:
        clerk.add(expression="soon")
        found = schedules.check(timedelta(hours=1))
        ((name, reason),) = found.unreadable
        assert (name, "soon" in reason) == ("nightly", True)

    @pytest.mark.parametrize(
        ("since", "until"),
        [(NOON, NOON), (NOON.replace(tzinfo=None), None), ("yesterday", None), (-HOUR, None)],
    )
    def test_a_wrong_stretch_of_time(
        self, schedules: Schedules, since: datetime, until: datetime
    ) -> None:
        with pytest.raises((SettingsError, FieldError), match=r"(since|until) is "):
            schedules.check(since, until)
