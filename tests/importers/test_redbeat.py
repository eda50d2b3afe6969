"""`dbbeat import redbeat`, beside the real package and a real Redis."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import pytest
from celery import Celery
from celery.schedules import crontab, schedule
from dateutil.rrule import weekday
from redbeat import RedBeatSchedulerEntry
from redbeat.schedules import rrule

from celery_dbbeat.contrib.importers import sources
from celery_dbbeat.contrib.importers.entry import Entry, Refused
from celery_dbbeat.contrib.importers.redbeat import Stored, convert
from celery_dbbeat.contrib.importers.redbeat_rule import read_rule
from celery_dbbeat.errors import ScheduleError, SourceError
from celery_dbbeat.rules.trigger import parse_trigger
from tests.cli.conftest import Run
from tests.store.kit import Person
from tests.support.services import free_port

UTC = timezone.utc
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
TODAY = NOON.date()
Put = Callable[..., RedBeatSchedulerEntry]


@pytest.fixture
def app(redis_url: str) -> Celery:
    app = Celery("theirs", broker="memory://", set_as_current=False)
    app.conf.update(redbeat_redis_url=redis_url, timezone="Europe/Berlin", result_expires=None)
    return app


@pytest.fixture
def put(app: Celery) -> Put:
    """Stores an entry as RedBeat does; it last ran at noon."""

    def stored(name: str, when: object, last_run_at: datetime = NOON, **more: Any) -> Any:  # noqa: ANN401 - RedBeat has no types
        entry = RedBeatSchedulerEntry(
            name, "shop.tasks.work", when, app=app, last_run_at=last_run_at, **more
        )
        return entry.save()

    return stored


def found(app: Celery) -> dict[str, Entry | Refused]:
    entries = sources.of_redbeat(app, TODAY, None, None)
    return {one.schedule.name if isinstance(one, Entry) else one.name: one for one in entries}


def only(app: Celery) -> Entry:
    (one,) = found(app).values()
    assert isinstance(one, Entry), one
    return one


class TestWhen:
    def test_an_interval_counts_on_from_its_last_run(self, app: Celery, put: Put) -> None:
        put("often", schedule(timedelta(seconds=0.5), app=app))
        one = only(app)
        assert (one.schedule.kind, one.schedule.expression) == ("interval", "0.5")
        assert (one.schedule.start_at, one.go_on_from) == (NOON + timedelta(seconds=0.5), NOON)

    def test_a_relative_one_from_where_it_is_rounded_to(self, app: Celery, put: Put) -> None:
        put("hourly", schedule(HOUR, relative=True, app=app), NOON + HOUR / 3)
        assert only(app).schedule.start_at == NOON + HOUR
        assert only(app).remarks == ()

    def test_days_of_its_zone_are_told(self, app: Celery, put: Put) -> None:
        put("daily", schedule(24 * HOUR, relative=True, app=app))
        assert only(app).schedule.start_at == datetime(2026, 6, 1, 22, tzinfo=UTC)
        assert "24 hours" in only(app).remarks[0]

    def test_a_crontab_is_read_in_the_apps_zone_as_there(self, app: Celery, put: Put) -> None:
        put("morning", crontab(minute=0, hour="8,9", day_of_week="mon-fri", app=app))
        one = only(app).schedule
        assert (one.kind, one.timezone) == ("crontab", "Europe/Berlin")
        assert json.loads(one.expression)["hour"] == "8,9"

    @pytest.mark.parametrize(
        "given",
        [
            {"freq": "DAILY", "interval": 3, "count": 40},
            {"freq": "WEEKLY", "byweekday": [weekday(0), weekday(4)], "wkst": 6},
            {"freq": "MONTHLY", "bymonthday": [1, -1], "byhour": 9, "byminute": [0, 30]},
            {"freq": "MONTHLY", "byweekday": [0, 1, 2, 3, 4], "bysetpos": -1},
            {"freq": "YEARLY", "bymonth": 3, "byyearday": [70, 80], "until": NOON + 9999 * HOUR},
            {"freq": "HOURLY", "interval": 5},
        ],
        ids=lambda given: given["freq"],
    )
    def test_a_rule_means_what_it_meant(self, app: Celery, put: Put, given: dict[str, Any]) -> None:
        made = rrule(dtstart=NOON, app=app, **given)
        put("rule", made)
        one = only(app).schedule
        trigger = parse_trigger(one.kind, one.expression, one.timezone, one.start_at)
        theirs = [each.astimezone(UTC) for each in made.rrule[:20]]
        ours = [theirs[0] - HOUR]
        for _ in theirs:
            ours.append(cast("datetime", trigger.next(ours[-1])))
        assert ours[1:] == theirs

    def test_the_offset_of_a_rule_is_kept(self) -> None:
        daily = {"freq": 3, "dtstart": NOON.timestamp()}
        assert read_rule({**daily, "dtstart_tz": 120}).timezone == "Etc/GMT-2"
        assert read_rule({**daily, "dtstart_tz": -300}).timezone == "Etc/GMT+5"
        india = read_rule({**daily, "dtstart_tz": 330})
        assert india.timezone == "Asia/Kolkata"
        assert india.text.startswith("DTSTART:20260601T173000\n")
        assert "fixed offset +0530" in india.remarks[0]

    @pytest.mark.parametrize(
        ("given", "why"),
        [
            ({"dtstart_tz": -210}, "which no zone keeps"),
            ({"byeaster": 0}, "byeaster"),
            ({"dtstart": None}, "no dtstart"),
        ],
    )
    def test_a_rule_that_is_refused(self, given: dict[str, Any], why: str) -> None:
        with pytest.raises(ScheduleError, match=why):
            read_rule({"freq": 3, "dtstart": NOON.timestamp(), **given})


class TestWhat:
    def test_arguments_options_and_a_pause(self, app: Celery, put: Put) -> None:
        put(
            "full",
            schedule(60, app=app),
            args=[1, NOON],
            kwargs={"a": {"b": NOON}},
            options={"queue": "bulk", "expires": NOON + HOUR},
            enabled=False,
        )
        one = only(app).schedule
        kombus = {"__type__": "datetime", "__value__": "2026-06-01T12:00:00+00:00"}
        assert json.loads(one.args) == [1, kombus]
        assert json.loads(one.kwargs) == {"a": {"b": kombus}}
        assert json.loads(one.options) == {"queue": "bulk", "expires": "2026-06-01T13:00:00+00:00"}
        assert one.state == "paused"

    @pytest.mark.parametrize(
        ("definition", "why"),
        [
            (None, "its definition is None"),
            ("[]", "its definition is '[]'"),
            ('{"schedule": {"__type__": "moon"}}', "allowed is an interval"),
            ('{"schedule": {"__type__": "interval"}}', "is not understood"),
            ('{"schedule": {"__type__": "interval", "every": 9}}', "task is ''"),
            ('{"task": "t", "schedule": {"__type__": "interval", "every": 0}}', "not allowed"),
            ('{"task": "t", "schedule": {"__type__": "crontab", "minute": "x"}}', "minute 'x'"),
        ],
    )
    def test_what_is_refused(self, definition: str | None, why: str) -> None:
        one = convert(Stored("redbeat:odd", definition, None), "UTC", TODAY)
        assert isinstance(one, Refused)
        assert why in one.reason


def test_what_the_code_says_is_the_codes(app: Celery, put: Put) -> None:
    app.conf.beat_schedule = {"mine": {"task": "other", "schedule": 60.0}}
    put("mine", schedule(30, app=app), enabled=False)
    one = only(app).schedule
    assert (one.owner, one.task, one.expression) == ("code", "other", "60")
    assert (one.state, one.start_at) == ("paused", NOON + timedelta(seconds=60))


class TestCommand:
    def test_many_then_nothing_new(
        self, celery: Run, person: Person, put: Put, app: Celery, database_url: str, redis_url: str
    ) -> None:
        for number in range(30):
            put(f"entry {number}", schedule(3600 + number, app=app))
        command = ("import", "redbeat", "--url", redis_url)
        done = celery(*command, SHOP_URL=database_url)
        assert (done.returncode, done.stdout, done.stderr) == (0, "Imported: 30 new.\n", "")
        assert person.value("SELECT count(*) FROM dbbeat_schedule") == 30
        again = celery(*command, SHOP_URL=database_url)
        assert again.stdout == "Imported: 30 unchanged.\n"

    def test_where_redbeats_own_settings_say(
        self, celery: Run, put: Put, app: Celery, database_url: str, redis_url: str, tmp_path: Path
    ) -> None:
        put("one", schedule(60, app=app))
        with (tmp_path / "shop.py").open("a") as code:
            code.write(f'app.conf.redbeat_redis_url = "{redis_url}"\n')
        done = celery("import", "redbeat", "--dry-run", SHOP_URL=database_url)
        assert done.returncode == 0
        assert "Would be: 1 new." in done.stdout

    def test_no_redis_there(self, app: Celery) -> None:
        with pytest.raises(SourceError, match="Redis cannot be read"):
            sources.of_redbeat(app, TODAY, f"redis://127.0.0.1:{free_port()}/0", None)

    def test_nothing_there(self, app: Celery, redis_url: str) -> None:
        with pytest.raises(SourceError, match="no entries under 'odd:'; allowed is --prefix"):
            sources.of_redbeat(app, TODAY, redis_url, "odd:")
