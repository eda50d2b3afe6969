"""The keeper: one process that runs an embedded Postgres for as long as anybody uses it.

It runs as a plain file under `python -I -S`, with the standard library alone: so it starts in
milliseconds, and needs nothing of what its starter could import.

Who lives how long::

    user processes ── shared lock on users.lock ──────────────┐ the kernel lets go of it when
                                                              │ they end, however they end
    keeper ────────── tries for the exclusive lock: no users ─┘
      └─ postgres ─── gets SIGINT, its fast shutdown, from the keeper; from the kernel if the
                      keeper is killed

The keeper holds users.lock while it stops the server, so who comes then waits for the end and
starts the server again. It holds keeper.lock from before its start until after its end: at most
one keeper a folder. If the server dies under its users, the keeper starts it again.
"""

import contextlib
import ctypes
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PORT = 5432  # only a part of the socket's name: nothing listens on TCP
READY = "ready"

_LONGEST_SOCKET_PATH = 103  # macOS; Linux has 107
_SHORT_PREFIX = "dbbeat-"
_START_TIMEOUT = 120  # a crash recovery may go before
_PR_SET_PDEATHSIG = 1
_LONGEST_LOG = 4_000_000
_SETTINGS = (
    f"--listen_addresses= --port={PORT} --unix_socket_permissions=0700 --max_connections=200 "
    "--logging_collector=off --cluster_name=celery-dbbeat"
).split()


class Folder:
    """What lies where in the folder of one embedded server.

    The locks belong to the users, `server` to whom the server runs as: as root these differ.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.users_lock = path / "users.lock"
        self.start_lock = path / "start.lock"
        self.keeper_lock = path / "keeper.lock"
        self.server = path / "server"
        self.data = self.server / "data"
        self.log = self.server / "server.log"

    def socket_folder(self) -> Path | None:
        """Where a server that answers has its socket."""
        lines = _postmaster_lines(self.data)
        if [state.strip() for state in lines[7:]] != [READY]:
            return None
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(f"{lines[4]}/.s.PGSQL.{PORT}")
            except OSError:  # left behind by a machine that went down
                return None
        return Path(lines[4])


class RunError(Exception):
    """The server cannot be run; the message is for people."""


class Server:
    """The Postgres of one folder, as a child of this process."""

    def __init__(self, folder: Folder, binaries: Path) -> None:
        self.folder = folder
        self.binaries = binaries
        self.log = folder.log.open("ab")
        self.sockets = _socket_folder(folder)
        self.process: subprocess.Popen[bytes] | None = None

    def create(self) -> None:
        """Make the data folder. It takes its name only when it is whole."""
        for left in self.folder.server.glob("data.new-*"):
            shutil.rmtree(left, ignore_errors=True)
        if self.folder.data.exists():
            return
        new = Path(tempfile.mkdtemp(prefix="data.new-", dir=self.folder.server))
        # Nobody but the server's user gets as far as the socket, so `trust` there lets no one in.
        # TCP is off; should someone turn it on, `reject` keeps it from being open to all.
        options = "-U postgres --auth-local=trust --auth-host=reject -E UTF8 --no-locale --no-sync"
        begin = self.log.seek(0, os.SEEK_END)
        code = self._run("initdb", [*options.split(), "-D", str(new)], signal.SIGTERM).wait()
        if code:
            shutil.rmtree(new, ignore_errors=True)
            raise self._error(f"initdb ended with {code}", begin)
        new.rename(self.folder.data)

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        self._clear_leftovers()
        where = f"--unix_socket_directories={self.sockets}"
        begin = self.log.seek(0, os.SEEK_END)
        options = ["-D", str(self.folder.data), where, *_SETTINGS]
        self.process = self._run("postgres", options, signal.SIGINT)
        if not wait(lambda: self.ended or self._is_ready(), _START_TIMEOUT):
            self.stop()
            raise self._error(f"it was not ready after {_START_TIMEOUT} s", begin)
        if self.ended:
            raise self._error(f"it ended with {self.process.returncode} at its start", begin)

    @property
    def ended(self) -> bool:
        """Whether it does not run."""
        return self.process is None or self.process.poll() is not None

    def stop(self) -> None:
        """Fast shutdown; rougher if that hangs."""
        for number, patience in ((signal.SIGINT, 60), (signal.SIGQUIT, 10), (signal.SIGKILL, 10)):
            if self.process is not None and not self.ended:
                self.process.send_signal(number)
                wait(lambda: self.ended, patience)

    def close(self) -> None:
        """Stop it for good."""
        self.stop()
        if self.sockets.name.startswith(_SHORT_PREFIX):
            shutil.rmtree(self.sockets, ignore_errors=True)

    def _is_ready(self) -> bool:
        lines = _postmaster_lines(self.folder.data)
        ours = self.process is not None and lines[:1] == [str(self.process.pid)]
        return ours and self.folder.socket_folder() is not None

    def _clear_leftovers(self) -> None:
        """Wait for a server whose keeper was killed, then remove what a dead one left.

        Postgres itself takes a left postmaster.pid for alive when its number is in use by another
        process of the same user: after a power cut, or in a new container, that happens.
        """
        data = self.folder.data
        if not wait(lambda: not _postgres_in(data), 30):
            pids = ", ".join(map(str, _postgres_in(data)))
            raise RunError(
                f"another Postgres, not started by celery-dbbeat, runs on {data} (process {pids}): "
                "stop it, or use another folder"
            )
        if sys.platform == "linux":  # elsewhere nothing tells whether it is in use
            for sockets in map(Path, _postmaster_lines(data)[4:5]):
                if sockets.name.startswith(_SHORT_PREFIX) and sockets != self.sockets:
                    shutil.rmtree(sockets, ignore_errors=True)
            (data / "postmaster.pid").unlink(missing_ok=True)
            for name in (f".s.PGSQL.{PORT}", f".s.PGSQL.{PORT}.lock"):
                (self.sockets / name).unlink(missing_ok=True)

    def _run(self, program: str, arguments: list[str], at_our_end: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(  # noqa: S603 - our own programs
            [str(self.binaries / program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            # Own settings of PGPORT, PGDATA and such are meant for other servers.
            env={k: v for k, v in os.environ.items() if not k.startswith("PG")},
            preexec_fn=_end_with_parent(at_our_end),  # noqa: PLW1509 - there are no threads
        )

    def _error(self, what: str, begin: int) -> RunError:
        with self.folder.log.open("rb") as log:
            log.seek(begin)
            tail = log.read().decode(errors="replace").strip().splitlines()[-15:]
        said = "\n".join(f"  {line}" for line in tail) or "  (nothing)"
        return RunError(f"{what}. The end of {self.folder.log}:\n{said}")


def keep(server: Server, users: int) -> None:
    """Run the server until it has no users."""
    pause = 1.0
    while not take(users):
        if server.ended:
            time.sleep(pause)
            try:
                server.start()
                pause = 1.0
            except RunError as error:
                server.log.write(f"celery-dbbeat: {error}\n".encode())
                server.log.flush()
                pause = min(pause * 2, 30.0)
        time.sleep(0.2)


def main(path: str, binaries: str, uid: str, gid: str) -> None:
    """Run the server of a folder; stderr goes to the starter until it is known how it went."""
    if os.fork():
        os._exit(0)  # so that nobody has us as a child to reap, or to kill with its children
    folder = Folder(Path(path))
    users = os.open(folder.users_lock, os.O_RDWR | os.O_CLOEXEC)
    if os.geteuid() == 0:  # Postgres refuses to run as root; neither does its keeper need to
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    os.umask(0o077)
    os.chdir("/")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        if folder.log.exists() and folder.log.stat().st_size > _LONGEST_LOG:
            folder.log.replace(folder.log.with_suffix(".log.old"))
        server = Server(folder, Path(binaries))
        try:
            server.create()
            server.start()
            _answer(READY)
            os.dup2(server.log.fileno(), 2)
            keep(server, users)
        finally:
            server.close()
    except (RunError, OSError) as error:
        _answer(str(error))
        sys.exit(1)


def take(lock: int) -> bool:
    """Take a lock for ourselves alone, if nobody holds it."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _answer(text: str) -> None:
    with contextlib.suppress(OSError):  # the starter may be gone; others wait for the server
        sys.stderr.write(text)
        sys.stderr.flush()


def _socket_folder(folder: Folder) -> Path:
    """A folder for the socket that only the server's user may enter."""
    own = folder.server / "run"
    fits = len(os.fsencode(own / f".s.PGSQL.{PORT}")) <= _LONGEST_SOCKET_PATH
    if fits and not set(str(own)) & set(',:"'):  # to clients a comma begins another host
        own.mkdir(mode=0o700, exist_ok=True)
        return own
    return Path(tempfile.mkdtemp(prefix=_SHORT_PREFIX, dir="/tmp"))  # its mode is 0700


def _postmaster_lines(data: Path) -> list[str]:
    """Number, data folder, start, port, socket folder, address, memory key, state."""
    try:
        return (data / "postmaster.pid").read_text(errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return []


def _postgres_in(data: Path) -> list[int]:
    """The processes of a server on this folder; all of them work in it. (Linux)."""
    return [
        int(process.name)
        for process in Path("/proc").glob("[0-9]*")
        if _link(process / "cwd") == str(data) and _link(process / "exe").endswith("/postgres")
    ]


def _link(path: Path) -> str:
    with contextlib.suppress(OSError):
        return str(path.readlink())
    return ""


def _end_with_parent(number: int) -> Callable[[], None]:
    """The kernel sends the signal when we end without having stopped the child. (Linux)."""
    parent = os.getpid()

    def in_child() -> None:
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return in_child


def wait(done: Callable[[], bool], seconds: float) -> bool:
    """Whether it became true in time."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
