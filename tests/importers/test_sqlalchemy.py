"""`dbbeat import sqlalchemy-celery-beat`, beside the real package, on SQLite and on Postgres."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from sqlalchemy_celery_beat.models import (
    ClockedSchedule,
    CrontabSchedule,
    IntervalSchedule,
    Period,
    PeriodicTask,
    SolarEvent,
    SolarSchedule,
)
from sqlalchemy_celery_beat.session import SessionManager

from celery_dbbeat.contrib.importers import sources
from celery_dbbeat.contrib.importers.entry import Entry
from celery_dbbeat.store.imports import ImportedSchedule
from tests.cli.conftest import Run
from tests.store.kit import Person

UTC = timezone.utc
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SCHEMA = "their_own"


@contextmanager
def their_session(url: str, schema: str | None) -> Iterator[Any]:
    manager = SessionManager()
    engine, session = manager.create_session(url, schema=schema)
    manager.prepare_models(engine, schema=schema)
    try:
        with closing(session()) as opened:
            yield opened
    finally:
        engine.dispose()


def fill(url: str, schema: str | None = None) -> None:
    """One task of each kind, last run at noon."""
    whens = {
        "interval": IntervalSchedule(every=2, period=Period.HOURS),
        "crontab": CrontabSchedule(minute="30", hour="8", timezone="Asia/Tokyo"),
        "solar": SolarSchedule(event=SolarEvent.SUNSET, latitude=52.52, longitude=13.4),
        "clocked": ClockedSchedule(clocked_time=NOON + HOUR),
    }
    with their_session(url, schema) as session:
        session.add_all(whens.values())
        session.flush()
        for name, when in whens.items():
            one = PeriodicTask(name=name, task="shop.tasks.work", schedule_model=when)
            one.one_off = name == "clocked"
            one.last_run_at = None if one.one_off else NOON
            one.expire_seconds, one.queue = 30, "bulk"
            session.add(one)
        session.commit()


def found(url: str, schema: str | None = None) -> dict[str, Entry]:
    app = Celery("theirs", broker="memory://", set_as_current=False)
    entries = sources.of_sqlalchemy_celery_beat(app, NOON.date(), url, schema)
    return {one.schedule.name: one for one in entries if isinstance(one, Entry)}


@pytest.fixture(params=["sqlite", "postgres", "schema"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, empty_database_url: str
) -> tuple[str, str | None]:
    url = f"sqlite:///{tmp_path}/schedule.db" if request.param == "sqlite" else empty_database_url
    schema = SCHEMA if request.param == "schema" else None
    fill(url, schema)
    return url, schema


def test_each_kind(place: tuple[str, str | None]) -> None:
    entries = found(*place)
    whens = {
        name: (one.schedule.kind, one.schedule.expression, one.schedule.timezone)
        for name, one in entries.items()
    }
    assert whens == {
        "interval": ("interval", "7200", "UTC"),
        "crontab": ("crontab", entries["crontab"].schedule.expression, "Asia/Tokyo"),
        "solar": ("solar", "sunset 52.520000 13.400000", "UTC"),
        "clocked": ("once", (NOON + HOUR).isoformat(), "UTC"),
    }
    assert entries["interval"].schedule.start_at == NOON + 2 * HOUR
    assert entries["crontab"].go_on_from == NOON
    assert {one.schedule.options for one in entries.values()} == {
        '{"expires": 30, "queue": "bulk"}'
    }
    assert ImportedSchedule.__slots__[0] == "source_id"


def test_the_command_finds_them_where_the_app_says(
    celery: Run, person: Person, database_url: str, tmp_path: Path
) -> None:
    fill(database_url, SCHEMA)
    with (tmp_path / "shop.py").open("a") as code:
        code.write(f'app.conf.update(beat_dburi="{database_url}", beat_schema="{SCHEMA}")\n')
    done = celery("import", "sqlalchemy-celery-beat", SHOP_URL=database_url)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Imported: 4 new.\n", "")
    assert person.value("SELECT count(*) FROM dbbeat_schedule") == 4
    again = celery("import", "sqlalchemy-celery-beat", SHOP_URL=database_url)
    assert again.stdout == "Imported: 4 unchanged.\n"


def test_where_there_is_no_file_it_makes_none(
    celery: Run, database_url: str, tmp_path: Path
) -> None:
    done = celery("import", "sqlalchemy-celery-beat", SHOP_URL=database_url)
    assert done.returncode == 1
    assert "the file schedule.db is not there" in done.stderr
    assert not (tmp_path / "schedule.db").exists()
