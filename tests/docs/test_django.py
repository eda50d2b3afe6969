"""The page on Django: its project is made as it says, and its permissions are those there are."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from tests.docs.test_docs import ROOT, _blocks, _rows
from tests.support.services import psycopg_url

PAGE = ROOT / "docs/django.md"


def test_a_project_made_as_the_page_says_has_its_tables(
    tmp_path: Path, empty_database_url: str
) -> None:
    settings, celery = _blocks(PAGE, "python")
    commands = "".join(_blocks(PAGE, "sh")).splitlines()
    assert "python manage.py migrate" in commands
    url = make_url(empty_database_url)
    database = {
        "ENGINE": "django.db.backends.postgresql", "NAME": url.database, "HOST": url.host,
        "PORT": url.port, "USER": url.username, "PASSWORD": url.password or "",
    }  # fmt: skip

    def run(*command: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        environment.pop("DJANGO_SETTINGS_MODULE", None)
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    run("-m", "django", "startproject", "shop", ".")
    with (tmp_path / "shop/settings.py").open("a") as file:
        file.write(f"\nDATABASES = {{'default': {database!r}}}\n{settings}")
    (tmp_path / "shop/celery.py").write_text(celery)
    run("manage.py", "migrate", "--verbosity", "0")
    assert "no issues" in run("manage.py", "check")
    added = ("dbbeat", "add", "hello", "shop.celery.greet", "--cron", "*/1 * * * *")
    run("-m", "celery", "-A", "shop", *added, "--args", '["Ada"]')
    with psycopg.connect(psycopg_url(empty_database_url)) as connection:
        (name,) = connection.execute("SELECT name FROM dbbeat_schedule").fetchone() or ("",)
        rows = connection.execute(
            "SELECT 'dbbeat.' || codename FROM auth_permission p JOIN django_content_type t"
            " ON t.id = p.content_type_id WHERE t.app_label = 'dbbeat'"
        ).fetchall()
    assert name == "hello"
    told = {row[0].strip("`") for row in _rows("docs/django.md", "permission")}
    assert {row[0] for row in rows} == told


def test_the_settings_are_those_that_are_read() -> None:
    told = {row[0].strip("`") for row in _rows("docs/django.md", "Django setting")}
    read = (ROOT / "celery_dbbeat/contrib/django/place.py").read_text()
    assert told == set(re.findall(r'settings, "(DBBEAT_\w+)"', read))
