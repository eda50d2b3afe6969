"""What people get wrong about a schedule: one table, for every way there is to write one.

Each case changes one thing of `GOOD`. `given` are arguments of `Schedules.create` (and keys of a
file); `says` is part of the message of the error, which is about `field`; `options` is the same on
the command line, where it can be said there; `columns` the same by plain SQL, where the database
refuses it by a constraint whose name holds `constraint`; without one, the database takes it and
beat makes the schedule `invalid`, with a reason that holds `reason`.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from celery import Celery
from celery.schedules import crontab, schedule, solar

TASK = "shop.add"
#: The task takes `x` and maybe `y`; see `register`.
GOOD: Mapping[str, Any] = {"name": "good", "task": TASK, "interval": 60, "args": [1]}
GOOD_COLUMNS: Mapping[str, Any] = {
    "name": "good",
    "task": TASK,
    "kind": "interval",
    "expression": "60",
}
LATER = datetime(2030, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Bad:
    """One thing that is wrong."""

    id: str
    field: str
    given: Mapping[str, Any]
    says: str
    options: tuple[str, ...] | None = None
    columns: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    constraint: str = ""
    reason: str = ""

    @property
    def definition(self) -> dict[str, Any]:
        """`GOOD` with this wrong; with another *when*, that takes the place of the good one."""
        kinds = {"cron", "crontab", "rrule", "solar", "once", "kind", "expression"}
        whens = kinds & self.given.keys()
        kept = {name: value for name, value in GOOD.items() if not whens or name != "interval"}
        merged = {**kept, **self.given}
        return {name: value for name, value in merged.items() if value is not MISSING}

    @property
    def row(self) -> dict[str, Any]:
        """The columns of `GOOD` with this wrong."""
        return {**GOOD_COLUMNS, **self.columns}


#: Stands for an argument that is left out.
MISSING = object()


def register(app: Celery) -> None:
    """Let an app know the task."""

    @app.task(name=TASK, shared=False)  # type: ignore[untyped-decorator]
    def add(x: int, y: int = 1) -> None: ...


def _nowhere() -> datetime:
    return LATER


def _when(kind: str, expression: str, says: str, reason: str | None = None) -> Bad:
    """A *when* as text, which is the same everywhere."""
    return Bad(
        f"{kind} {expression[:30]!r}",
        kind,
        {kind: expression},
        says,
        (f"--{kind}", expression),
        {"kind": kind, "expression": expression},
        reason=says if reason is None else reason,
    )


NAMES = (
    Bad("no name", "name", {"name": MISSING}, "name is missing"),
    Bad("empty name", "name", {"name": ""}, "name is ''", columns={"name": ""}, constraint="name"),
    Bad("blank name", "name", {"name": "  "}, "name is '  '"),
    Bad("name of a number", "name", {"name": 7}, "name is 7"),
    Bad(
        "long name", "name", {"name": "n" * 501}, "of 1 to 500 characters",
        columns={"name": "n" * 501}, constraint="name",
    ),
    Bad("name of two lines", "name", {"name": "a\nb"}, "one line of text"),
    Bad("name with a NUL", "name", {"name": "a\0b"}, "printable"),
    Bad("name of half a character", "name", {"name": "a\ud800"}, "printable"),
    Bad("no task", "task", {"task": MISSING}, "task is missing"),
    Bad("empty task", "task", {"task": ""}, "task is ''", columns={"task": ""}, constraint="task"),
    Bad("task that is a function", "task", {"task": len}, "task is <built-in function len>"),
)  # fmt: skip

WHENS = (
    Bad("no when", "cron", {"interval": MISSING}, "*when* is missing"),
    Bad("two whens", "interval", {"cron": "@daily", "interval": 60},
        "cron and interval are given; allowed is one", ("--cron", "@daily")),
    Bad("kind alone", "expression", {"interval": MISSING, "kind": "cron"}, "*when* is missing"),
    Bad("unknown kind", "kind", {"interval": MISSING, "kind": "weekly", "expression": "1"},
        "kind is 'weekly'", columns={"kind": "weekly"}, constraint="kind"),
    _when("cron", "61 * * * *", "minute '61'"),
    _when("cron", "* * * *", "4 fields"),
    _when("cron", "", "cron is ''", ""),
    _when("cron", "0 0 30 2 *", "never fires"),
    _when("cron", "\u0665 * * * *", "plain ASCII"),
    _when("cron", "@sometimes", "'@sometimes' is not known"),
    _when("cron", "* " * 300, "characters"),
    Bad("cron of a number", "cron", {"cron": 5}, "cron is 5"),
    _when("crontab", '{"minutes": 5}', "no field 'minutes'"),
    _when("crontab", "*/5 * * * *", "is not JSON"),
    Bad("crontab with a nowfun", "crontab", {"crontab": crontab(nowfun=_nowhere)}, "nowfun"),
    Bad("crontab of another kind", "crontab", {"crontab": solar("sunset", 1, 1)},
        "allowed is Celery's own crontab"),
    Bad("interval of none", "interval", {"interval": 0}, "interval '0'",
        ("--interval", "0"), {"expression": "0"}, reason="interval '0'"),
    Bad("interval backwards", "interval", {"interval": -60}, "interval '-60'",
        columns={"expression": "-60"}, reason="interval '-60'"),
    Bad("interval of ages", "interval", {"interval": 1e12}, "is not allowed",
        columns={"expression": "1000000000000"}, reason="is not allowed"),
    Bad("interval that is not a number", "interval", {"interval": float("nan")}, "interval 'nan'",
        columns={"expression": "nan"}, reason="interval 'nan'"),
    Bad("interval in words", "interval", {"interval": "often"}, "interval 'often'",
        ("--interval", "often"), {"expression": "often"}, reason="interval 'often'"),
    Bad("interval of yes", "interval", {"interval": True}, "interval is True"),
    Bad("interval of Celery", "interval", {"interval": schedule(60)}, "a number of seconds"),
    _when("rrule", "FREQ=SOMETIMES", "rrule 'FREQ=SOMETIMES'"),
    _when("rrule", "FREQ=DAILY;INTERVAL=0", "INTERVAL"),
    Bad("rrule of a list", "rrule", {"rrule": []}, "rrule is []"),
    _when("solar", "sunset here", "is not understood"),
    _when("solar", "sunset 95 10", "out of range"),
    _when("once", "tomorrow", "is not an instant"),
    Bad("once without a zone", "once", {"once": datetime(2030, 1, 1)},  # noqa: DTZ001 - the subject
        "a datetime with a time zone"),
    Bad("unknown zone", "timezone", {"timezone": "Europe/Atlantis"}, "timezone 'Europe/Atlantis'",
        ("--timezone", "Europe/Atlantis"), {"timezone": "Europe/Atlantis"},
        reason="timezone 'Europe/Atlantis'"),
    Bad("zone of nobody", "timezone", {"timezone": None}, "timezone is None"),
    Bad("zone of the machine", "timezone", {"timezone": "localtime"}, "timezone 'localtime'",
        ("--timezone", "localtime"), {"timezone": "localtime"}, reason="timezone 'localtime'"),
)  # fmt: skip

ARGUMENTS = (
    Bad("args of one text", "args", {"args": "abc"}, "args is 'abc'; allowed is a list",
        ("--args", '"abc"'), {"args": '"abc"'}, "args"),
    Bad("args that are code", "args", {"args": [len]}, "JSON cannot hold"),
    Bad("args beyond numbers", "args", {"args": [float("inf")]}, "JSON cannot hold"),
    Bad("args with a NUL", "args", {"args": ["a\0"]}, "without NUL"),
    Bad("args with half a character", "args", {"args": ["\ud800"]}, "JSON cannot hold"),
    Bad("args that JSON changes", "args", {"args": [{1: 2}]}, "JSON would change"),
    Bad("too few args", "args", {"args": []}, "missing 1 required positional argument: 'x'",
        ("--args", "[]")),
    Bad("too many args", "args", {"args": [1, 2, 3]}, "allowed is shop.add(x: int, y: int = 1)",
        ("--args", "[1, 2, 3]")),
    Bad("kwargs of a list", "kwargs", {"kwargs": [1]}, "kwargs is [1]",
        ("--kwargs", "[1]"), {"kwargs": "[1]"}, "kwargs"),
    Bad("an unknown kwarg", "kwargs", {"args": MISSING, "kwargs": {"x": 1, "z": 2}},
        "unexpected keyword argument 'z'"),
    Bad("options of a text", "options", {"options": "fast"}, "options is 'fast'",
        ("--options", '"fast"'), {"options": '"fast"'}, "options"),
    Bad("options with an id", "options", {"options": {"task_id": "x"}}, "options has task_id",
        ("--options", '{"task_id": "x"}')),
    Bad("an empty queue", "queue", {"queue": ""}, "queue is ''", ("--queue", "")),
    Bad("a long queue", "queue", {"queue": "q" * 256}, "of 1 to 255", ("--queue", "q" * 256)),
    Bad("queue of a list", "queue", {"queue": ["q"]}, "queue is ['q']"),
    Bad("two queues", "queue", {"queue": "a", "options": {"queue": "b"}}, "the 'b' of options",
        ("--queue", "a", "--options", '{"queue": "b"}')),
    Bad("priority of words", "priority", {"priority": "high"}, "priority is 'high'"),
    Bad("priority too high", "priority", {"priority": 256}, "from 0 to 255", ("--priority", "256")),
    Bad("headers of a text", "headers", {"options": {"headers": "x"}}, "headers is 'x'",
        ("--options", '{"headers": "x"}')),
)  # fmt: skip

POLICIES = (
    Bad("grace below 0", "misfire_grace", {"misfire_grace": -1}, "misfire_grace is -1",
        columns={"misfire_grace": timedelta(seconds=-1)}, constraint="misfire_grace"),
    Bad("grace in words", "misfire_grace", {"misfire_grace": "1h"}, "misfire_grace is '1h'"),
    Bad("grace of ages", "misfire_grace", {"misfire_grace": Decimal("1e12")}, "1000 years"),
    Bad("unknown catch_up", "catch_up", {"catch_up": "some"}, "one of latest, all, none",
        columns={"catch_up": "some"}, constraint="catch_up"),
    Bad("catch_up_limit of 0", "catch_up_limit", {"catch_up_limit": 0}, "catch_up_limit is 0",
        ("--catch-up-limit", "0"), {"catch_up_limit": 0}, "catch_up_limit"),
    Bad("catch_up_limit too high", "catch_up_limit", {"catch_up_limit": 10_001}, "from 1 to 10000",
        ("--catch-up-limit", "10001"), {"catch_up_limit": 10_001}, "catch_up_limit"),
    Bad("unknown overlap", "overlap", {"overlap": "queue"}, "one of allow, skip",
        columns={"overlap": "queue"}, constraint="overlap"),
    Bad("max_concurrent of 0", "max_concurrent", {"max_concurrent": 0}, "from 1 to 10000",
        ("--max-concurrent", "0"), {"max_concurrent": 0}, "max_concurrent"),
    Bad("max_concurrent of a half", "max_concurrent", {"max_concurrent": 1.5}, "a whole number"),
    Bad("jitter of 2 days", "jitter", {"jitter": timedelta(days=2)}, "from 0 to 1 day",
        ("--jitter", "2d"), {"jitter": timedelta(days=2)}, "jitter"),
    Bad("jitter of nothing", "jitter", {"jitter": None}, "jitter is None"),
    Bad("start in words", "start_at", {"start_at": "soon"}, "start_at is 'soon'",
        ("--start-at", "soon")),
    Bad("start without a zone", "start_at", {"start_at": datetime(2030, 1, 1)},  # noqa: DTZ001 - the subject
        "a datetime with a time zone"),
    Bad("start long ago", "start_at", {"start_at": datetime(1066, 1, 1, tzinfo=timezone.utc)},
        "from 1900", ("--start-at", "1066-01-01T00:00Z"),
        {"start_at": datetime(1066, 1, 1, tzinfo=timezone.utc)}, "start_at"),
    Bad("end before start", "end_at", {"start_at": LATER, "end_at": LATER}, "later than start_at",
        ("--start-at", "2030-01-01T00:00", "--end-at", "2030-01-01T00:00"),
        {"start_at": LATER, "end_at": LATER}, "end_after_start"),
    Bad("max_runs of 0", "max_runs", {"max_runs": 0}, "max_runs is 0",
        ("--max-runs", "0"), {"max_runs": 0}, "max_runs"),
    Bad("max_runs beyond counting", "max_runs", {"max_runs": 2**63}, "a whole number",
        ("--max-runs", str(2**63))),
    Bad("max_runs of yes", "max_runs", {"max_runs": True}, "max_runs is True"),
    Bad("exclude of a text", "exclude", {"exclude": "2030-12-25"}, "exclude is '2030-12-25'",
        columns={"exclude": '"2030-12-25"'}, constraint="exclude"),
    Bad("exclude that is nothing", "exclude", {"exclude": ["never"]}, "exclude 'never'",
        ("--exclude", "never"), {"exclude": '["never"]'}, reason="exclude 'never'"),
    Bad("exclude of all", "exclude", {"exclude": ["FREQ=DAILY"]}, "are excluded"),
    Bad("labels of a list", "labels", {"labels": ["a"]}, "labels is ['a']",
        columns={"labels": '["a"]'}, constraint="labels"),
    Bad("a label without a name", "labels", {"labels": {1: "a"}}, "names of text"),
    Bad("description of a number", "description", {"description": 7}, "description is 7"),
    Bad("max_attempts of 0", "max_attempts", {"max_attempts": 0}, "from 1 to 100",
        ("--max-attempts", "0"), {"max_attempts": 0}, "max_attempts"),
    Bad("unknown on_failure", "on_failure", {"on_failure": "cry"}, "one of dead, retry",
        columns={"on_failure": "cry"}, constraint="on_failure"),
    Bad("resend_after of 0", "resend_after", {"resend_after": 0}, "from 1 second to 1 year",
        ("--resend-after", "0"), {"resend_after": timedelta(0)}, "resend_after"),
    Bad("pause_after of 0", "pause_after", {"pause_after": 0}, "pause_after is 0",
        ("--pause-after", "0"), {"pause_after": 0}, "pause_after"),
    Bad("unknown state", "state", {"state": "asleep"}, "one of active, paused",
        columns={"state": "asleep"}, constraint="state"),
    Bad("a state that beat sets", "state", {"state": "finished"}, "one of active, paused"),
    Bad("paused in words", "paused", {"paused": "yes"}, "paused is 'yes'"),
    Bad("paused and active", "paused", {"paused": True, "state": "active"}, "not together"),
    Bad("an unknown field", "colour", {"colour": "red"}, "colour is not a field"),
    Bad("a misspelt field", "misfire_grase", {"misfire_grase": 1}, "did you mean misfire_grace?"),
)  # fmt: skip

BAD_INPUT = (*NAMES, *WHENS, *ARGUMENTS, *POLICIES)
