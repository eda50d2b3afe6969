"""What people get wrong is refused by its name, however they say it; nothing is written."""

import json
from typing import Any

import psycopg
import pytest
from celery import Celery
from celery.bin.base import CLIContext
from click.testing import CliRunner

from celery_dbbeat import Schedules
from celery_dbbeat.api import documents
from celery_dbbeat.cli import dbbeat
from celery_dbbeat.errors import FieldError
from celery_dbbeat.store.database import Database
from tests.api.kit import Clerk
from tests.store.kit import take
from tests.support.bad_input import BAD_INPUT, GOOD, TASK, Bad, register

SQL = [bad for bad in BAD_INPUT if bad.columns]


def ids(cases: Any) -> dict[str, Any]:  # noqa: ANN401 - pytest's
    return {"argvalues": cases, "ids": [bad.id for bad in cases]}


@pytest.fixture(scope="module")
def one_database(databases: Any, template: str) -> Any:  # noqa: ANN401 - pytest's
    name = "dbbeat_bad_input"
    yield databases.create(name, template)
    databases.drop(name)


@pytest.fixture
def database_url(one_database: str) -> str:
    """One for all: nothing is written."""
    return one_database


@pytest.fixture
def app(app: Celery) -> Celery:
    register(app)
    return app


def count(clerk: Clerk) -> int:
    return int(clerk.value("SELECT count(*) FROM dbbeat_schedule"))


def test_there_are_many_of_them() -> None:
    assert len(BAD_INPUT) >= 60
    assert len({bad.id for bad in BAD_INPUT}) == len(BAD_INPUT)


def test_what_is_good_is_good(schedules: Schedules) -> None:
    assert schedules.definitions.problems(GOOD) == []


@pytest.mark.parametrize("bad", **ids(BAD_INPUT))
def test_by_the_api(schedules: Schedules, clerk: Clerk, bad: Bad) -> None:
    """As one of several, so that the others show whether anything is written."""
    other = {**GOOD, "name": "other"}
    with pytest.raises(FieldError) as found:
        schedules.create_many([other, bad.definition])
    assert found.value.field == bad.field
    assert bad.says in str(found.value)
    assert count(clerk) == 0


@pytest.mark.parametrize("bad", **ids(BAD_INPUT))
def test_by_a_form(schedules: Schedules, bad: Bad) -> None:
    """All that is wrong is told at once, each with its field; nothing else is."""
    problems = schedules.definitions.problems(bad.definition)
    assert {problem.field for problem in problems} == {bad.field}


def in_json(bad: Bad) -> bool:
    try:
        return bool(json.loads(json.dumps(bad.definition)) == bad.definition)
    except (TypeError, ValueError):
        return False


@pytest.mark.parametrize("bad", **ids([bad for bad in BAD_INPUT if in_json(bad)]))
@pytest.mark.parametrize("as_yaml", [False, True], ids=["json", "yaml"])
def test_by_a_file(schedules: Schedules, bad: Bad, as_yaml: bool) -> None:  # noqa: FBT001 - a parameter
    definition = bad.definition
    document = {"schedules": {definition.pop("name", "x"): definition}}
    if bad.id in {"no name", "name of a number", "name with a NUL", "name of half a character"}:
        return  # a file has no such thing
    with pytest.raises(FieldError) as found:
        schedules.compare(
            documents.read(documents.write(document, as_yaml=as_yaml), as_yaml=as_yaml)
        )
    assert found.value.field == bad.field


@pytest.mark.parametrize("bad", **ids([bad for bad in BAD_INPUT if bad.options]))
def test_by_the_command_line(app: Celery, clerk: Clerk, bad: Bad) -> None:
    """What is no value of its option is a wrong use; the rest is refused as by the API."""
    assert bad.options is not None
    good = [] if "interval" not in bad.definition else ["--interval", "60"]
    good += [] if "--args" in bad.options else ["--args", "[1]"]
    done = CliRunner().invoke(
        dbbeat,
        ["add", "good", TASK, *good, *bad.options],
        obj=CLIContext(app=app, no_color=True, workdir=None),
    )
    assert done.exit_code in {1, 2}, done.output
    assert "Error:" in done.output
    assert bad.field in done.output.replace("-", "_")
    if done.exit_code == 1:
        assert bad.says in done.output
    assert count(clerk) == 0


@pytest.mark.parametrize("bad", **ids([bad for bad in SQL if bad.constraint]))
def test_by_sql_what_the_database_knows(clerk: Clerk, bad: Bad) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as found:
        clerk.add(**bad.row)
    assert bad.constraint in str(found.value.diag.constraint_name)
    assert count(clerk) == 0


@pytest.mark.parametrize("bad", **ids([bad for bad in SQL if not bad.constraint and bad.reason]))
def test_by_sql_what_only_beat_knows(database_url: str, clerk: Clerk, bad: Bad) -> None:
    clerk.add(**bad.row)
    with Database(database_url, None, 5.0) as store, store.transaction() as transaction:
        ((_, plan),) = take(transaction)
    clerk.do("DELETE FROM dbbeat_schedule")
    assert plan.ends == "invalid"
    assert bad.reason in str(plan.reason)
