"""What every server started for tests has in common."""

import os
import random
import shutil
import signal
import socket
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from tests.support.processes import Process
from tests.support.reaper import reaper
from tests.support.waiting import wait_until

LOOPBACK = "127.0.0.1"
START_TIMEOUT = 60
STOP_TIMEOUT = 20


class ServerMissing(RuntimeError):
    """A server the tests need is not on this machine."""


def find_program(name: str, package: str, *, before: str = "", after: str = "") -> Path:
    """Find a server's program in PATH, or in folders (a glob) looked at before or after it."""
    places = [*_newest_first(before), *os.get_exec_path(), "/usr/sbin", *_newest_first(after)]
    found = shutil.which(name, path=os.pathsep.join(map(str, places)))
    if found is None:
        raise ServerMissing(
            f"{name} was not found in {places}. The tests run against real servers: "
            f"`make install`, or `apt-get install {package}`."
        )
    return Path(found)


def _newest_first(pattern: str) -> Iterable[Path]:
    return sorted(Path("/").glob(pattern.lstrip("/")), reverse=True) if pattern else []


def free_port() -> int:
    """A port nobody listens on, below the range the kernel gives to outgoing connections.

    From that range, a client that tries to reach a stopped server could be given the server's own
    port, connect to itself, and keep the server from coming back.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0])
    while True:
        port = random.randrange(10_000, max(lowest, 12_000))  # noqa: S311 - no secret
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                continue
            return port


class Server(ABC):
    """A server on a loopback port, with its data in a folder that goes with the test run."""

    name: str
    stop_with = signal.SIGTERM

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-", dir=reaper().folder))
        self.user = "nobody" if os.getuid() == 0 else None
        self._process: Process | None = None
        self._own(self.folder)

    @property
    @abstractmethod
    def url(self) -> str:
        """How clients reach it."""

    @abstractmethod
    def command(self) -> list[str | Path]:
        """The server's command line; called at each start, with the folder prepared."""

    @abstractmethod
    def check(self) -> None:
        """Raise if it does not answer yet."""

    def prepare(self) -> None:  # noqa: B027 - most need none
        """Write configuration and data; called before each start."""

    def environment(self) -> Mapping[str, str]:
        """What the server's environment has more than ours."""
        return {}

    @property
    def log(self) -> Path:
        """The file with all it has written, over all restarts."""
        return self.folder / f"{self.name}.log"

    @property
    def process(self) -> Process:
        """The running process."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.running

    def start(self) -> None:
        """Start it and wait until it answers; the data of an earlier start are still there."""
        if self.running:
            raise RuntimeError(f"{self.name} is running already")
        self.prepare()
        self._process = self._run(self.command(), self.log, self.environment())
        wait_until(self._answers, START_TIMEOUT, lambda: f"{self.name}:\n{self.process.tail()}")

    def stop(self) -> None:
        """Shut it down in its own orderly way."""
        if self.running:
            self.resume()
            self.process.terminate(STOP_TIMEOUT, self.stop_with)

    def kill(self) -> None:
        """SIGKILL to all its processes at once; returns when they are gone."""
        if self._process is not None:
            self._process.kill9()

    def restart(self) -> None:
        """Stop it if it runs, and start it on the same port with the same data."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP to all its processes: connections stay open, nothing is answered."""
        self.process.stop_signal()

    def resume(self) -> None:
        """End a pause."""
        self.process.cont()

    def remove(self) -> None:
        """Kill it and remove its data."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.remove()

    def _run(
        self, command: list[str | Path], log: Path, env: Mapping[str, str] | None = None
    ) -> Process:
        return Process(command, log=log, env=env, cwd=self.folder, user=self.user)

    def _own(self, path: Path) -> None:
        """Give a file or folder to the user the server runs as."""
        if self.user is not None:
            shutil.chown(path, self.user)

    def _write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        self._own(path)
        return path

    def _answers(self) -> bool:
        if not self.process.running:
            raise RuntimeError(
                f"{self.name} ended with {self.process.rc} at its start:\n{self.process.tail()}"
            )
        try:
            self.check()
        except Exception:  # noqa: BLE001 - whatever its client raises means "not yet"
            return False
        return True
