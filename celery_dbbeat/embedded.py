"""A real Postgres that needs no installing, for development, tests and demos.

`dbbeat_url = "embedded"` or `"embedded:DIR"`: all local processes that name the same folder share
one server. The first starts it, the last to end stops it, however that ends; `kill -9` too. The
data stay. (How: see `_keeper`, the process that runs the server.)

Where the data are: DIR; else `$XDG_DATA_HOME/celery-dbbeat/postgres`, by default below
`~/.local/share`; for root `/var/lib/celery-dbbeat/postgres`, as the server has to run as another
user, who must be able to get there.

Who can connect: who may enter the folder of the server's socket, that is its own user and root.
There is no TCP port and no password. On a machine shared with others a password would have to be
kept in just such a folder, and a port would be open to all of them to try.
"""

import contextlib
import fcntl
import logging
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from celery_dbbeat import _binaries, _keeper
from celery_dbbeat.errors import EmbeddedError
from celery_dbbeat.settings import Settings

_PREFIX = "embedded"
_OTHERS_START = 150  # seconds for a server that another process is starting

_logger = logging.getLogger(__name__)


class _Use(NamedTuple):
    """That this process uses a server: the lock it holds, and how to connect."""

    pid: int
    lock: int
    inode: int
    url: str

    def lasts(self) -> bool:
        """Not in a forked child, nor when a daemon has closed all its files at its start."""
        try:
            return self.pid == os.getpid() and os.fstat(self.lock).st_ino == self.inode
        except OSError:
            return False


_uses: dict[Path, _Use] = {}
_starting = threading.Lock()


def is_embedded(url: str) -> bool:
    """Whether the value of `dbbeat_url` asks for an embedded server."""
    return url == _PREFIX or url.startswith(f"{_PREFIX}:")


def resolve(settings: Settings) -> Settings:
    """The same settings; where they ask for an embedded server, with the URL of one that runs."""
    return settings.at(start(settings.url)) if is_embedded(settings.url) else settings


def start(url: str) -> str:
    """Use the server until this process ends; start it if it does not run. Its SQLAlchemy URL."""
    path = _folder_of(url)
    try:
        with _starting:
            use = _uses.get(path)
            if use is None or not use.lasts():
                use = _uses[path] = _begin_use(_keeper.Folder(path))
            return use.url
    except (EmbeddedError, OSError) as error:
        raise EmbeddedError(
            f"dbbeat_url {url!r}: Postgres cannot run in {path}: {error}"
        ) from error


def stop(url: str, timeout: float = 10) -> bool:
    """Use the server no longer. Whether it has stopped: if nobody else uses it, it does."""
    path = _folder_of(url)
    with _starting:
        use = _uses.pop(path, None)
        if use is not None and use.lasts():
            os.close(use.lock)
    keeper_lock = _open_lock(_keeper.Folder(path).keeper_lock)
    try:
        return _keeper.wait(lambda: _keeper.take(keeper_lock), timeout)
    finally:
        os.close(keeper_lock)


def _folder_of(url: str) -> Path:
    prefix, colon, name = url.partition(":")
    if prefix != _PREFIX or (colon and not name):
        raise EmbeddedError(f"dbbeat_url is {url!r}; allowed are 'embedded' and 'embedded:DIR'")
    if not name and os.geteuid() == 0:
        return Path("/var/lib/celery-dbbeat/postgres")
    home = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    try:
        path = Path(name or f"{home}/celery-dbbeat/postgres").expanduser()
    except RuntimeError as error:
        raise EmbeddedError(
            f"dbbeat_url {url!r}: {error}; name a folder: 'embedded:DIR'"
        ) from error
    return Path(os.path.realpath(path))  # the same for all who name it, by whatever way


def _begin_use(folder: _keeper.Folder) -> _Use:
    _prepare(folder)
    lock = _open_lock(folder.users_lock)
    fcntl.flock(lock, fcntl.LOCK_SH)  # waits while a keeper is stopping the server
    try:
        with _start_lock(folder):
            sockets = _run(folder)
    except BaseException:
        os.close(lock)
        raise
    host = quote(str(sockets), safe="")
    url = f"postgresql+psycopg://postgres@/postgres?host={host}&port={_keeper.PORT}"
    return _Use(os.getpid(), lock, os.fstat(lock).st_ino, url)


def _prepare(folder: _keeper.Folder) -> None:
    """Make the folder; refuse one that has another purpose, or that others could tamper with."""
    path = folder.path
    _binaries.make_folder(path)
    seen = path.stat()
    if not stat.S_ISDIR(seen.st_mode):
        raise EmbeddedError("it is not a folder")
    if seen.st_uid != os.geteuid() or seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise EmbeddedError(
            f"it belongs to user {seen.st_uid} and has mode {seen.st_mode & 0o7777:o}; it must be "
            f"owned by user {os.geteuid()}, and others must not be able to write to it"
        )
    names = [entry.name for entry in path.iterdir()]
    if names and folder.users_lock.name not in names:
        raise EmbeddedError("it holds other files; name a new or an empty folder")
    if not names:
        path.chmod(_binaries.folder_mode())


def _open_lock(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


@contextlib.contextmanager
def _start_lock(folder: _keeper.Folder) -> Iterator[None]:
    """One process at a time looks whether the server runs, and starts it."""
    lock = _open_lock(folder.start_lock)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _run(folder: _keeper.Folder) -> Path:
    """Have a server that answers, and the folder of its socket."""
    end = time.monotonic() + _OTHERS_START
    while time.monotonic() < end:
        keeper_lock = _open_lock(folder.keeper_lock)
        try:
            if _keeper.take(keeper_lock):
                _start_keeper(folder, keeper_lock)
            elif sockets := folder.socket_folder():
                return sockets
        finally:
            os.close(keeper_lock)
        time.sleep(0.02)
    raise EmbeddedError(
        f"its keeper runs, but the server does not answer. Is it on another machine, or in another "
        f"container? Its log is {folder.log}"
    )


def _start_keeper(folder: _keeper.Folder, keeper_lock: int) -> None:
    """Start the keeper and wait for its word; it goes on holding the lock it is given."""
    user = _binaries.account(folder.server)
    _prepare_server(folder, user)
    binaries = _binaries.choose(folder.data, user)
    job = [str(folder.path), str(binaries.path), str(user.uid), str(user.gid)]
    keeper = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-I", "-S", _keeper.__file__, *job],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=[keeper_lock],
        start_new_session=True,  # Ctrl-C is for its users
        check=False,
    )
    word = keeper.stderr.decode(errors="replace").strip()
    if word != _keeper.READY:
        raise EmbeddedError(word or f"its keeper ended with {keeper.returncode} and without a word")
    _logger.info("started Postgres %s in %s", binaries.major, folder.path)


def _prepare_server(folder: _keeper.Folder, user: _binaries.Account) -> None:
    """Make the part of the folder that is the server's, where its user can get to it."""
    for parent in [folder.path, *folder.path.parents] if user.name else []:
        if not _passes(parent.stat(), user):
            raise EmbeddedError(
                f"as root, the server runs as the user {user.name}, who cannot enter {parent}: "
                f"`chmod o+x {parent}`, or name a folder elsewhere"
            )
    folder.server.mkdir(mode=0o700, exist_ok=True)
    if user.name:
        os.chown(folder.server, user.uid, user.gid, follow_symlinks=False)


def _passes(seen: os.stat_result, user: _binaries.Account) -> bool:
    if seen.st_uid == user.uid:
        return bool(seen.st_mode & stat.S_IXUSR)
    return bool(seen.st_mode & (stat.S_IXGRP if seen.st_gid == user.gid else stat.S_IXOTH))
