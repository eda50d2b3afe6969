"""The code and the commands of the page on explaining are run."""

import re
import shlex
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import get_args

import pytest
from celery import Celery
from celery.bin.celery import celery
from click.testing import CliRunner

from celery_dbbeat import Schedules
from celery_dbbeat.rules.completeness import Gap
from tests.api.kit import Clerk

PAGE = (Path(__file__).parents[2] / "docs" / "explain.md").read_text()


@pytest.fixture(autouse=True)
def invoices(database_url: str) -> None:
    with closing(Clerk(database_url)) as clerk:
        clerk.add("invoices", kind="cron", expression="0 6 1 * *", timezone="Europe/Berlin")


def test_the_code_runs(database_url: str) -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = database_url
    names = {"schedules": Schedules(app), "timedelta": timedelta}
    for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(code, names)  # noqa: S102 - the page's own code


def test_the_commands_run(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop.py").write_text(
        "from celery import Celery\napp = Celery('shop', broker='memory://')\n"
        f"app.conf.dbbeat_url = {database_url!r}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    commands = re.findall(r"^\$ celery (.*)$", PAGE, re.MULTILINE)
    assert len(commands) == 7
    for command in commands:
        done = CliRunner().invoke(celery, shlex.split(command))
        assert done.exit_code == 0, f"{command}: {done.output}"
    sys.modules.pop("shop")


def test_the_states_of_a_gap_are_those_of_the_code() -> None:
    told = re.findall(r"^- `(\w+)`: ", PAGE, re.MULTILINE)
    assert set(told) == set(get_args(Gap.__annotations__["state"]))
