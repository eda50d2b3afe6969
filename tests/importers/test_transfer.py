"""What is written, what is left alone, and where schedules go on from."""

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from uuid import UUID

import pytest

from celery_dbbeat.contrib.importers import transfer
from celery_dbbeat.contrib.importers.entry import Entry, Refused
from celery_dbbeat.contrib.importers.transfer import Outcome
from celery_dbbeat.errors import DbbeatError
from celery_dbbeat.store import imports, schedules
from celery_dbbeat.store.database import Database
from celery_dbbeat.store.imports import ImportedSchedule
from celery_dbbeat.store.schedules import CodeSchedule
from tests.store.kit import Person, dispatch

UTC = timezone.utc
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
DAY = 24 * HOUR
CODE = CodeSchedule("nightly", "t", "interval", "86400", "UTC", "[]", "{}", "{}", "digest")


def row(name: str = "nightly", **columns: object) -> ImportedSchedule:
    made = ImportedSchedule(name, name, "shop.tasks.work", "interval", "86400", "UTC")
    return replace(made, **columns)  # type: ignore[arg-type]


@pytest.fixture
def now(store: Database) -> datetime:
    return store.now()


def due(now: datetime, ago: timedelta, every: timedelta = DAY) -> Entry:
    """An interval that was due so long ago, after its last run."""
    expression = str(int(every.total_seconds()))
    return Entry(row(start_at=now - ago, expression=expression), now - ago - every)


def bring(store: Database, *entries: Entry | Refused, dry_run: bool = False) -> list[Outcome]:
    return transfer(store, "elsewhere", entries, dry_run=dry_run)


def outcomes(store: Database, *entries: Entry | Refused) -> dict[str, str]:
    return {one.name: one.outcome for one in bring(store, *entries)}


def settled(store: Database) -> list[datetime]:
    """The fire times that beat sends now, until nothing more is due."""
    sent = []
    while found := dispatch(store) or dispatch(store):
        sent += [one.tick.nominal_at for one in found]
    return sent


class TestAgain:
    def test_nothing_changes(self, store: Database, person: Person, now: datetime) -> None:
        entries: list[Entry | Refused] = [due(now, -HOUR), Refused("7", "odd", "why")]
        assert outcomes(store, *entries) == {"nightly": "new", "odd": "refused"}
        before = (
            person.do("SELECT * FROM dbbeat_schedule"),
            person.do("SELECT * FROM dbbeat_cursor"),
        )
        assert outcomes(store, *entries) == {"nightly": "unchanged", "odd": "refused"}
        after = person.do("SELECT * FROM dbbeat_schedule"), person.do("SELECT * FROM dbbeat_cursor")
        assert after == before

    def test_what_changed_over_there_is_written_again(
        self, store: Database, person: Person, now: datetime
    ) -> None:
        first = due(now, -HOUR)
        bring(store, first)
        later = replace(first, schedule=replace(first.schedule, task="shop.tasks.other"))
        assert outcomes(store, later) == {"nightly": "updated"}
        assert person.value("SELECT task FROM dbbeat_schedule") == "shop.tasks.other"
        assert outcomes(store, later) == {"nightly": "unchanged"}

    def test_a_run_over_there_since_moves_on_where_it_goes_on(
        self, store: Database, now: datetime
    ) -> None:
        bring(store, due(now, HOUR / 2))
        assert outcomes(store, due(now, HOUR / 2 - DAY)) == {"nightly": "updated"}
        assert settled(store) == []

    @pytest.mark.parametrize("change", ["state = 'paused'", "task = 'mine'", "name = 'mine'"])
    def test_what_people_changed_here_stays(
        self, store: Database, person: Person, now: datetime, change: str
    ) -> None:
        first = due(now, -HOUR)
        bring(store, first)
        person.do(f"UPDATE dbbeat_schedule SET {change}")  # noqa: S608 - of the test's own
        before = person.one("SELECT * FROM dbbeat_schedule")
        later = replace(first, schedule=replace(first.schedule, description="new words"))
        assert outcomes(store, later) == {"nightly": "kept"}
        assert person.one("SELECT * FROM dbbeat_schedule") == before

    def test_a_name_that_changed_over_there_changes_here(
        self, store: Database, person: Person, now: datetime
    ) -> None:
        first = due(now, -HOUR)
        bring(store, first)
        later = replace(first, schedule=replace(first.schedule, name="daily"))
        assert outcomes(store, later) == {"daily": "updated"}
        assert [one["name"] for one in person.do("SELECT name FROM dbbeat_schedule")] == ["daily"]

    def test_what_is_gone_over_there_stays_and_is_told(
        self, store: Database, person: Person, now: datetime
    ) -> None:
        bring(store, due(now, -HOUR))
        assert outcomes(store) == {"nightly": "gone"}
        assert person.value("SELECT count(*) FROM dbbeat_schedule") == 1

    def test_what_had_its_one_run_is_not_run_again(
        self, store: Database, person: Person, now: datetime
    ) -> None:
        over = Entry(row(state="finished", reason="why", max_runs=1), now - DAY)
        assert outcomes(store, over) == {"nightly": "new"}
        later = replace(over, schedule=replace(over.schedule, expression="60"))
        assert outcomes(store, later) == {"nightly": "unchanged"}
        assert person.value("SELECT state FROM dbbeat_schedule") == "finished"
        assert settled(store) == []


class TestNames:
    def test_a_name_of_somebody_elses_is_theirs(self, store: Database, person: Person) -> None:
        person.add("nightly")
        before = person.one("SELECT * FROM dbbeat_schedule")
        assert outcomes(store, Entry(row())) == {"nightly": "taken"}
        assert person.one("SELECT * FROM dbbeat_schedule") == before

    def test_of_another_import_too(self, store: Database) -> None:
        bring(store, Entry(row()))
        (one,) = transfer(store, "another", [Entry(row())], dry_run=False)
        assert one.outcome == "taken"

    def test_a_new_name_that_is_taken_renames_nothing(
        self, store: Database, person: Person
    ) -> None:
        bring(store, Entry(row()))
        person.add("daily")
        assert outcomes(store, Entry(row(source_id="nightly", name="daily"))) == {"daily": "taken"}

    def test_who_takes_it_in_between_keeps_it(
        self, store: Database, person: Person, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        earlier = imports.earlier

        def slow(database: Database, source: str, names: list[str]) -> list[imports.Existing]:
            found = earlier(database, source, names)
            person.add("nightly", task="mine")
            return found

        monkeypatch.setattr(imports, "earlier", slow)
        assert outcomes(store, Entry(row()), Entry(row("other"))) == {
            "nightly": "taken",
            "other": "new",
        }
        assert person.value("SELECT task FROM dbbeat_schedule WHERE name = 'nightly'") == "mine"


class TestCode:
    def own(self, last_run_at: datetime) -> Entry:
        given = row(task="t", owner="code", code_digest="digest", start_at=last_run_at + DAY)
        return Entry(given, last_run_at)

    def sync(self, store: Database) -> schedules.CodeSync:
        with store.transaction() as transaction:
            return schedules.sync_code(transaction, {"nightly": CODE})

    def test_it_stays_the_codes_and_beat_has_nothing_to_write(
        self, store: Database, now: datetime
    ) -> None:
        assert outcomes(store, self.own(now - DAY - MINUTE)) == {"nightly": "new"}
        assert self.sync(store) == schedules.CodeSync((), (), ())
        assert settled(store) == [now - MINUTE]

    def test_one_that_beat_wrote_before_takes_over_its_last_run(
        self, store: Database, person: Person, now: datetime
    ) -> None:
        self.sync(store)
        person.do("UPDATE dbbeat_schedule SET state = 'paused'")
        assert outcomes(store, self.own(now - DAY - MINUTE)) == {"nightly": "updated"}
        found = person.one("SELECT owner, state, start_at FROM dbbeat_schedule")
        assert found == {"owner": "code", "state": "paused", "start_at": now - MINUTE}
        assert self.sync(store) == schedules.CodeSync((), (), ())


class TestTheSwitch:
    """A fire time between the last run over there and the import is neither lost nor doubled."""

    def test_what_was_due_in_between_is_sent_once(self, store: Database, now: datetime) -> None:
        (one,) = bring(store, due(now, 10 * MINUTE))
        assert "sent if beat starts within an hour" in one.remarks[0]
        assert settled(store) == [now - 10 * MINUTE]

    def test_of_several_the_newest(self, store: Database, person: Person, now: datetime) -> None:
        bring(store, due(now, 10 * MINUTE, every=3 * MINUTE))
        assert settled(store) == [now - MINUTE]
        told = person.one("SELECT state, count FROM dbbeat_tick WHERE state <> 'recorded'")
        assert told == {"state": "coalesced", "count": 3}

    def test_what_had_run_over_there_is_not_sent_again(
        self, store: Database, now: datetime
    ) -> None:
        # It is late by a little, as runs are, and its schedule fires by the calendar.
        daily = row(kind="cron", expression=f"{now.minute} {now.hour} * * *")
        ran = now.replace(second=0, microsecond=0) + timedelta(milliseconds=4)
        bring(store, Entry(daily, ran))
        assert settled(store) == []

    def test_what_is_too_late_is_told_in_the_history(
        self, store: Database, person: Person, now: datetime
    ) -> None:
        (one,) = bring(store, due(now, 7 * HOUR))
        assert "what is older than an hour is not sent" in one.remarks[0]
        assert settled(store) == []
        told = person.one("SELECT state, nominal_at FROM dbbeat_tick")
        assert told == {"state": "missed", "nominal_at": now - 7 * HOUR}

    def test_a_year_of_minutes_is_not_worked_through(
        self, store: Database, person: Person, now: datetime
    ) -> None:
        each = row(kind="cron", expression="* * * * *")
        bring(store, Entry(each, now - 365 * DAY))
        assert len(settled(store)) == 1
        assert person.value("SELECT sum(count) FROM dbbeat_tick") <= 62

    def test_once_that_passed_in_between_is_sent(self, store: Database, now: datetime) -> None:
        at = now - MINUTE
        bring(store, Entry(row(kind="once", expression=at.isoformat()), at - SECOND))
        assert settled(store) == [at]

    def test_what_is_paused_waits_for_being_resumed(
        self, store: Database, person: Person, now: datetime
    ) -> None:
        one = due(now, HOUR / 2)
        bring(store, replace(one, schedule=replace(one.schedule, state="paused")))
        assert settled(store) == []
        person.do("UPDATE dbbeat_schedule SET state = 'active'")
        assert settled(store) == []

    def test_imported_twice_by_the_old_run_it_is_sent_once(
        self, store: Database, person: Person, now: datetime
    ) -> None:
        one = due(now, 10 * MINUTE)
        bring(store, one)
        assert len(settled(store)) == 1
        # Somebody touches it over there, where nothing ran since.
        later = replace(one, schedule=replace(one.schedule, description="new words"))
        assert outcomes(store, later) == {"nightly": "updated"}
        assert settled(store) == []
        assert person.value("SELECT count(*) FROM dbbeat_tick") == 1


class TestAllOrNothing:
    def test_a_dry_run_writes_nothing(self, store: Database, person: Person) -> None:
        (one,) = bring(store, Entry(row()), dry_run=True)
        assert (one.outcome, one.schedule) == ("new", row())
        assert person.value("SELECT count(*) FROM dbbeat_schedule") == 0

    def test_one_that_postgres_refuses_stops_all(self, store: Database, person: Person) -> None:
        # Converters check; this is what happens where one does not.
        with pytest.raises(DbbeatError, match="dbbeat_schedule_state_known"):
            bring(store, Entry(row("good")), Entry(row("bad", state="odd")))
        assert person.value("SELECT count(*) FROM dbbeat_schedule") == 0

    def test_more_than_one_statement_holds(self, store: Database, person: Person) -> None:
        many = [Entry(row(f"task {number}")) for number in range(imports.BATCH + 1)]
        assert set(outcomes(store, *many).values()) == {"new"}
        assert person.value("SELECT count(*) FROM dbbeat_schedule") == len(many)
        assert isinstance(person.value("SELECT id FROM dbbeat_schedule LIMIT 1"), UUID)
