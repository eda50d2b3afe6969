"""What the documents say is run, or compared with what is there."""

import re
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path

import psycopg
import pytest
from celery import Celery

from celery_dbbeat.rules.trigger import KINDS, parse_trigger
from celery_dbbeat.settings import PREFIX, Settings
from tests.support.services import psycopg_url

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("example_project/*.md")])


def _blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def _rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the table whose first heading this is."""
    text = (ROOT / page).read_text()
    table = re.search(rf"^\| {heading} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, f"{page} has no table that begins with {heading}"
    return [re.split(r" \| ", row.strip("| ")) for row in table[1].splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_app_of_the_readme_uses_the_scheduler() -> None:
    (code,) = _blocks(ROOT / "README.md", "python")
    names: dict[str, Celery] = {}
    exec(code, names)  # noqa: S102 - the README's own code
    assert names["app"].conf.beat_scheduler == "celery_dbbeat:DatabaseScheduler"
    assert Settings.read(names["app"].conf, {}).url == "postgresql+psycopg://shop@localhost/shop"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if _blocks(page, "sql")], ids=lambda page: page.name
)
def test_sql_runs(page: Path, database_url: str) -> None:
    with psycopg.connect(psycopg_url(database_url)) as connection:
        for block in _blocks(page, "sql"):
            connection.execute(block)


def test_every_setting_is_in_the_table_and_nothing_else() -> None:
    told = {row[0].strip("`") for row in _rows("docs/settings.md", "setting")}
    assert told == {PREFIX + field.name for field in fields(Settings)}


def test_the_kinds_are_those_of_the_code_and_their_examples_fire() -> None:
    rows = _rows("docs/schedules.md", "kind")
    assert {row[0].strip("`") for row in rows} == set(KINDS)
    for kind, _, example in rows:
        trigger = parse_trigger(kind.strip("`"), example.strip("`"))
        assert trigger.next(datetime(2026, 1, 1, tzinfo=timezone.utc)) is not None


def test_the_states_of_a_tick_are_those_of_the_table(database_url: str) -> None:
    told = {row[0].strip("`") for row in _rows("docs/schedules.md", "state")}
    with psycopg.connect(psycopg_url(database_url)) as connection:
        row = connection.execute(
            "SELECT pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE conname = 'dbbeat_tick_state_known' AND conrelid = 'dbbeat_tick'::regclass"
        ).fetchone()
    assert row is not None
    assert told == set(re.findall(r"'(\w+)'", row[0]))


def test_make_knows_the_targets_that_are_named() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {
        target for page in PAGES for target in re.findall(r"`?make ([a-z]+)\b", page.read_text())
    }
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    assert {"demo", "test"} <= named
    assert {name for name in named if re.search(rf"`make {name}", _all_pages())} <= targets


def _all_pages() -> str:
    return "\n".join(page.read_text() for page in PAGES)
