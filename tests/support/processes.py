"""Run a command as a child with a log in a file, and break it in every way."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from pwd import getpwnam

from tests.support.family import family, kill_family, signal_all, stop_family
from tests.support.reaper import reaper
from tests.support.waiting import wait_until

LOG_TAIL = 4_000


class Process:
    """A running child in a session of its own; it and all it started end with the test run.

    Signals go to the whole family (a worker with its pool, Postgres with its backends), as when a
    machine stops or dies. `only_leader=True` hits just the process that was started.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        user: str | None = None,
    ) -> None:
        """Start it. `env` is added to ours; `user` needs root; the log is appended to."""
        self.command = [str(part) for part in command]
        self.log_file = log
        with log.open("ab") as output:
            self._log_start = output.tell()
            self._popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                user=user,
                group=getpwnam(user).pw_gid if user else None,
                extra_groups=[] if user else None,
                start_new_session=True,
            )
        self.pid = self._popen.pid
        reaper().register(self.pid)

    @property
    def rc(self) -> int | None:
        """The exit code; None while it runs, negative for the signal that ended it."""
        return self._popen.poll()

    @property
    def running(self) -> bool:
        """Whether the started process has not ended."""
        return self.rc is None

    def log(self) -> str:
        """What it has written to stdout and stderr since it was started."""
        with self.log_file.open("rb") as written:
            written.seek(self._log_start)
            return written.read().decode(errors="replace")

    def wait_for(self, text: str, timeout: float = 20) -> str:
        """Wait until `text` is in the log, and return the log; fail at once if it has ended."""

        def seen() -> bool:
            ended = not self.running
            if text in self.log():
                return True
            if ended:
                raise AssertionError(f"{self} ended with {self.rc} before {text!r}:\n{self.tail()}")
            return False

        wait_until(seen, timeout, lambda: f"{text!r} from {self}:\n{self.tail()}")
        return self.log()

    def wait(self, timeout: float = 20) -> int:
        """Wait for its end and return the exit code."""
        wait_until(lambda: not self.running, timeout, lambda: f"end of {self}:\n{self.tail()}")
        reaper().forget(self.pid)
        return self._popen.returncode

    def send(self, number: signal.Signals, *, only_leader: bool = False) -> None:
        """Send a signal."""
        signal_all([self.pid] if only_leader else family(self.pid), number)

    def kill9(self, *, only_leader: bool = False) -> None:
        """SIGKILL, and wait until all are gone."""
        if only_leader:
            signal_all([self.pid] if self.running else [], signal.SIGKILL)
            self._popen.wait()
            return
        killed = kill_family(self.pid)
        self._popen.wait()
        wait_until(lambda: not _any_left(killed), 10, f"the end of {killed}")
        reaper().forget(self.pid)

    def stop_signal(self) -> None:
        """SIGSTOP: it is alive and does nothing, as on a machine that froze."""
        stop_family(self.pid)

    def cont(self) -> None:
        """SIGCONT: it goes on and does not know that time has passed."""
        self.send(signal.SIGCONT)

    def terminate(self, timeout: float = 20, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask the started process to end, wait for it, and return the exit code."""
        if self.running:
            self.send(number, only_leader=True)
        rc = self.wait(timeout)
        self.kill9()  # what the leader left behind
        return rc

    def tail(self) -> str:
        """The end of the log, for messages."""
        return self.log()[-LOG_TAIL:]

    def __repr__(self) -> str:
        return f"<{Path(self.command[0]).name} pid {self.pid}>"


def _any_left(pids: list[int]) -> bool:
    return bool(set(pids) & set(family(*pids)))
