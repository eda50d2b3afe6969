"""The code of docs/web.md is run, in its order."""

import re
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from click.testing import CliRunner
from starlette.testclient import TestClient

from celery_dbbeat.cli import dbbeat
from celery_dbbeat.contrib.web import hash_password

PAGE = (Path(__file__).parents[2] / "docs" / "web.md").read_text()


def test_the_code_of_the_page(monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = database_url
    for name in ("ADA_HASH", "BOB_HASH"):
        monkeypatch.setenv(name, hash_password("a password"))
    monkeypatch.setenv("SHOP_SECRET", "x" * 32)
    names: dict[str, Any] = {"app": app}
    for code in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        exec(code, names)  # noqa: S102 - the page's own code
    with TestClient(names["api"]) as client:
        assert client.get("/ops/schedules/").url.path == "/ops/schedules/login"
    with TestClient(names["web"]) as client:
        assert client.get("/").status_code == 403
    flask = names["flask"].test_client()
    assert flask.get("/ops/schedules/login").status_code == 200


def test_the_options_are_those_of_the_command() -> None:
    shown = CliRunner().invoke(dbbeat.commands["web"], ["--help"]).output
    options = set(re.findall(r"`(--[a-z-]+)", PAGE))
    assert len(options) >= 7
    assert options <= set(re.findall(r"--[a-z-]+", shown))
