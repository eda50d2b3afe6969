"""What a schedule owes, against a model of beat and of the triggers, with edits at any time."""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest

from celery_dbbeat.rules.completeness import Decided, Gap, Reckoning, windows
from celery_dbbeat.rules.plan import NotSent, plan
from celery_dbbeat.rules.schedule import Cursor, Schedule
from celery_dbbeat.rules.story import Turn, in_force, stretches
from celery_dbbeat.rules.tick import task_id

UTC = timezone.utc
NOON = datetime(2026, 1, 10, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
ME = UUID(int=7)
MINUTELY = Schedule(ME, 1, "story", "t", "interval", "60", misfire_grace=None)


@dataclass
class World:
    """One schedule, and beat as it would plan it: what people do goes as the triggers do it."""

    schedule: Schedule = MINUTELY
    now: datetime = NOON
    state: str = "active"
    turns: list[Turn] = field(default_factory=list)
    rows: list[Decided] = field(default_factory=list)
    cursor: Cursor | None = None

    def make(self, state: str = "active") -> None:
        self.state = state
        active = state == "active"
        self.cursor = Cursor(None, self.now if active else None, self.now)
        if not active:
            self.cursor = replace(self.cursor, held_at=self.now)
        self.turns.append(Turn(self.now, "insert", self.schedule, state))

    def change(self, state: str = "active", **what: object) -> None:
        """As dbbeat_schedule_updated does it, and the audit after it."""
        assert self.cursor is not None
        changed = replace(self.schedule, **what)  # type: ignore[arg-type]
        was = self.state
        replans = state == "active" and (was != "active" or changed != self.schedule)
        cursor = self.cursor
        void = (
            cursor.nominal_at is not None
            and cursor.replan_from is not None
            and cursor.nominal_at > cursor.replan_from
        )
        before = cursor.before
        if state != "active" or cursor.held_at is not None:
            before = None
        elif replans and cursor.replan_from is None and self._has_passed(cursor):
            before = self._when() if was == "active" else None
        cursor = replace(cursor, nominal_at=None if void else cursor.nominal_at, before=before)
        if state != "active" or replans:
            cursor = replace(
                cursor,
                waits_for=None,
                waits_since=None,
                range_at=None,
                range_until=None,
                range_state=None,
            )
        if state != "active":
            held = None if state == "finished" else cursor.held_at or self.now
            cursor = replace(cursor, due_at=None, held_at=held)
        elif replans:
            runs = 0 if was == "finished" else cursor.runs
            cursor = replace(cursor, due_at=self.now, replan_from=self.now, runs=runs)
        self.schedule, self.state, self.cursor = changed, state, cursor
        self.turns.append(Turn(self.now, "update", changed, state, cursor.nominal_at))

    def _has_passed(self, cursor: Cursor) -> bool:
        return cursor.nominal_at is not None and cursor.nominal_at <= self.now

    def _when(self) -> str:
        """As dbbeat_schedule_updated keeps it; the bounds are not edited here."""
        old = self.schedule
        names = ("name", "kind", "expression", "timezone", "exclude")
        end_at = old.end_at.isoformat() if old.end_at else None
        return json.dumps(
            {name: getattr(old, name) for name in names} | {"start_at": None, "end_at": end_at}
        )

    def delete(self) -> None:
        assert self.cursor is not None
        self.turns.append(Turn(self.now, "delete", None, None, self.cursor.nominal_at))
        self.cursor = None

    def beat(self) -> None:
        """All that is due now is decided."""
        while self.cursor and (
            self.cursor.waits_since or (self.cursor.due_at and self.cursor.due_at <= self.now)
        ):
            self.beat_once()

    def beat_once(self) -> None:
        """One plan; what is late has its turn at once."""
        assert self.cursor is not None
        decided = plan(self.schedule, self.cursor, self.now, room=1)
        self.cursor = decided.cursor
        self.rows += [
            Decided(one.nominal_at, None, one.task_id, "recorded") for one in decided.ticks
        ]
        for one in decided.not_sent:
            self.tell(one)
        if decided.ends is not None:
            self.change(decided.ends)

    def tell(self, one: NotSent) -> None:
        """As a row of its own, or by making the one longer with which it goes on."""
        first_at = one.goes_on.first_at if one.goes_on else one.first_at
        row = Decided(first_at, one.last_at, task_id(ME, first_at), one.state)
        self.rows = [known for known in self.rows if known.task_id != row.task_id] + [row]

    def wait(self, minutes: float, *, beats: bool = True) -> None:
        end = self.now + minutes * MINUTE
        while beats and self.cursor and self.cursor.due_at and self.cursor.due_at <= end:
            self.now = max(self.now, self.cursor.due_at)
            self.beat()
        self.now = end

    def reckoning(self) -> Reckoning:
        due = self.cursor.due_at if self.cursor else None
        settled = self.now - timedelta(seconds=30)
        return Reckoning(
            stretches(self.turns, self.cursor), settled, overdue=due is not None and due <= settled
        )

    def gaps(self, rows: Sequence[Decided] | None = None) -> list[tuple[datetime, str]]:
        return [(gap.nominal, gap.state) for gap in self.found(rows)]

    def found(self, rows: Sequence[Decided] | None = None) -> Iterator[Gap]:
        told = sorted(self.rows if rows is None else rows, key=lambda row: row.nominal_at)
        reckoning = self.reckoning()
        for start, end in windows(NOON - 60 * MINUTE, self.now + MINUTE):
            inside = [row for row in told if start <= row.nominal_at < end]
            yield from reckoning.look(start, end, inside)


@pytest.fixture
def world() -> World:
    return World()


def at(minute: float) -> datetime:
    return NOON + minute * MINUTE


class TestOneStretch:
    def test_all_is_there(self, world: World) -> None:
        world.make()
        world.wait(10)
        assert len(world.rows) == 10
        assert world.gaps() == []

    def test_each_that_is_missing_is_lost(self, world: World) -> None:
        world.make()
        world.wait(10)
        for row in world.rows:
            rest = [one for one in world.rows if one is not row]
            assert world.gaps(rest) == [(row.nominal_at, "lost")]

    def test_what_beat_has_not_come_to_is_overdue_after_a_while(self, world: World) -> None:
        world.make()
        world.wait(3)
        world.wait(0.4, beats=False)
        assert world.gaps() == []
        world.wait(2.4, beats=False)
        assert world.gaps() == [(at(4), "overdue"), (at(5), "overdue")]

    def test_a_new_schedule_that_nobody_plans(self, world: World) -> None:
        world.make()
        world.wait(2.6, beats=False)
        assert world.gaps() == [(at(1), "overdue"), (at(2), "overdue")]

    def test_jitter_delays_what_is_overdue(self, world: World) -> None:
        world.schedule = replace(MINUTELY, jitter=timedelta(hours=1))
        world.make()
        world.wait(1)
        world.wait(5, beats=False)
        assert world.gaps() == []

    def test_a_range_speaks_for_all_in_it_over_midnight(self, world: World) -> None:
        world.schedule = replace(MINUTELY, misfire_grace=timedelta(0))
        world.make()
        world.wait(0.5)
        world.wait(13 * 60, beats=False)
        world.beat()
        assert len(world.rows) < 5
        assert world.gaps() == []

    def test_what_is_triggered_by_hand_does_not_count(self, world: World) -> None:
        world.make()
        world.wait(3)
        by_hand = Decided(at(2), None, UUID(int=1), "sent")
        rest = [row for row in world.rows if row.nominal_at != at(2)]
        assert world.gaps([*rest, by_hand]) == [(at(2), "lost")]
        backfilled = Decided(at(2), None, task_id(ME, at(2)), "sent")
        assert world.gaps([*rest, by_hand, backfilled]) == []

    def test_a_when_that_nobody_can_read(self, world: World) -> None:
        world.schedule = replace(MINUTELY, expression="soon")
        world.make()
        reckoning = world.reckoning()
        assert list(reckoning.look(at(0), at(9), [])) == []
        assert "soon" in str(reckoning.unreadable)


class TestEdits:
    def late(self, world: World, **edit: object) -> None:
        """Three fire times are sent, five pass while no beat runs; then it is edited."""
        world.make()
        world.wait(3)
        world.wait(5.5, beats=False)
        world.change(**{"expression": "120", **edit})  # type: ignore[arg-type]

    def test_all_that_had_passed_are_still_owed(self, world: World) -> None:
        self.late(world)
        world.beat()
        assert world.gaps() == []
        for row in world.rows:
            first, last = row.nominal_at, row.last_at or row.nominal_at
            inside = [(at(m), "lost") for m in range(1, 9) if first <= at(m) <= last]
            assert world.gaps([one for one in world.rows if one is not row]) == inside

    def test_they_are_owed_as_far_as_beat_has_come(self, world: World) -> None:
        world.schedule = replace(MINUTELY, catch_up="all")
        self.late(world)
        world.beat_once()
        assert world.cursor is not None
        assert world.cursor.nominal_at == at(5)
        assert world.gaps() == []
        assert world.gaps(world.rows[:-1]) == [(at(4), "lost")]

    def test_edited_again_before_they_are_through(self, world: World) -> None:
        world.schedule = replace(MINUTELY, catch_up="all")
        self.late(world)
        world.beat_once()
        world.wait(3, beats=False)
        world.change(expression="7")
        world.beat_once()
        world.change(expression="180")
        assert world.gaps() == []
        world.beat()
        world.wait(5)
        assert world.gaps() == []
        for minute in range(1, 9):
            rest = [row for row in world.rows if row.nominal_at != at(minute)]
            assert world.gaps(rest) == [(at(minute), "lost")]

    def test_paused_before_they_are_through(self, world: World) -> None:
        world.schedule = replace(MINUTELY, catch_up="all")
        self.late(world)
        world.beat_once()
        world.change("paused")
        assert world.gaps() == []
        assert world.gaps(world.rows[:-1]) == [(at(4), "lost")]
        world.change("active")
        world.wait(4)
        assert world.gaps() == []

    def test_max_runs_reached_before_they_are_through(self, world: World) -> None:
        world.schedule = replace(MINUTELY, catch_up="all", max_runs=5)
        self.late(world)
        world.beat()
        world.wait(9)
        assert world.state == "finished"
        assert [row.nominal_at for row in world.rows] == [at(minute) for minute in range(1, 6)]
        assert world.gaps() == []
        rest = [row for row in world.rows if row.nominal_at != at(4)]
        assert world.gaps(rest) == [(at(4), "lost")]

    def test_what_no_beat_decides_after_an_edit_is_overdue(self, world: World) -> None:
        self.late(world)
        world.wait(0.4, beats=False)
        assert world.gaps() == []
        world.wait(0.2, beats=False)
        assert world.gaps() == [(at(minute), "overdue") for minute in range(4, 9)]

    def test_while_the_edit_is_not_planned_nothing_is_lost(self, world: World) -> None:
        world.make()
        world.wait(3)
        world.wait(5.5, beats=False)
        world.change(expression="120")
        assert world.gaps() == []

    def test_a_when_that_was_never_planned_owes_nothing(self, world: World) -> None:
        world.make()
        world.wait(0.5)
        world.change(expression="0.5")
        world.wait(0.2, beats=False)
        world.change(expression="120")
        world.wait(9)
        assert world.gaps() == []
        assert [row.nominal_at for row in world.rows] == [at(2), at(4), at(6), at(8)]

    def test_paused_and_resumed(self, world: World) -> None:
        world.make()
        world.wait(3)
        world.wait(2.5, beats=False)
        world.change("paused")
        world.wait(3)
        assert world.gaps() == []
        world.change("active")
        world.wait(2)
        assert world.gaps() == []
        rest = [row for row in world.rows if row.nominal_at != at(2)]
        assert world.gaps(rest) == [(at(2), "lost")]

    def test_paused_right_after_an_edit(self, world: World) -> None:
        world.make()
        world.wait(3)
        world.wait(2.5, beats=False)
        world.change(expression="120")
        world.change("paused")
        world.wait(3)
        assert world.gaps() == []

    def test_deleted_with_fire_times_undecided(self, world: World) -> None:
        world.make()
        world.wait(3)
        world.wait(2.5, beats=False)
        world.delete()
        assert world.gaps() == []
        assert world.gaps(world.rows[1:]) == [(at(1), "lost")]

    def test_made_again(self, world: World) -> None:
        world.make()
        world.wait(3)
        world.delete()
        world.wait(3)
        world.make()
        world.wait(3)
        assert world.gaps() == []
        assert len(world.rows) == 6


class TestEnds:
    def test_after_max_runs_nothing_is_owed(self, world: World) -> None:
        world.schedule = replace(MINUTELY, max_runs=3)
        world.make()
        world.wait(0.5)
        world.wait(9, beats=False)
        world.beat()
        world.wait(5)
        assert world.state == "finished"
        assert len([row for row in world.rows if row.state == "recorded"]) == 3
        assert world.gaps() == []

    def test_before_them_each_is(self, world: World) -> None:
        world.schedule = replace(MINUTELY, max_runs=3)
        world.make()
        world.wait(9)
        assert world.state == "finished"
        rest = [row for row in world.rows if row.nominal_at != at(2)]
        assert world.gaps(rest) == [(at(2), "lost")]

    def test_at_its_end_each_is(self, world: World) -> None:
        world.schedule = replace(MINUTELY, end_at=at(3))
        world.make()
        world.wait(9)
        assert world.state == "finished"
        assert world.gaps() == []
        assert world.gaps(world.rows[:-1]) == [(at(3), "lost")]


def test_which_when_was_in_force(world: World) -> None:
    world.make()
    world.wait(3)
    world.change(expression="120")
    world.wait(3)
    world.delete()
    told = stretches(world.turns, None)
    found = {minute: in_force(told, at(minute)) for minute in (0, 3, 4, 6, 7)}
    expressions = {key: one and one.schedule.expression for key, one in found.items()}
    assert expressions == {0: None, 3: "60", 4: "120", 6: "120", 7: None}


@pytest.mark.parametrize("seed", range(150))
def test_whatever_people_do_each_row_is_owed_and_none_but_these(seed: int) -> None:
    """Nothing is a gap that beat has decided or need not; each row that goes is one."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    world = World(now=NOON + chance.random() * MINUTE)
    world.schedule = replace(
        MINUTELY,
        misfire_grace=chance.choice([None, 3 * MINUTE]),
        catch_up=chance.choice(["latest", "all"]),
    )
    world.make(chance.choice(["active", "paused"]))
    for _ in range(30):
        world.wait(chance.choice([0, 0.01, 0.7, 3, 200]), beats=chance.random() < 0.8)
        expression = chance.choice(["60", "30", "90", "420"])
        state = chance.choice(["active"] * 4 + ["paused", "invalid"])
        if chance.random() < 0.4:
            world.change(state, expression=expression)
    if world.state != "active":
        world.change()
    world.wait(30)
    assert world.gaps() == []
    sent = [row for row in world.rows if row.state == "recorded"]
    gone = chance.choice(sent)
    rest = [row for row in world.rows if row is not gone]
    assert world.gaps(rest) == [(gone.nominal_at, "lost")]
