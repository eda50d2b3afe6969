"""`dbbeat import beat-schedule`: after Celery's own beat, from the file that it really wrote."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from celery import Celery
from celery.beat import PersistentScheduler
from celery.schedules import crontab, schedule

from celery_dbbeat.contrib.importers import sources
from celery_dbbeat.contrib.importers.entry import Entry, Refused
from celery_dbbeat.errors import SourceError
from tests.cli.conftest import Run
from tests.store.kit import Person

UTC = timezone.utc
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
CODE = """\
app.conf.beat_schedule = {
    "often": {"task": "shop.often", "schedule": 3600.0},
    "daily": {"task": "shop.daily", "schedule": 86400.0},
}
"""
ENTRIES = {
    "often": {"task": "shop.often", "schedule": 3600.0},
    "rounded": {"task": "shop.often", "schedule": schedule(HOUR, relative=True)},
    "morning": {"task": "shop.morning", "schedule": crontab(minute=0, hour=9)},
}
Beat = Callable[[Celery, datetime], Path]


@pytest.fixture
def app() -> Celery:
    app = Celery("theirs", broker="memory://", set_as_current=False)
    app.conf.update(result_expires=None, beat_schedule=ENTRIES)
    return app


@pytest.fixture
def beat(tmp_path: Path) -> Beat:
    """Celery's own beat as it ends, its entries last run at that time; returns its file."""

    def ran(app: Celery, last_run_at: datetime) -> Path:
        file = tmp_path / "celerybeat-schedule"
        scheduler = PersistentScheduler(app=app, schedule_filename=str(file))
        for entry in scheduler.schedule.values():
            entry.last_run_at = last_run_at
        scheduler.close()
        return file

    return ran


def found(app: Celery, file: Path, *, people: bool = False) -> dict[str, Entry]:
    entries = sources.of_beat_schedule(app, NOON.date(), file, people=people)
    return {one.schedule.name: one for one in entries if isinstance(one, Entry)}


def test_rows_of_the_codes_go_on_from_their_last_runs(app: Celery, beat: Beat) -> None:
    entries = found(app, beat(app, NOON + HOUR / 3))
    assert {one.schedule.owner for one in entries.values()} == {"code"}
    assert {one.go_on_from for one in entries.values()} == {NOON + HOUR / 3}
    starts = {name: one.schedule.start_at for name, one in entries.items()}
    assert starts == {"often": NOON + 4 * HOUR / 3, "rounded": NOON + HOUR, "morning": None}


def test_as_people_s_rows(app: Celery, beat: Beat) -> None:
    entries = found(app, beat(app, NOON), people=True)
    assert {one.schedule.owner for one in entries.values()} == {"people"}
    assert {one.schedule.code_digest for one in entries.values()} == {None}


def test_what_never_ran_begins_anew(app: Celery, beat: Beat) -> None:
    file = beat(app, NOON)
    app.conf.beat_schedule = {**ENTRIES, "later": {"task": "t", "schedule": 60}}
    assert found(app, file)["later"].go_on_from is None


def test_what_cannot_be_stored_is_refused(app: Celery, beat: Beat) -> None:
    file = beat(app, NOON)
    odd = crontab(nowfun=datetime.now)
    app.conf.beat_schedule = {"odd": {"task": "t", "schedule": odd}}
    (one,) = sources.of_beat_schedule(app, NOON.date(), file, people=False)
    assert isinstance(one, Refused)
    assert "nowfun" in one.reason


@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_a_file_that_cannot_be_read(app: Celery, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "celerybeat-schedule"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SourceError, match="allowed is --file PATH, the file of a beat"):
        found(app, file)


def test_the_command_and_then_beat(
    celery: Run, beat: Beat, person: Person, database_url: str, tmp_path: Path
) -> None:
    with (tmp_path / "shop.py").open("a") as code:
        code.write(CODE)
    theirs = Celery("theirs", broker="memory://", set_as_current=False)
    theirs.conf.beat_schedule = {
        "often": {"task": "shop.often", "schedule": 3600.0},
        "daily": {"task": "shop.daily", "schedule": 86400.0},
    }
    beat(theirs, person.value("SELECT now()") - 24 * HOUR)
    done = celery("import", "beat-schedule", SHOP_URL=database_url)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Imported: 3 new" in done.stdout
    again = celery("import", "beat-schedule", SHOP_URL=database_url)
    assert "Imported: 3 unchanged" in again.stdout
    rows = person.do("SELECT name, owner FROM dbbeat_schedule ORDER BY name")
    assert [row["name"] for row in rows] == ["celery.backend_cleanup", "daily", "often"]
    assert {row["owner"] for row in rows} == {"code"}
