"""What people are told when there can be no server."""

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from celery_dbbeat import _binaries, embedded
from celery_dbbeat.errors import EmbeddedError
from tests.embedded.place import Place

IS_ROOT = os.geteuid() == 0


@pytest.mark.parametrize(
    ("url", "answer"),
    [
        ("embedded", True),
        ("embedded:", True),
        ("embedded:/srv/beat", True),
        ("embeddedx", False),
        ("postgresql+psycopg://embedded/x", False),
    ],
)
def test_is_embedded(url: str, *, answer: bool) -> None:
    assert embedded.is_embedded(url) is answer


@pytest.mark.parametrize("url", ["embedded:", "postgresql://localhost/x"])
def test_a_wrong_url_names_what_is_allowed(url: str) -> None:
    with pytest.raises(EmbeddedError, match=r"allowed are 'embedded' and 'embedded:DIR'"):
        embedded.start(url)


def test_the_default_folder_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    there = Path("/home/someone/.local/share/celery-dbbeat/postgres")
    assert embedded._folder_of("embedded") == there
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert embedded._folder_of("embedded") == Path("/data/celery-dbbeat/postgres")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert embedded._folder_of("embedded") == Path("/var/lib/celery-dbbeat/postgres")


def test_a_file_is_no_folder(place: Place) -> None:
    place.path.touch()
    assert f"{place.path}: it is not a folder" in place.failure()
    place.path = place.path / "below"
    assert "Not a directory" in place.failure()


def test_a_folder_with_another_purpose_is_left_alone(place: Place) -> None:
    place.path.mkdir()
    (place.path / "thesis.txt").touch()
    assert "it holds other files" in place.failure()
    assert [path.name for path in place.path.iterdir()] == ["thesis.txt"]


def test_a_folder_that_others_can_write_to_is_refused(place: Place) -> None:
    place.path.mkdir()
    place.path.chmod(0o777)
    assert "mode 777" in place.failure()


def test_a_folder_that_cannot_be_made(place: Place) -> None:
    closed = place.path.parent / "closed"
    closed.mkdir(mode=0o500)
    # Root can write anywhere, but for where the kernel has the say.
    place.path = (Path("/proc") if IS_ROOT else closed) / "embedded"
    why = "No such file or directory" if IS_ROOT else "Permission denied"
    told = place.failure()
    assert f"Postgres cannot run in {place.path}: " in told
    assert why in told


@pytest.mark.skipif(not IS_ROOT, reason="only as root does the server run as another user")
def test_a_folder_the_servers_user_cannot_reach(place: Place) -> None:
    closed = place.path.parent / "closed"
    closed.mkdir(mode=0o700)
    place.path = closed / "embedded"
    assert f"cannot enter {closed}" in place.failure()


def test_data_of_another_version(place: Place) -> None:
    place.use().kill9()
    place.wait_for_end()
    (place.data / "PG_VERSION").write_text("9\n")
    told = place.failure()
    assert "made by Postgres 9" in told
    assert "DBBEAT_EMBEDDED_BIN" in told


def test_damaged_data_show_the_servers_own_words(place: Place) -> None:
    place.use().kill9()
    place.wait_for_end()
    (place.data / "global" / "pg_control").unlink()
    told = place.failure()
    assert "at its start" in told
    assert "pg_control" in told
    assert "server.log" in told


def test_no_room_to_make_the_data(place: Place) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        told = place.failure()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "initdb ended with" in told
    assert not place.data.exists()
    place.use()  # once there is room, it works


def test_binaries_that_are_none(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBBEAT_EMBEDDED_BIN", str(place.path.parent))
    told = place.failure()
    assert f"DBBEAT_EMBEDDED_BIN is '{place.path.parent}'" in told
    assert "`initdb` and `postgres`" in told


def test_nothing_installed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBBEAT_EMBEDDED_BIN", raising=False)
    monkeypatch.setattr(_binaries, "_WHEEL", "no_such_wheel")
    monkeypatch.setattr(_binaries, "_DEBIAN", str(place.path))
    with pytest.raises(EmbeddedError, match=r"pip install celery-dbbeat\[embedded\]"):
        _binaries.choose(place.data, _binaries.account(place.data))


@pytest.mark.skipif(not IS_ROOT, reason="only root's programs can be out of the server's reach")
def test_programs_out_of_reach_are_copied_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = place.path.parent / "root's own"
    closed.mkdir(mode=0o700)
    wheel = _binaries._wheel()
    assert wheel is not None
    for source in (wheel, wheel.with_name(f"{wheel.name}.libs")):
        subprocess.run(["cp", "-r", source, closed], check=True)
    monkeypatch.setattr(_binaries, "_wheel", lambda: closed / wheel.name)
    monkeypatch.setattr(_binaries, "_COPIES", place.path.parent / "copies")
    nobody = _binaries.account(place.data)
    first, again = (_binaries.choose(place.data, nobody).path for _ in range(2))
    assert first == again
    assert first.is_relative_to(place.path.parent / "copies")
    assert [stat.S_IMODE(p.stat().st_mode) for p in first.parents[2].iterdir()] == [0o755, 0o755]
    monkeypatch.setenv("DBBEAT_EMBEDDED_BIN", str(first))
    assert place.query("SELECT 1", place.use()) == 1


def test_the_keeper_needs_nothing_but_python() -> None:
    """It runs under -I -S; what it imports of others would fail only at a user's."""
    keeper = Path(_binaries.__file__).with_name("_keeper.py")
    check = f"import runpy; runpy.run_path({str(keeper)!r})"
    subprocess.run([sys.executable, "-I", "-S", "-c", check], check=True)
