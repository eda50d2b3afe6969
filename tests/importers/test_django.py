"""`dbbeat import django-celery-beat`, beside the real package."""

import json
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.importers.kit import django_project
from tests.store.kit import Person

UTC = timezone.utc
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
SOURCE = ("import", "django-celery-beat")
SETTINGS = """\
from tests.importers.django_side import database
DATABASES = {"default": database(__import__("os").environ["SHOP_URL"])}
INSTALLED_APPS = ["django_celery_beat"]
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
SECRET_KEY = "none"
"""


@pytest.fixture
def project(tmp_path: Path, database_url: str) -> dict[str, str]:
    """Django with 30 tasks, in the database that is ours, too; the environment of its commands."""
    django_project(database_url, NOON, 30)
    (tmp_path / "shop_settings.py").write_text(SETTINGS)
    path = f"{tmp_path}:{Path(__file__).parents[2]}"
    return {
        "SHOP_URL": database_url,
        "DJANGO_SETTINGS_MODULE": "shop_settings",
        "PYTHONPATH": path,
    }


def columns(person: Person) -> list[dict[str, object]]:
    rows = person.do("SELECT * FROM dbbeat_schedule ORDER BY name")
    left = {"id", "created_at", "updated_at"}
    return [{name: value for name, value in row.items() if name not in left} for row in rows]


def test_through_django_and_from_a_url_it_is_the_same(
    celery: Run, person: Person, project: dict[str, str], database_url: str
) -> None:
    done = celery(*SOURCE, **project)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Imported: 30 new.\n"
    through_django = columns(person)
    assert len(through_django) == 30
    assert {str(row["labels"]["imported_from"]) for row in through_django} == {SOURCE[1]}  # type: ignore[index]
    again = celery(*SOURCE, "--url", database_url, SHOP_URL=database_url)
    assert again.stdout == "Imported: 30 unchanged.\n"
    person.do("DELETE FROM dbbeat_schedule")
    celery(*SOURCE, "--url", database_url, SHOP_URL=database_url)
    assert columns(person) == through_django


def test_a_dry_run_shows_each_and_writes_nothing(
    celery: Run, person: Person, project: dict[str, str]
) -> None:
    person.do("UPDATE django_celery_beat_periodictask SET args = 'no' WHERE name = 'task 3'")
    person.add("task 4")
    done = celery(*SOURCE, "--dry-run", **project)
    assert (done.returncode, done.stderr) == (3, "")
    assert "Would be: 28 new, 1 refused, 1 taken." in done.stdout
    assert "\ntask 3:\n  - args is 'no', which is not JSON" in done.stdout
    assert "another schedule has that name" in done.stdout
    assert person.value("SELECT count(*) FROM dbbeat_schedule") == 1


def test_in_json(celery: Run, person: Person, project: dict[str, str]) -> None:
    person.do("UPDATE django_celery_beat_periodictask SET args = 'no' WHERE name = 'task 3'")
    done = celery(*SOURCE, "--json", **project)
    assert done.returncode == 3
    said = json.loads(done.stdout)
    assert (said["source"], said["dry_run"]) == ("django-celery-beat", False)
    assert Counter(one["outcome"] for one in said["entries"]) == {"new": 29, "refused": 1}
    assert person.value("SELECT count(*) FROM dbbeat_schedule") == 29


def test_copies_of_the_apps_own_entries_stay_the_codes(
    celery: Run, person: Person, project: dict[str, str], tmp_path: Path
) -> None:
    with (tmp_path / "shop.py").open("a") as code:
        code.write('app.conf.beat_schedule = {"task 3": {"task": "mine", "schedule": 60}}\n')
    person.do(
        "UPDATE django_celery_beat_periodictask SET enabled = true, one_off = false,"
        " expires = NULL, last_run_at = '2026-06-01 12:00:30Z' WHERE name = 'task 3'"
    )
    assert celery(*SOURCE, **project).returncode == 0
    found = person.one("SELECT * FROM dbbeat_schedule WHERE name = 'task 3'")
    assert (found["owner"], found["task"], found["expression"]) == ("code", "mine", "60")
    assert found["start_at"] == datetime(2026, 6, 1, 12, 1, 30, tzinfo=UTC)


class TestWhatCannotBeRead:
    def test_without_django_it_says_what_is_allowed(self, celery: Run, database_url: str) -> None:
        done = celery(*SOURCE, SHOP_URL=database_url)
        assert (done.returncode, done.stdout) == (1, "")
        assert "--url DATABASE_URL, or DJANGO_SETTINGS_MODULE" in done.stderr

    @pytest.mark.parametrize(
        ("url", "why"),
        [
            ("sqlite:///none.db", "is not there"),
            ("nonsense", "the URL cannot be used"),
            ("oracle://host/x", "the URL cannot be used"),
            ("postgresql://me:s3cret@127.0.0.1:1/x", "cannot be read"),
        ],
    )
    def test_a_wrong_url(
        self, celery: Run, database_url: str, tmp_path: Path, url: str, why: str
    ) -> None:
        done = celery(*SOURCE, "--url", url, SHOP_URL=database_url)
        assert (done.returncode, done.stdout) == (1, "")
        assert why in done.stderr
        assert "s3cret" not in done.stderr
        assert not (tmp_path / "none.db").exists()

    def test_a_database_without_their_tables(self, celery: Run, database_url: str) -> None:
        done = celery(*SOURCE, "--url", database_url, SHOP_URL=database_url)
        assert done.returncode == 1
        assert "has no table django_celery_beat_periodictask" in done.stderr

    def test_no_tables_of_ours(
        self, celery: Run, database_url: str, empty_database_url: str
    ) -> None:
        done = celery(*SOURCE, "--url", database_url, SHOP_URL=empty_database_url)
        assert done.returncode == 1
        assert "dbbeat migrate" in done.stderr


def test_a_database_of_an_older_release_is_read_too(
    celery: Run, person: Person, project: dict[str, str], database_url: str
) -> None:
    for column in ("headers", "priority", "expire_seconds"):
        person.do(f"ALTER TABLE django_celery_beat_periodictask DROP COLUMN {column}")
    done = celery(*SOURCE, "--url", database_url, SHOP_URL=database_url)
    assert (done.returncode, done.stdout) == (0, "Imported: 30 new.\n")
