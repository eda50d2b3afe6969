"""The wheel holds all that the package needs, and migrates from where it is installed."""

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from celery_dbbeat.store.migrate import head

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
MIGRATE = """\
import sys
import celery_dbbeat
from celery_dbbeat.store.migrate import migrate
print(celery_dbbeat.__file__)
print(migrate(sys.argv[1]))
"""


def run(command: list[str], folder: Path, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [*PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    (built,) = folder.glob("celery_dbbeat-*.whl")
    return built


def test_it_holds_the_code_the_statements_and_the_migrations(wheel: Path) -> None:
    inside = set(ZipFile(wheel).namelist())
    sources = [path for path in (ROOT / "celery_dbbeat").rglob("*") if _shipped(path)]
    assert {str(path.relative_to(ROOT)) for path in sources} <= inside
    migrations = [path for path in (ROOT / "migrations").rglob("*") if _shipped(path)]
    assert {f"celery_dbbeat/{path.relative_to(ROOT)}" for path in migrations} <= inside
    assert not [name for name in inside if name.startswith(("tests/", "migrations/"))]


def _shipped(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts


def test_it_migrates_from_where_it_is_installed(
    wheel: Path, tmp_path: Path, empty_database_url: str
) -> None:
    site = tmp_path / "site"
    install = [*PIP, "install", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    run(install, tmp_path)
    command = [sys.executable, "-c", MIGRATE, empty_database_url]
    found, version = run(command, tmp_path, PYTHONPATH=str(site)).split()
    assert Path(found).is_relative_to(site)
    assert version == head()
