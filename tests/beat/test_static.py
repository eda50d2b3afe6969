"""The app's `beat_schedule` as rows: what can be stored is, what cannot is named, with why."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.beat import BeatLazyFunc, ScheduleEntry
from celery.schedules import crontab, schedule, solar

from celery_dbbeat.beat.static import code_schedules
from celery_dbbeat.rules.trigger import parse_trigger
from celery_dbbeat.store.schedules import CodeSchedule
from tests.beat.conftest import MakeApp

HERE = ["minute", "hour", "day_of_week", "day_of_month", "month_of_year"]
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)


@pytest.fixture
def app(make_app: MakeApp) -> Celery:
    return make_app("memory://")


def converted(app: Celery, when: object, **values: object) -> CodeSchedule:
    entry = {"task": "tests.plain", "schedule": when, **values}
    return code_schedules(app, {"an entry": entry})["an entry"]


def fields(app: Celery, given: crontab) -> dict[str, str]:
    found = converted(app, given)
    assert found.kind == "crontab"
    stored: dict[str, str] = json.loads(found.expression)
    assert sorted(stored) == sorted(HERE)
    return {name: value for name, value in stored.items() if value != "*"}


CRONTABS: dict[str, tuple[Callable[[], crontab], dict[str, str]]] = {
    "every minute": (crontab, {}),
    "numbers": (lambda: crontab(minute=5, hour=0), {"minute": "5", "hour": "0"}),
    "text": (
        lambda: crontab(minute="*/15", hour="8-18/2", day_of_week="mon-fri"),
        {"minute": "*/15", "hour": "8-18/2", "day_of_week": "mon-fri"},
    ),
    "all fields": (
        lambda: crontab("1", "2", day_of_month="3,5-7", month_of_year="jan,dec", day_of_week="sun"),
        {
            "minute": "1",
            "hour": "2",
            "day_of_month": "3,5-7",
            "month_of_year": "jan,dec",
            "day_of_week": "sun",
        },
    ),
    "a set": (lambda: crontab(minute={45, 0, 30, 15}), {"minute": "0,15,30,45"}),
    "a list": (lambda: crontab(hour=[22, 6], minute=0), {"hour": "6,22", "minute": "0"}),
    "a range": (lambda: crontab(minute=range(0, 60, 20)), {"minute": "0,20,40"}),
}


@pytest.mark.parametrize(("make", "expected"), CRONTABS.values(), ids=CRONTABS.keys())
def test_a_crontab_keeps_its_fields(
    make: Callable[[], crontab], expected: dict[str, str], app: Celery
) -> None:
    assert fields(app, make()) == expected


@pytest.mark.parametrize(("make", "_"), CRONTABS.values(), ids=CRONTABS.keys())
def test_a_stored_crontab_fires_when_celery_s_does(
    make: Callable[[], crontab], _: object, app: Celery
) -> None:
    found = converted(app, make())
    fires = parse_trigger(found.kind, found.expression, found.timezone).next(NOON)
    celerys = make()
    celerys.app = app
    celerys.nowfun = lambda: NOON
    assert fires == NOON + celerys.remaining_estimate(NOON)


SECONDS: list[tuple[object, str]] = [
    (30, "30"),
    (0.5, "0.5"),
    (100.0, "100"),
    (timedelta(days=1), "86400"),
    (timedelta(milliseconds=250, microseconds=1), "0.250001"),
    (schedule(10), "10"),
    (schedule(timedelta(minutes=2)), "120"),
    (schedule(90, relative=True), "90"),
]


@pytest.mark.parametrize(("given", "expression"), SECONDS, ids=str)
def test_what_counts_seconds_is_an_interval(given: object, expression: str, app: Celery) -> None:
    found = converted(app, given)
    assert (found.kind, found.expression) == ("interval", expression)


def test_a_relative_entry_is_an_interval(app: Celery) -> None:
    found = converted(app, timedelta(hours=1), relative=True)
    assert (found.kind, found.expression) == ("interval", "3600")


def test_a_solar_schedule_keeps_its_place(app: Celery) -> None:
    found = converted(app, solar("sunset", -37.81753, 144.96715))
    assert (found.kind, found.expression) == ("solar", "sunset -37.81753 144.96715")


ZONES: list[tuple[dict[str, object], str]] = [
    ({}, "UTC"),
    ({"timezone": "Europe/Prague"}, "Europe/Prague"),
    ({"timezone": ZoneInfo("Asia/Tokyo")}, "Asia/Tokyo"),
    ({"timezone": timezone.utc}, "UTC"),
    ({"timezone": "Europe/Prague", "enable_utc": False}, "Europe/Prague"),
]


@pytest.mark.parametrize(("settings", "expected"), ZONES, ids=str)
def test_the_time_zone_is_the_app_s(
    settings: dict[str, object], expected: str, make_app: MakeApp
) -> None:
    assert converted(make_app("memory://", **settings), crontab()).timezone == expected


def test_what_to_send_is_kept(app: Celery) -> None:
    options = {"queue": "q", "expires": 60, "headers": {"a": [1]}}
    found = converted(app, 60, args=(1, ("two", None)), kwargs={"k": (3,)}, options=options)
    assert (found.name, found.task) == ("an entry", "tests.plain")
    assert json.loads(found.args) == [1, ["two", None]]
    assert json.loads(found.kwargs) == {"k": [3]}
    assert json.loads(found.options) == options


@pytest.mark.parametrize("nothing", [None, ()])
def test_arguments_may_be_left_out(nothing: object, app: Celery) -> None:
    found = converted(app, 60, args=nothing, kwargs=None, options=None)
    assert (found.args, found.kwargs, found.options) == ("[]", "{}", "{}")
    assert converted(app, 60) == found


def test_what_add_periodic_task_adds_can_be_stored(app: Celery) -> None:
    app.add_periodic_task(30.0, app.signature("tests.plain", (1,), {"a": 2}), name="added")
    found = code_schedules(app, app.conf.beat_schedule)["added"]
    assert (found.task, found.expression) == ("tests.plain", "30")
    assert (json.loads(found.args), json.loads(found.kwargs)) == ([1], {"a": 2})


class Weekly(schedule):  # type: ignore[misc]
    """Somebody's own schedule, which is not what its parent is."""


class Holidays(crontab):  # type: ignore[misc]
    """Somebody's own crontab."""


def entry(**values: object) -> dict[str, object]:
    return {"task": "tests.plain", "schedule": 60, **values}


def now() -> datetime:
    return NOON


LEFT_OUT: dict[str, tuple[Any, str]] = {
    "a clock of its own": (entry(schedule=crontab(nowfun=now)), "nowfun"),
    "an interval's own clock": (entry(schedule=schedule(60, nowfun=now)), "nowfun"),
    "a subclass of schedule": (entry(schedule=Weekly(60)), "allowed is a number of seconds"),
    "a subclass of crontab": (entry(schedule=Holidays()), "allowed is a number of seconds"),
    "no schedule": (entry(schedule=None), "allowed is a number of seconds"),
    "a text": (entry(schedule="every minute"), "every minute"),
    "no seconds": (entry(schedule=0), "0"),
    "negative seconds": (entry(schedule=-5), "-5"),
    "a lazy argument": (entry(args=[BeatLazyFunc(now)]), "BeatLazyFunc"),
    "a lazy keyword": (entry(kwargs={"at": BeatLazyFunc(now)}), "BeatLazyFunc"),
    "an argument JSON cannot hold": (entry(args=[NOON]), "args is .* JSON cannot hold"),
    "a set": (entry(args=[{1}]), "args is .* JSON cannot hold"),
    "not a number": (entry(args=[float("nan")]), "args is .* JSON cannot hold"),
    "keys that JSON makes text": (entry(kwargs={"by": {1: 2}}), "kwargs is .* would change"),
    "options JSON cannot hold": (entry(options={"expires": NOON}), "options is .* cannot hold"),
    "arguments that are one number": (entry(args=5), "args is 5"),
    "keywords that are a list": (entry(kwargs=["a"]), "kwargs is"),
    "options that are a text": (entry(options="queue"), "options is"),
    "no task": ({"schedule": 60}, "task"),
    "no entry": (60, "60"),
}


@pytest.mark.parametrize(("wrong", "reason"), LEFT_OUT.values(), ids=LEFT_OUT.keys())
def test_what_cannot_be_stored_is_named_and_does_not_stop_the_others(
    wrong: Any,  # noqa: ANN401
    reason: str,
    app: Celery,
    caplog: pytest.LogCaptureFixture,
) -> None:
    entries = {"before": entry(), "wrong": wrong, "after": entry()}
    assert list(code_schedules(app, entries)) == ["before", "after"]
    [message] = caplog.messages
    assert message.startswith("beat_schedule entry 'wrong' is left out: ")
    assert re.search(reason, message)


def test_an_entry_object_is_stored_as_its_dictionary_would_be(app: Celery) -> None:
    given = ScheduleEntry(
        "an entry", "tests.plain", schedule=schedule(60, app=app), args=(1,), app=app
    )
    assert code_schedules(app, {"an entry": given}) == {"an entry": converted(app, 60, args=(1,))}


def test_a_zone_without_a_name_is_a_reason_too(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app("memory://", timezone=timezone(timedelta(hours=2)))
    assert code_schedules(app, {"entry": entry()}) == {}
    assert "time zone" in caplog.text or "timezone" in caplog.text


def test_equal_entries_have_equal_digests(app: Celery) -> None:
    options = {"queue": "q"}
    same = [60, 60.0, timedelta(minutes=1), schedule(60)]
    assert len({converted(app, when, args=[1], options=options).digest for when in same}) == 1


def test_the_order_in_which_a_dictionary_was_written_is_no_change(app: Celery) -> None:
    one = converted(app, 60, kwargs={"a": 1, "b": {"c": 2, "d": 3}})
    other = converted(app, 60, kwargs={"b": {"d": 3, "c": 2}, "a": 1})
    assert one.digest == other.digest


CHANGES: list[dict[str, object]] = [
    {"schedule": 61},
    {"schedule": crontab()},
    {"task": "tests.other"},
    {"args": [2]},
    {"kwargs": {"a": 1}},
    {"options": {"priority": 1}},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_each_change_changes_the_digest(change: dict[str, object], app: Celery) -> None:
    found = code_schedules(app, {"before": entry(), "after": entry(**change)})
    assert found["before"].digest != found["after"].digest


DIGEST = """
from celery import Celery
from celery.schedules import crontab
from celery_dbbeat.beat.static import code_schedules
entry = {"task": "t", "schedule": crontab(minute={50, 1, 30, 7}), "kwargs": {"a": "x", "b": "y"}}
print(code_schedules(Celery(), {"entry": entry})["entry"].digest)
"""


def test_every_process_computes_the_same_digest() -> None:
    assert len({digest_with_seed(seed) for seed in "12"}) == 1


def digest_with_seed(seed: str) -> str:
    run = [sys.executable, "-c", DIGEST]
    env = {**os.environ, "PYTHONHASHSEED": seed}
    return subprocess.run(run, capture_output=True, text=True, check=True, env=env).stdout
