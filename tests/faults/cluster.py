"""Several real `celery beat` processes on one database and one broker."""

import os
import signal
import sys
from pathlib import Path
from types import TracebackType

from typing_extensions import Self

from tests.faults.checker import Report, check
from tests.faults.inbox import Inbox
from tests.faults.tables import Tables
from tests.support.processes import Process
from tests.support.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
APP = "tests.faults.app"


def clean_environment(**settings: str) -> dict[str, str]:
    """What a beat gets beside ours; settings of whoever runs the tests do not reach it."""
    ours = ("CELERY_", "DBBEAT_")
    blank = {
        name: ""
        for name in os.environ
        if name.startswith(ours) and not name.startswith(("DBBEAT_TEST_", "DBBEAT_EMBEDDED_"))
    }
    return {**blank, "PYTHONPATH": str(REPOSITORY), "PYTHONUNBUFFERED": "1", **settings}


class Cluster:
    """Beats that come and go; what they did is read from the tables and the broker alone."""

    def __init__(self, folder: Path, database_url: str, broker_url: str) -> None:
        self.folder = folder
        self.tables = Tables(database_url)
        self.inbox = Inbox(broker_url)
        self.app = APP
        self.environment = clean_environment(DBBEAT_URL=database_url, CELERY_BROKER_URL=broker_url)
        self.beats: list[Process] = []
        self._started = 0

    def use_broker(self, url: str) -> None:
        """Go on with this broker; if it is another, nobody is there to read it but `collect`."""
        if url == self.environment["CELERY_BROKER_URL"]:
            return
        self.inbox = Inbox(url)
        self.environment["CELERY_BROKER_URL"] = url

    def write_app(self, text: str, name: str = "shop") -> None:
        """From now on run the app in this module, written here."""
        (self.folder / f"{name}.py").write_text(text, encoding="utf-8")
        self.app = name

    def run(self, *arguments: str, **settings: str) -> Process:
        """Start any `celery` command of the app; keyword arguments are environment variables."""
        self._started += 1
        return Process(
            [sys.executable, "-m", "celery", "-A", self.app, *arguments],
            log=self.folder / f"{arguments[0]}-{self._started}.log",
            env={**self.environment, **settings},
            cwd=self.folder,
        )

    def start(self, *arguments: str, **settings: str) -> Process:
        """Start one beat."""
        beat = self.run("beat", "-l", "INFO", *arguments, **settings)
        self.beats.append(beat)
        return beat

    def end(self, beat: Process, number: signal.Signals = signal.SIGTERM, rc: int = 0) -> None:
        """Ask a beat to end, and wait until it has."""
        beat.send(number, only_leader=True)
        self.forget_ended(beat, rc)

    def start_and_wait(self, count: int = 1) -> list[Process]:
        """Start so many beats, and wait until all take part and one of them leads."""
        started = [self.start() for _ in range(count)]
        self.wait_until_ready()
        return started

    def wait_until_ready(self, timeout: float = 30) -> None:
        """Wait until all running beats take part and somebody leads."""

        def ready() -> bool:
            self.check_running()
            return self.tables.ready([b.pid for b in self.beats]) == len(self.beats) and bool(
                self.tables.leaders()
            )

        wait_until(ready, timeout, lambda: f"all beats:\n{self.logs()}")

    def leader(self) -> Process:
        """The beat that holds the lease, once there is one among those that run."""

        def led() -> list[Process]:
            pids = self.tables.leaders()
            return [beat for beat in self.beats if beat.pid in pids and beat.running]

        return wait_until(led, 20, lambda: f"a leader:\n{self.logs()}")[0]

    def kill(self, beat: Process) -> None:
        """Kill -9."""
        beat.kill9()
        self.beats.remove(beat)

    def forget_ended(self, beat: Process, rc: int, timeout: float = 20) -> None:
        """Wait for the end of a beat that was asked to end, or was made to die."""
        assert beat.wait(timeout) == rc, beat.tail()
        self.beats.remove(beat)

    def check_running(self) -> None:
        """No beat may end by itself."""
        for beat in self.beats:
            assert beat.running, f"{beat} ended with {beat.rc}:\n{beat.tail()}"

    def finish(self, timeout: float = 25) -> Report:
        """Let all come to its end; fail on anything lost or with two ids; return the count."""
        self.tables.settle(timeout)
        wait_until(lambda: not self.look().not_arrived, 10, lambda: f"{self.look()}", every=0.1)
        report = self.look()
        self.check_running()
        report.check()
        found = self.tables.check()
        assert found.complete, f"the package's own check disagrees: {found}"
        return report

    def look(self) -> Report:
        """The count as it stands."""
        return check(self.tables, self.inbox.collect())

    def logs(self) -> str:
        """The ends of all logs, for messages."""
        return "\n".join(f"--- {beat}\n{beat.tail()}" for beat in self.beats)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for beat in self.beats:
            beat.kill9()
