"""The code, the commands, the file and the columns of the page on managing schedules."""

import re
import shlex
import sys
from pathlib import Path

import psycopg
import pytest
from celery import Celery
from celery.bin.celery import celery
from click.testing import CliRunner

from celery_dbbeat import Schedules
from celery_dbbeat.api import documents
from tests.support.services import psycopg_url

PAGE = (Path(__file__).parents[2] / "docs" / "managing.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def app(database_url: str) -> Celery:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = database_url
    return app


def test_the_code_runs(app: Celery) -> None:
    names = {"app": app}
    for code in blocks("python"):
        exec(code, names)  # noqa: S102 - the page's own code
    found = Schedules(app).list()
    assert [info.name for info in found] == ["cleanup", "invoices"]
    assert found[0].description == "Sweeps"


def test_the_commands_run(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(
        "from celery import Celery\napp = Celery('shop', broker='memory://')\n"
        f"app.conf.dbbeat_url = {database_url!r}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^\$ celery (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 15
    for command in commands:
        done = CliRunner().invoke(celery, shlex.split(command))
        assert done.exit_code == 0, f"{command}: {done.output}"
    sys.modules.pop("shop")


def test_the_file_can_be_applied(app: Celery) -> None:
    (text,) = blocks("yaml")
    schedules = Schedules(app)
    assert schedules.apply(documents.read(text, as_yaml=True)).created == ("invoices",)


def test_the_columns_are_those_of_the_table(database_url: str) -> None:
    rows = re.search(r"^\| column \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert rows
    told = re.findall(r"^\| `(\w+)`", rows[1], re.MULTILINE)
    with psycopg.connect(psycopg_url(database_url)) as connection:
        found = connection.execute(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_name = 'dbbeat_schedule'"
        ).fetchall()
    assert sorted(told) == sorted(name for (name,) in found)
