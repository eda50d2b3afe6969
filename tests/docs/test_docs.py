"""What the documents say is run, or compared with what is there."""

import json
import re
from dataclasses import fields, replace
from datetime import date, datetime, time, timezone
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from celery_dbbeat.rules.describe import describe
from celery_dbbeat.rules.exclude import read_exclusions
from celery_dbbeat.rules.preview import preview
from celery_dbbeat.rules.schedule import Schedule
from celery_dbbeat.rules.trigger import KINDS, parse_trigger
from celery_dbbeat.settings import PREFIX, Settings
from tests.support.services import psycopg_url

SCHEDULE = Schedule(UUID(int=1), 1, "a schedule", "shop.tasks.cleanup", "cron", "@daily")
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


def test_the_code_of_the_readme_has_its_effect_once(database_url: str) -> None:
    class Base(DeclarativeBase):
        """The reader's own models."""

    class Invoice(Base):
        __tablename__ = "invoice"
        id: Mapped[int] = mapped_column(primary_key=True)
        plan: Mapped[str]
        month: Mapped[date]

    engine = create_engine(database_url, poolclass=NullPool)
    Base.metadata.create_all(engine)
    names: dict[str, Any] = {"Session": Session, "engine": engine, "Invoice": Invoice}
    for code in _blocks(ROOT / "README.md", "python"):
        exec(code, names)  # noqa: S102 - the README's own code
    settings = Settings.read(names["app"].conf, {})
    assert names["app"].conf.beat_scheduler == "celery_dbbeat:DatabaseScheduler"
    assert (settings.url, settings.guard) == ("postgresql+psycopg://shop@localhost/shop", True)
    header = {"schedule": "bill", "nominal": "2026-05-01T00:00:00+00:00", "kind": "scheduled"}
    for _ in range(2):
        names["bill"].apply(
            ("monthly",), task_id=str(uuid4()), headers={"dbbeat": {**header, "attempt": 1}}
        ).get(disable_sync_subtasks=False)
    same = str(uuid4())
    for _ in range(2):
        names["bill"].apply(
            ("monthly",), task_id=same, headers={"dbbeat": {**header, "attempt": 1}}
        )
    with Session(engine) as session:
        assert [invoice.month for invoice in session.query(Invoice)] == [date(2026, 5, 1)] * 3


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
    rows = _rows("docs/time.md", "kind")
    assert {row[0].strip("`") for row in rows} == set(KINDS)
    for kind, _, example in rows:
        trigger = parse_trigger(kind.strip("`"), example.strip("`"))
        assert trigger.next(datetime(2026, 1, 1, tzinfo=timezone.utc)) is not None


def test_expressions_mean_what_their_words_say() -> None:
    for expression, told in _rows("docs/time.md", "cron"):
        schedule = replace(SCHEDULE, kind="cron", expression=expression.strip("`"))
        assert describe(schedule) == f"{told}, UTC"


def test_what_fires_when_clocks_change_is_what_the_table_says() -> None:
    for shown, *cells in _rows("docs/time.md", "schedule"):
        kind, expression = shown.strip("`").split("` `")
        schedule = replace(SCHEDULE, kind=kind, expression=expression, timezone="America/New_York")
        for cell, day in zip(cells, (date(2026, 3, 8), date(2026, 11, 1)), strict=True):
            midnight = datetime.combine(day, time(), ZoneInfo("America/New_York"))
            fires = (one.local for one in preview(schedule, 40, midnight))
            inside = [
                at for at in fires if at.date() == day and time(1) <= at.time() <= time(3, 30)
            ]
            assert (", ".join(f"{at:%H:%M}" for at in inside) or "–") == cell, shown


def test_each_entry_of_exclude_is_read() -> None:
    entries = [row[0].strip("`") for row in _rows("docs/time.md", "entry")]
    assert len(entries) == 5
    assert read_exclusions(json.dumps(entries), "Europe/Berlin")


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
