"""The code and the commands of the page on backfills are run."""

import re
import shlex
import sys
from contextlib import closing
from pathlib import Path

import pytest
from celery import Celery
from celery.bin.celery import celery
from click.testing import CliRunner

from celery_dbbeat import Schedules
from tests.api.kit import Clerk

PAGE = (Path(__file__).parents[2] / "docs" / "backfill.md").read_text()


@pytest.fixture(autouse=True)
def invoices(database_url: str) -> None:
    with closing(Clerk(database_url)) as clerk:
        clerk.add("invoices")


def test_the_code_runs(database_url: str) -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.update(dbbeat_url=database_url, dbbeat_retention=36_500)
    names = {"schedules": Schedules(app)}
    for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(code, names)  # noqa: S102 - the page's own code


def test_the_commands_run(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(
        "from celery import Celery\napp = Celery('shop', broker='memory://')\n"
        f"app.conf.update(dbbeat_url={database_url!r}, dbbeat_retention=36_500)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    commands = re.findall(r"^\$ celery (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        done = CliRunner().invoke(celery, shlex.split(command))
        assert done.exit_code == 0, f"{command}: {done.output}"
    sys.modules.pop("shop")
