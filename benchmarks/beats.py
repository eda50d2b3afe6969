"""Beat processes, and what they cost."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes import Process
from tests.support.reaper import reaper
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[1]
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

SCHEDULERS = {
    "celery-dbbeat": "celery_dbbeat:DatabaseScheduler",
    "RedBeat": "redbeat.RedBeatScheduler",
    "stock beat": "celery.beat:PersistentScheduler",
}


@dataclass(frozen=True)
class Setting:
    """What a beat is run with."""

    contender: str
    broker_url: str
    database_url: str = ""
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        shown = {"CELERY_BROKER_URL": self.broker_url, "DBBEAT_URL": self.database_url}
        return {name: value for name, value in {**shown, **self.extra}.items() if value}


def celery(setting: Setting, *arguments: str) -> Process:
    """`celery -A benchmarks.app …` in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="bench-", dir=reaper().folder))
    return Process(
        [sys.executable, "-m", "celery", "-A", "benchmarks.app", *arguments],
        log=folder / "log",
        env={**setting.environment, "PYTHONPATH": str(ROOT)},
        cwd=folder,
    )


def start_beat(setting: Setting) -> Process:
    """A beat that logs no line a task, as that would be part of what is measured."""
    scheduler = SCHEDULERS[setting.contender]
    return celery(setting, "beat", "-S", scheduler, "-l", "WARNING", "--pidfile=", "-s", "entries")


@contextmanager
def beats(setting: Setting, number: int = 1) -> Iterator[list[Process]]:
    """So many of them, gone at the end of the block."""
    running = [start_beat(setting) for _ in range(number)]
    try:
        yield running
    finally:
        for process in running:
            process.kill9()


def cpu_seconds(processes: Sequence[Process]) -> float:
    """User and system time that these have used so far."""
    return sum(_cpu_seconds(process.pid) for process in processes)


def _cpu_seconds(pid: int) -> float:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / TICKS_A_SECOND


def wait_until_idle(processes: Sequence[Process], timeout: float = 60) -> None:
    """Wait until none of them has anything to do: up, and busy for less than 5 % of 0.6 s."""
    time.sleep(1.5)

    def idle() -> bool:
        for process in processes:
            if not process.running:
                raise RuntimeError(f"{process} ended with {process.rc}:\n{process.tail()}")
        before = cpu_seconds(processes)
        time.sleep(0.6)
        return cpu_seconds(processes) - before <= 0.03 * len(processes)

    wait_until(idle, timeout, "the beats to be idle")
