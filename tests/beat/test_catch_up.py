"""Late ticks: behind what is on time, at a rate, in order; whoever dies, is edited or goes."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

import pytest

from celery_dbbeat.beat.catch_up import Usual
from celery_dbbeat.beat.publisher import Publisher
from celery_dbbeat.clock import monotonic
from celery_dbbeat.settings import Settings
from celery_dbbeat.store.database import Database
from tests.beat.broker import redis_lists
from tests.beat.leader import Leader
from tests.store.kit import NOTHING, Person
from tests.support.waiting import wait_until

HOURLY = {"expression": "3600", "catch_up": "all"}
HOURS = 6


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Fast enough for a test to be short."""
    return replace(settings, catch_up_rate=1000.0)


@pytest.fixture
def away(person: Person) -> Callable[..., list[UUID]]:
    """Adds schedules that nobody has dispatched for some hours."""

    def add(*names: str, hours: float = HOURS, **columns: object) -> list[UUID]:
        ids = [person.add(name, **{**HOURLY, **columns}) for name in names]
        let_pass(person, ids, hours)
        return ids

    return add


def let_pass(person: Person, ids: list[UUID], hours: float = HOURS) -> None:
    """Nobody has dispatched these for so long; the next fire time was right after that."""
    person.do(
        "UPDATE dbbeat_cursor c SET replan_from = NULL, nominal_at = to_timestamp((floor(extract("
        "epoch FROM now() - %s * interval '1 hour') / e.every) + 1) * e.every),"
        " due_at = now() - %s * interval '1 hour'"
        " FROM (SELECT id, expression::float8 AS every FROM dbbeat_schedule) e"
        " WHERE e.id = c.schedule_id AND schedule_id = ANY(%s)",
        hours,
        hours,
        ids,
    )


def messages(url: str) -> list[dict[str, Any]]:
    """What is in the queue, the first sent first."""
    return [one["headers"]["dbbeat"] for one in redis_lists(url).get("celery", [])]


def nominals(url: str, name: str) -> list[datetime]:
    found = [one for one in messages(url) if one["schedule"] == name]
    return [datetime.fromisoformat(one["nominal"]) for one in found]


def catch_up(beat: Leader, person: Person) -> None:
    """Dispatch until nothing is late any more."""

    def caught_up() -> bool:
        beat.dispatch()
        late = person.value("SELECT count(*) FROM dbbeat_cursor WHERE waits_since IS NOT NULL")
        overdue = person.value("SELECT count(*) FROM dbbeat_cursor WHERE due_at <= now()")
        return not late and not overdue

    wait_until(caught_up, 20, "all caught up")


def check_order(url: str, names: tuple[str, ...], number: int = HOURS) -> None:
    for name in names:
        found = nominals(url, name)
        assert found == sorted(set(found)), f"{name}: in order, each once"
        assert len(found) == number


def test_each_is_sent_in_order_and_says_that_it_is_late(
    beat: Leader, person: Person, redis_url: str, away: Callable[..., list[UUID]]
) -> None:
    names = ("one", "two", "three")
    away(*names)
    catch_up(beat, person)
    check_order(redis_url, names)
    assert {one["kind"] for one in messages(redis_url)} <= {"catch_up", "scheduled"}
    assert messages(redis_url)[0]["kind"] == "catch_up"


def test_what_is_on_time_goes_first(
    beat: Leader, person: Person, redis_url: str, away: Callable[..., list[UUID]]
) -> None:
    away(*(f"late {number}" for number in range(20)))
    punctual = person.add("punctual", expression="3600")
    let_pass(person, [punctual], 0)
    person.do(
        "UPDATE dbbeat_cursor SET nominal_at = due_at, due_at = now() WHERE schedule_id = %s",
        punctual,
    )
    beat.dispatch()
    assert messages(redis_url)[0]["schedule"] == "punctual"


def test_it_is_held_to_the_rate(
    database_url: str,
    publisher: Publisher,
    settings: Settings,
    person: Person,
    redis_url: str,
    away: Callable[..., list[UUID]],
) -> None:
    away("one", "two", "three", "four")
    slow = replace(settings, catch_up_rate=20.0)
    with closing(Leader(database_url, publisher, slow, "a")) as beat:
        began_at = monotonic()
        catch_up(beat, person)
        took = monotonic() - began_at
    # By turns: none has to wait until another has gone through all of its.
    assert len({one["schedule"] for one in messages(redis_url)[:6]}) == 4
    number = len([one for one in messages(redis_url) if one["kind"] == "catch_up"])
    assert number >= 4 * (HOURS - 1)
    # What is saved up of a pause is a quarter of a second's.
    assert took >= (number - 1) / 20 - 0.5


def test_two_replicas_together_keep_to_one_rate_and_to_the_order(
    database_url: str,
    publisher: Publisher,
    settings: Settings,
    person: Person,
    redis_url: str,
    away: Callable[..., list[UUID]],
) -> None:
    names = tuple("abcdefgh")
    away(*names)
    both = [
        Leader(database_url, publisher, replace(settings, catch_up_rate=40.0), name)
        for name in ("a", "b")
    ]
    began_at, turns = monotonic(), itertools.cycle(both)

    def caught_up() -> bool:
        next(turns).dispatch()
        return not person.value(
            "SELECT count(*) FROM dbbeat_cursor WHERE waits_since IS NOT NULL OR due_at <= now()"
        )

    wait_until(caught_up, 20, "all caught up")
    took = monotonic() - began_at
    for leader in both:
        leader.close()
    check_order(redis_url, names)
    assert took >= (8 * (HOURS - 1) - 1) / 40 - 0.5


def test_who_has_no_lease_leaves_it_to_who_has(
    beat: Leader, other_beat: Leader, person: Person, redis_url: str,
    away: Callable[..., list[UUID]],
) -> None:  # fmt: skip
    away("one")
    person.do("UPDATE dbbeat_pace SET free_at = now() + interval '0.2 s'")
    beat.dispatch()
    assert person.value("SELECT waits_for FROM dbbeat_cursor") == "turn"
    other_beat.dispatcher.run(NOTHING, 1.0)
    assert messages(redis_url) == []

    def helped() -> bool:
        other_beat.dispatcher.run(NOTHING, 1.0)
        return bool(messages(redis_url))

    wait_until(helped, 10, "somebody to step in")


def test_nobody_waits_for_whoever_sends_late_ones(
    beat: Leader, person: Person, redis_url: str, away: Callable[..., list[UUID]],
    make_person: Callable[[], Person],
) -> None:  # fmt: skip
    away("late")
    punctual = person.add("punctual", expression="3600")
    person.do(
        "UPDATE dbbeat_cursor SET nominal_at = now(), due_at = now(), replan_from = NULL"
        " WHERE schedule_id = %s",
        punctual,
    )
    holder = make_person()
    with holder.connection.transaction():
        holder.do("SELECT FROM dbbeat_pace FOR UPDATE")
        beat.dispatch()
        assert [one["schedule"] for one in messages(redis_url)] == ["punctual"]
    catch_up(beat, person)
    check_order(redis_url, ("late",))


@pytest.fixture
def make_person(database_url: str) -> Iterator[Callable[[], Person]]:
    people: list[Person] = []

    def make() -> Person:
        people.append(Person(database_url))
        return people[-1]

    yield make
    for one in people:
        one.close()


def test_a_late_tick_does_not_overtake_one_that_a_dead_replica_recorded(
    beat: Leader, other_beat: Leader, person: Person, redis_url: str,
    away: Callable[..., list[UUID]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    away("one")
    with monkeypatch.context() as patched:
        patched.setattr(beat.dispatcher, "_publish", lambda _: None)  # it dies before it sends

        def died() -> int:
            beat.dispatch()
            return unsent(person)

        recorded = wait_until(died, 10, "some to be recorded")
    assert messages(redis_url) == []
    for _ in range(3):
        person.do("UPDATE dbbeat_cursor SET waits_since = waits_since - interval '1 s'")
        other_beat.dispatch()
    assert unsent(person) == recorded
    assert messages(redis_url) == []
    assert other_beat.dispatcher.recover() == recorded
    catch_up(other_beat, person)
    check_order(redis_url, ("one",))


def unsent(person: Person) -> int:
    return int(person.value("SELECT count(*) FROM dbbeat_tick WHERE state = 'recorded'"))


class TestWhileTheyWait:
    @pytest.fixture(autouse=True)
    def waiting(self, beat: Leader, person: Person, away: Callable[..., list[UUID]]) -> list[UUID]:
        """One schedule of which all that is late waits for its turn."""
        self.ids = away("one")
        person.do("UPDATE dbbeat_pace SET free_at = now() + interval '1 hour'")
        beat.dispatch()
        assert person.value("SELECT waits_for FROM dbbeat_cursor") == "turn"
        return self.ids

    def go_on(self, beat: Leader, person: Person) -> None:
        person.do("UPDATE dbbeat_pace SET free_at = now()")
        catch_up(beat, person)

    def test_new_arguments_count(self, beat: Leader, person: Person, redis_url: str) -> None:
        person.do("UPDATE dbbeat_schedule SET args = '[1]'")
        self.go_on(beat, person)
        check_order(redis_url, ("one",))
        assert {one["headers"]["argsrepr"] for one in redis_lists(redis_url)["celery"]} == {"[1]"}

    def test_a_new_when_loses_nothing_of_the_old_one(
        self, beat: Leader, person: Person, redis_url: str
    ) -> None:
        person.do("UPDATE dbbeat_schedule SET kind = 'cron', expression = '0 0 29 2 *'")
        self.go_on(beat, person)
        check_order(redis_url, ("one",))
        cursor = person.cursor(self.ids[0])
        assert (cursor["before"], cursor["replan_from"]) == (None, None)
        assert cursor["nominal_at"].strftime("%m-%d") == "02-29"

    def test_catch_up_latest_sends_only_the_newest(
        self, beat: Leader, person: Person, redis_url: str
    ) -> None:
        person.do("UPDATE dbbeat_schedule SET catch_up = 'latest'")
        self.go_on(beat, person)
        assert len(messages(redis_url)) == 1
        assert [row["count"] for row in person.ticks(self.ids[0])] == [HOURS - 1, 1]

    def test_a_pause_sends_nothing_and_is_told_when_it_ends(
        self, beat: Leader, person: Person, redis_url: str
    ) -> None:
        person.do("UPDATE dbbeat_schedule SET state = 'paused'")
        self.go_on(beat, person)
        person.do("UPDATE dbbeat_schedule SET state = 'active'")
        self.go_on(beat, person)
        assert messages(redis_url) == []
        (row,) = person.ticks(self.ids[0])
        assert (row["state"], row["count"]) == ("paused", HOURS)

    def test_a_deletion_tells_what_was_not_sent(
        self, beat: Leader, person: Person, redis_url: str
    ) -> None:
        person.do("DELETE FROM dbbeat_schedule")
        self.go_on(beat, person)
        assert messages(redis_url) == []
        (row,) = person.ticks(self.ids[0])
        assert (row["state"], row["count"]) == ("missed", HOURS)
        assert row["last_at"] - row["nominal_at"] == (HOURS - 1) * (
            person.value("SELECT interval '1 hour'")
        )


class TestUsual:
    @pytest.fixture
    def usual(self, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Usual]:
        monkeypatch.setattr("celery_dbbeat.beat.catch_up._NOTE_EVERY", 0.0)
        with Database(database_url, None, 5.0) as database:
            yield Usual(database)

    @staticmethod
    def pace(person: Person) -> dict[str, Any]:
        return person.one("SELECT * FROM dbbeat_pace")

    def test_it_is_the_average_of_minutes(self, usual: Usual, person: Person) -> None:
        sent = 0
        for more in (600, 1800):
            sent += more
            person.do("UPDATE dbbeat_pace SET since = now() - interval '60 s'")
            usual.keep(sent)
        assert self.pace(person)["usual"] == pytest.approx(20, rel=0.05)
        assert self.pace(person)["minutes"] == 2

    def test_an_outage_does_not_lower_it(self, usual: Usual, person: Person) -> None:
        person.do("UPDATE dbbeat_pace SET usual = 50, since = now() - interval '6 hours'")
        usual.keep(10)
        assert self.pace(person)["usual"] == 50
        assert self.pace(person)["sent"] == 0

    def test_who_cannot_note_it_does_so_later(
        self, usual: Usual, person: Person, make_person: Callable[[], Person]
    ) -> None:
        person.do("UPDATE dbbeat_pace SET since = now()")
        holder = make_person()
        with holder.connection.transaction():
            holder.do("SELECT FROM dbbeat_pace FOR UPDATE")
            usual.keep(7)
        usual.keep(9)
        assert self.pace(person)["sent"] == 9
