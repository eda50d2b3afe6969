"""Schedules listed, shown, made, changed, deleted from the command line."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

import click
import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.shell_completion import ShellComplete
from click.testing import CliRunner, Result

from celery_dbbeat import Schedules
from celery_dbbeat.cli import dbbeat
from tests.api.kit import Clerk
from tests.cli.conftest import Run

Cli = Callable[..., Result]


@pytest.fixture
def app(database_url: str) -> Celery:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = database_url
    return app


@pytest.fixture
def schedules(app: Celery) -> Schedules:
    return Schedules(app)


@pytest.fixture
def clerk(database_url: str) -> Iterator[Clerk]:
    with closing(Clerk(database_url)) as somebody:
        yield somebody


@pytest.fixture
def cli(app: Celery) -> Cli:
    """Runs a command in this process; `says` is what is answered to its question."""

    def run(*arguments: str, says: str = "", colour: bool = False) -> Result:
        return CliRunner().invoke(
            dbbeat,
            arguments,
            input=says,
            obj=CLIContext(app=app, no_color=not colour, workdir=None),
            color=colour,
        )

    return run


def out(result: Result, code: int = 0) -> str:
    assert result.exit_code == code, result.output
    return result.stdout


class TestList:
    def test_a_table(self, cli: Cli, schedules: Schedules, clerk: Clerk) -> None:
        schedules.create("hourly", "shop.sync", interval=3600, queue="slow")
        schedules.create("nightly", "shop.bill", cron="0 3 * * *", timezone="Europe/Berlin")
        schedules.create("weekly", "shop.mail", crontab={"minute": 0, "hour": 6}, paused=True)
        clerk.do("UPDATE dbbeat_cursor SET replan_from = NULL, due_at = now() + interval '3 min'")
        clerk.do(
            "UPDATE dbbeat_cursor SET due_at = now() - interval '5 min'"
            " WHERE schedule_id = (SELECT id FROM dbbeat_schedule WHERE name = 'nightly')"
        )
        head, *rows = out(cli("list")).splitlines()
        assert head.split() == ["NAME", "STATE", "NEXT", "RUN", "WHEN", "TASK", "QUEUE"]
        assert [re.split(r"  +", row) for row in rows] == [
            ["hourly", "active", "in 3 min", "every 1 h", "shop.sync", "slow"],
            ["nightly", "active", "5 min late", "cron 0 3 * * * Europe/Berlin", "shop.bill", "-"],
            ["weekly", "paused", "in 3 min", "crontab 0 6 * * *", "shop.mail", "-"],
        ]

    def test_one_that_waits_for_a_run(self, cli: Cli, clerk: Clerk) -> None:
        clerk.add_due("a")
        clerk.do("UPDATE dbbeat_cursor SET due_at = NULL, waits_for = 'run', waits_since = now()")
        assert re.search(r"a +active +waits ", out(cli("list")))
        assert re.search(r"waiting +1 for a run to end", out(cli("status")))

    def test_colours_for_whom_wants_them(self, cli: Cli, schedules: Schedules) -> None:
        schedules.create("a", "t", interval=60, paused=True)
        paused = click.style("paused", fg="yellow")
        assert paused in out(cli("list", colour=True))
        assert paused not in out(cli("list"))

    def test_page_by_page_by_conditions(self, cli: Cli, schedules: Schedules) -> None:
        schedules.create_many(
            {"name": f"s{n}", "task": "t", "interval": 60, "labels": {"odd": n % 2}, "queue": "q"}
            for n in range(9)
        )
        page = cli("list", "-l", "odd=1", "--queue", "q", "-n", "2", "--json")
        assert [one["name"] for one in json.loads(out(page))] == ["s1", "s3"]
        page = cli("list", "-l", "odd=1", "-n", "2", "--after", "s3")
        assert "s5" in out(page)
        assert page.stderr == ""
        assert "--after 's1'" in cli("list", "-l", "odd=1", "-n", "1").stderr
        assert len(json.loads(out(cli("list", "--all", "--json")))) == 9

    def test_none(self, cli: Cli) -> None:
        result = cli("list", "--text", "nothing")
        assert (out(result), result.stderr) == ("", "There is no such schedule.\n")


class TestShow:
    def test_what_there_is_to_know(self, cli: Cli, clerk: Clerk) -> None:
        clerk.add("a", expression="90", labels={"x": 1}, description="two\nlines \x1b[31m")
        lines = out(cli("show", "a")).splitlines()
        assert [line.split()[0] for line in lines[:3]] == ["name", "state", "next"]
        assert "when            Every 90 seconds" in lines
        assert 'labels          {"x": 1}' in lines
        assert "description     two lines ?[31m" in lines

    def test_one_that_is_invalid(self, cli: Cli, clerk: Clerk) -> None:
        clerk.add("a", kind="cron", expression="99 * * * *", state="invalid", reason="minute '99'")
        text = out(cli("show", "a"))
        assert "cron 99 * * * *" in text
        assert re.search("reason +minute '99'", text)

    def test_in_json(self, cli: Cli, schedules: Schedules) -> None:
        info = schedules.create("a", "t", interval=90)
        found = json.loads(out(cli("show", "a", "-j")))
        assert (found["id"], found["misfire_grace"]) == (str(info.id), 3600.0)

    def test_one_that_is_not_there(self, cli: Cli) -> None:
        result = cli("show", "a")
        assert (result.exit_code, result.stderr) == (1, "Error: there is no schedule 'a'\n")


class TestAdd:
    def test_with_all_options(self, cli: Cli, schedules: Schedules) -> None:
        said = out(
            cli(
                *("add", "a", "t", "--cron", "0 6 1 * *", "--timezone", "Europe/Berlin"),
                *("--args", "[1]", "--kwargs", '{"x": 2}', "--queue", "q", "--priority", "3"),
                *("--misfire-grace", "none", "--catch-up", "all", "--jitter", "1m30s"),
                *("--end-at", "2090-01-01T00:00", "--max-runs", "9", "-l", "team=a", "-l", "n=1"),
                *("--description", "why", "--resend-after", "5m", "--paused", "--note", "wait"),
            )
        )
        assert said == "The schedule 'a' is there: paused.\n"
        info = schedules.get("a")
        assert (info.expression, info.timezone) == ("0 6 1 * *", "Europe/Berlin")
        assert (info.args, info.kwargs) == ([1], {"x": 2})
        assert info.options == {"queue": "q", "priority": 3}
        assert (info.misfire_grace, info.catch_up) == (None, "all")
        assert info.jitter.total_seconds() == 90
        assert info.end_at == datetime(2089, 12, 31, 23, tzinfo=timezone.utc)
        assert (info.max_runs, info.labels) == (9, {"team": "a", "n": 1})
        assert (info.note, info.state) == ("wait", "paused")

    def test_it_tells_when_it_runs(self, cli: Cli) -> None:
        said = out(cli("add", "a", "t", "--once", "2090-01-01T00:00:00Z"))
        assert re.search(r"is there: next run in \d+ d, at 2090-01-01 00:00:00 UTC\.", said)

    def test_every_month(self, cli: Cli, schedules: Schedules) -> None:
        out(cli("add", "a", "t", "--interval", "1 month"))
        assert schedules.get("a").expression == "1 month"
        assert "every 1 month" in out(cli("list"))

    def test_dry(self, cli: Cli, schedules: Schedules) -> None:
        said = out(cli("add", "a", "t", "--interval", "2d", "--dry-run"))
        assert "would be made" in said
        assert "expression: 172800" in said
        assert json.loads(out(cli("add", "a", "t", "--interval", "5", "--dry-run", "-j")))
        assert schedules.list() == []

    def test_a_name_that_is_there(self, cli: Cli, schedules: Schedules) -> None:
        schedules.create("a", "t", interval=60)
        assert "is taken" in cli("add", "a", "t", "--interval", "30").stderr
        out(cli("add", "a", "t", "--interval", "30", "--on-conflict", "update"))
        assert schedules.get("a").expression == "30"


class TestEdit:
    def test_what_is_given(self, cli: Cli, schedules: Schedules) -> None:
        schedules.create("a", "t", interval=60, queue="q", max_runs=3)
        said = out(cli("edit", "a", "--interval", "5m", "--unset", "max-runs", "--name", "b"))
        assert said.startswith("The schedule 'b' is at version 2: next run in ")
        info = schedules.get("b")
        assert (info.expression, info.max_runs, info.options) == ("300", None, {"queue": "q"})

    def test_dry(self, cli: Cli, schedules: Schedules) -> None:
        schedules.create("a", "t", interval=60)
        assert "expression: 60 → 30" in out(cli("edit", "a", "--interval", "30", "--dry-run"))
        assert schedules.get("a").version == 1

    def test_of_another_version(self, cli: Cli, schedules: Schedules) -> None:
        schedules.create("a", "t", interval=60)
        result = cli("edit", "a", "--interval", "30", "--version", "7")
        assert result.exit_code == 1
        assert "is at version 1, not 7" in result.stderr

    def test_nothing_to_change_is_a_wrong_use(self, cli: Cli) -> None:
        assert cli("edit", "a").exit_code == 2


class TestDelete:
    def test_one(self, cli: Cli, schedules: Schedules) -> None:
        schedules.create("a", "t", interval=60)
        assert out(cli("delete", "a")) == "Deleted: 1.\n"
        assert schedules.list() == []

    def test_many_are_asked_for(self, cli: Cli, schedules: Schedules) -> None:
        schedules.create_many({"name": n, "task": "t", "interval": 60} for n in "abc")
        result = cli("delete", "a", "b", says="n\n")
        assert result.exit_code == 1
        assert "Delete 2 schedules?" in result.stderr
        assert len(schedules.list()) == 3
        out(cli("delete", "a", "b", says="y\n"))
        assert [one.name for one in schedules.list()] == ["c"]

    def test_by_a_condition(self, cli: Cli, schedules: Schedules, clerk: Clerk) -> None:
        schedules.create_many({"name": n, "task": "t", "interval": 60} for n in "abc")
        schedules.create("d", "other", interval=60)
        clerk.add("e", owner="code")
        dry = out(cli("delete", "--task", "t", "--dry-run"))
        assert dry == "Would be deleted: 3.\n  a\n  b\n  c\n"
        assert out(cli("delete", "--task", "t", "-y", "-j")) == '{"deleted": 3}\n'
        assert [one.name for one in schedules.list()] == ["d", "e"]

    def test_one_that_is_not_there_and_none_is_deleted(
        self, cli: Cli, schedules: Schedules
    ) -> None:
        schedules.create("a", "t", interval=60)
        assert cli("delete", "a", "b", "-y").exit_code == 1
        assert len(schedules.list()) == 1

    @pytest.mark.parametrize("arguments", [[], ["a", "--state", "paused"]])
    def test_a_wrong_use_is_2(self, cli: Cli, arguments: list[str]) -> None:
        assert cli("delete", *arguments).exit_code == 2


class TestPreview:
    def test_of_a_schedule_in_its_zone(self, cli: Cli, schedules: Schedules) -> None:
        schedules.create("a", "t", cron="30 2 * * *", timezone="Europe/Berlin")
        lines = out(cli("preview", "a", "-n", "2", "--after", "2090-03-25T00:00")).splitlines()
        assert re.split(r"  +", lines[0]) == ["IN Europe/Berlin", "IN UTC", "FROM NOW", "REMARK"]
        assert "2090-03-25 02:30:00+01:00  2090-03-25 01:30:00" in lines[1]
        assert "2090-03-26 03:00:00+02:00" in lines[2]
        assert lines[2].endswith("clocks skip its time")

    def test_of_what_is_not_stored(self, cli: Cli) -> None:
        found = cli("preview", "--cron", "@daily", "--after", "2090-01-01T00:00", "-n", "1", "-j")
        (one,) = json.loads(out(found))
        assert one["nominal_at"] == "2090-01-02T00:00:00+00:00"

    @pytest.mark.parametrize("arguments", [[], ["a", "--cron", "@daily"]])
    def test_a_wrong_use_is_2(self, cli: Cli, arguments: list[str]) -> None:
        assert cli("preview", *arguments).exit_code == 2

    def test_what_is_wrong_is_1(self, cli: Cli) -> None:
        result = cli("preview", "--cron", "61 * * * *")
        assert (result.exit_code, "minute '61'" in result.stderr) == (1, True)


class TestStatus:
    def test_on_one_screen(self, cli: Cli, schedules: Schedules, clerk: Clerk) -> None:
        schedules.create("a", "t", interval=60)
        nightly = clerk.add_due("b")[0]
        clerk.tick(nightly, state="recorded", sent_at=None)
        clerk.dead(nightly)
        clerk.do(
            "INSERT INTO dbbeat_replica (id, hostname, pid, release, ready)"
            " VALUES ('r1', 'host', 7, '1', true), ('r2', 'host', 8, '1', false)"
        )
        clerk.do(
            "UPDATE dbbeat_lease SET holder = 'r1', acquired_at = now(),"
            " expires_at = now() + interval '9 s'"
        )
        text = out(cli("status"))
        assert re.search(r"r1 +host +leads +256 of 256", text)
        assert re.search(r"r2 +host +not ready +0 of 256", text)
        assert "schedules  2 active, 0 paused, 0 finished, 0 invalid" in text
        assert re.search(r"due now +[12], next ", text)
        assert re.search(r"late +1\n", text)
        assert re.search(r"unsent +1, oldest \d+ s", text)
        assert re.search(r"dead +1\n", text)
        assert re.search(r"sent +2 in the last minute", text)

    def test_in_json_with_nothing_there(self, cli: Cli) -> None:
        found = json.loads(out(cli("status", "--json")))
        assert found["replicas"] == []
        assert found["schedules"]["active"] == {"value": 0, "exact": True}
        assert found["next_due"] is None


FILE = """\
set: billing
schedules:
  invoices:
    task: shop.bill
    cron: 0 6 1 * *
    start_at: 2030-01-01 00:00
    timezone: Europe/Berlin
    args: [monthly, off, 12:30]
  launch: {task: shop.mail, once: 2090-01-31T09:30:00+01:00, misfire_grace: null}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "schedules.yaml"
    path.write_text(FILE)
    return path


class TestFiles:
    def test_imported_once(self, cli: Cli, schedules: Schedules, file: Path) -> None:
        assert out(cli("import", str(file))) == "Imported: 2 created.\n"
        info = schedules.get("invoices")
        assert info.start_at == datetime(2029, 12, 31, 23, tzinfo=timezone.utc)
        assert info.args == ["monthly", "off", "12:30"]
        assert schedules.get("launch").misfire_grace is None
        again = cli("import", str(file))
        assert (again.exit_code, "'invoices', 'launch'" in again.stderr) == (1, True)
        said = out(cli("import", str(file), "--on-conflict", "update", "-j"))
        assert json.loads(said) == {"created": 0, "updated": 0, "unchanged": 2}

    def test_dry(self, cli: Cli, schedules: Schedules, file: Path) -> None:
        assert out(cli("import", str(file), "--dry-run")) == "All 2 could be read.\n"
        assert schedules.list() == []

    @pytest.mark.parametrize("form", ["yaml", "json"])
    def test_what_is_exported_makes_the_same_anew(
        self, cli: Cli, schedules: Schedules, tmp_path: Path, file: Path, form: str
    ) -> None:
        out(cli("import", str(file)))
        schedules.create("tick", "t", interval=0.5, jitter=1.5, paused=True, note="on: hold")
        schedules.create("cron", "t", crontab={"minute": "*/5"}, queue="q", options={"expires": 5})
        before = {info.name: info.draft() for info in schedules.list()}
        target = tmp_path / f"all.{form}"
        assert "Written: 4" in cli("export", "-o", str(target)).stderr
        schedules.delete_many(before)
        assert out(cli("import", str(target))) == "Imported: 4 created.\n"
        assert {info.name: info.draft() for info in schedules.list()} == before

    def test_export_is_json_in_a_pipe_and_of_people(
        self, cli: Cli, schedules: Schedules, clerk: Clerk
    ) -> None:
        schedules.create("a", "t", interval=60)
        clerk.add("b", owner="code")
        document = json.loads(out(cli("export")))
        assert document == {"schedules": {"a": {"task": "t", "interval": 60}}}
        assert json.loads(out(cli("export", "--owner", "code")))["schedules"].keys() == {"b"}

    def test_a_file_that_is_not_there_is_a_wrong_use(self, cli: Cli) -> None:
        result = cli("import", "nowhere.yaml")
        assert result.exit_code == 2
        assert "'nowhere.yaml' does not exist" in result.stderr

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("", "has no schedules"),
            ("[1]", "has no schedules"),
            ("schedules: [", "is not YAML"),
            ("schedules: {a: 1}", "schedule 'a' is 1"),
            ("schedules: {a: {name: b, task: t}}", "has a name inside"),
            ("schedules: {a: {task: t, interval: 1}, a: {task: u}}", "'a' is there twice"),
            ("schedules: {a: {task: t, task: u}}", "'task' is there twice"),
            ("schedules: {}\ncolour: red", "the file has colour"),
            ("schedules: {}\nset: 7", "set is 7"),
            ("schedules: {a: !!python/object/apply:os.getcwd []}", "is not YAML"),
            ("schedules: {a: {task: t, interval: 1, args: 5}}", "args is 5"),
            ("schedules: {[1]: {}}", "is not YAML"),
        ],
    )
    def test_what_is_wrong_in_a_file(
        self, cli: Cli, schedules: Schedules, file: Path, text: str, says: str
    ) -> None:
        file.write_text(text)
        for command in (["import", str(file)], ["apply", "-y", "-f", str(file)]):
            result = cli(*command)
            assert result.exit_code == 1, result.output
            assert says in result.stderr
        assert schedules.list() == []

    def test_json_is_read_as_strictly(self, cli: Cli, tmp_path: Path) -> None:
        path = tmp_path / "x.json"
        for text in ("{", '{"schedules": {"a": {}, "a": {}}}', "[" * 100_000):
            path.write_text(text)
            assert cli("import", str(path)).exit_code == 1
        path.write_bytes(b"\xff")
        assert "cannot be read" in cli("import", str(path)).stderr


class TestApply:
    def test_the_difference_is_shown_and_made(
        self, cli: Cli, schedules: Schedules, file: Path
    ) -> None:
        schedules.create("launch", "shop.mail", once="2080-01-01T00:00Z", paused=True)
        schedules.create("mine", "t", interval=60)
        dry = out(cli("apply", "-f", str(file), "--dry-run"))
        assert "+ invoices\n~ launch\n    expression: 2080-01-01T00:00Z → 2090-01-31T09:30" in dry
        assert "To make: 1, to change: 1, to delete: 0" in dry
        assert len(schedules.list()) == 2
        assert cli("apply", "-f", str(file), says="n\n").exit_code == 1
        assert len(schedules.list()) == 2
        out(cli("apply", "-f", str(file), says="y\n"))
        launch = schedules.get("launch")
        assert (launch.state, launch.expression) == ("paused", "2090-01-31T09:30:00+01:00")
        assert launch.labels == {"dbbeat-set": "billing"}
        assert schedules.get("mine").version == 1

    def test_again_it_is_as_it_should_be(self, cli: Cli, schedules: Schedules, file: Path) -> None:
        out(cli("apply", "-f", str(file), "-y"))
        assert "as it should be: 2." in out(cli("apply", "-f", str(file)))
        assert {one.version for one in schedules.list()} == {1}

    def test_prune_deletes_what_an_earlier_file_of_the_set_had(
        self, cli: Cli, schedules: Schedules, file: Path
    ) -> None:
        out(cli("apply", "-f", str(file), "-y"))
        schedules.create("mine", "t", interval=60)
        schedules.create("theirs", "t", interval=60, labels={"dbbeat-set": "other"})
        file.write_text(FILE.replace("  launch:", "  start:"))
        said = json.loads(out(cli("apply", "-f", str(file), "--prune", "-y", "-j")))
        assert (said["created"], said["deleted"]) == (["start"], ["launch"])
        assert [one.name for one in schedules.list()] == ["invoices", "mine", "start", "theirs"]

    def test_without_a_set_nothing_is_pruned(self, cli: Cli, file: Path) -> None:
        file.write_text("schedules: {}")
        assert "set is missing" in cli("apply", "-f", str(file), "--prune").stderr

    def test_the_codes_are_refused_and_nothing_is_written(
        self, cli: Cli, schedules: Schedules, clerk: Clerk, file: Path
    ) -> None:
        clerk.add("launch", owner="code")
        result = cli("apply", "-f", str(file), "-y")
        assert result.exit_code == 1
        assert "'launch' comes from the app's beat_schedule" in result.stderr
        assert len(schedules.list()) == 1


def test_the_shell_completes_commands_and_options() -> None:
    complete = ShellComplete(dbbeat, {}, "dbbeat", "_DBBEAT_COMPLETE")
    assert "preview" in [item.value for item in complete.get_completions([], "pre")]
    assert "--timezone" in [item.value for item in complete.get_completions(["add"], "--ti")]
    states = complete.get_completions(["list", "--state"], "pa")
    assert [item.value for item in states] == ["paused"]


def test_as_people_run_it(celery: Run, database_url: str) -> None:
    done = celery("add", "a", "t", "--interval", "1h", SHOP_URL=database_url)
    assert (done.returncode, done.stderr) == (0, "")
    done = celery("list", SHOP_URL=database_url)
    assert "every 1 h" in done.stdout


@pytest.mark.parametrize(
    "command",
    [["list"], ["show", "a"], ["status"], ["delete", "a"], ["export"], ["preview", "a"]],
)
def test_an_unreachable_database_is_69(cli: Cli, app: Celery, command: list[str]) -> None:
    app.conf.dbbeat_url = "postgresql://nobody@127.0.0.1:1/none"
    assert cli(*command).exit_code == 69


def test_what_is_unset_is_as_if_it_had_never_been_said(cli: Cli, schedules: Schedules) -> None:
    schedules.create(
        "a", "t", interval=60, labels={"b": 1}, description="c", exclude=["2030-01-01"]
    )
    out(cli("edit", "a", "--unset", "labels", "--unset", "description", "--unset", "exclude"))
    info = schedules.get("a")
    assert (info.labels, info.description, info.exclude) == ({}, "", [])
    wrong = cli("edit", "a", "--unset", "interval")
    assert (wrong.exit_code, "give another *when* instead" in wrong.stderr) == (2, True)
    wrong = cli("edit", "a", "--queue", "q", "--unset", "queue")
    assert (wrong.exit_code, "say one of the two" in wrong.stderr) == (2, True)
    assert schedules.get("a").version == info.version


def test_a_dry_run_of_a_name_that_is_taken_is_refused(cli: Cli, schedules: Schedules) -> None:
    schedules.create("a", "t", interval=60)
    wrong = cli("add", "a", "t", "--interval", "5", "--dry-run")
    assert (wrong.exit_code, "which is taken" in wrong.stderr) == (1, True)
    shown = out(cli("add", "b", "t", "--interval", "5", "--dry-run"))
    assert "None" not in shown
    assert "{}" not in shown


def test_a_note_is_for_what_is_paused(cli: Cli) -> None:
    assert cli("add", "a", "t", "--interval", "5", "--note", "why").exit_code == 2


def test_a_name_that_is_taken_when_renaming_tells_no_word_of_on_conflict(
    cli: Cli, schedules: Schedules
) -> None:
    schedules.create_many({"name": name, "task": "t", "interval": 60} for name in "ab")
    wrong = cli("edit", "a", "--name", "b")
    assert (wrong.exit_code, "on_conflict" in wrong.stderr) == (1, False)


def test_a_source_that_does_not_exist_is_told_which_do(cli: Cli) -> None:
    wrong = cli("import", "django-celery-baet")
    assert wrong.exit_code == 2
    assert "django-celery-beat" in wrong.stderr
