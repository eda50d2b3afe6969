"""A process with everything it started, read from /proc.

A family is found by descent *and* by session: Postgres' backends open sessions of their own but
keep their parent; an orphan of a dead worker loses its parent but keeps the session.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """The part of /proc/<pid>/stat that tells who belongs together."""

    pid: int
    state: str
    parent: int
    session: int


def _entry(process: Path) -> Entry | None:
    try:
        stat = (process / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None  # it ended while we were looking
    state, parent, _group, session = stat.rpartition(")")[2].split()[:4]
    return Entry(int(process.name), state, int(parent), int(session))


def _processes() -> list[Entry]:
    """Every process that still runs; what is dead and only waits to be reaped is left out."""
    entries = (_entry(path) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [entry for entry in entries if entry and entry.state not in "ZX"]


def family(*leaders: int) -> list[int]:
    """The leaders that still run, the members of their sessions and all their descendants."""
    processes = _processes()
    found = {p.pid for p in processes if p.pid in leaders or p.session in leaders}
    grew = True
    while grew:
        children = {p.pid for p in processes if p.parent in found} - found
        found |= children
        grew = bool(children)
    return sorted(found)


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to each; who is gone already is no error."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def stop_family(*leaders: int) -> list[int]:
    """SIGSTOP a family, again until nobody new appears, and say who was stopped."""
    stopped: list[int] = []
    while new := [pid for pid in family(*leaders) if pid not in stopped]:
        signal_all(new, signal.SIGSTOP)
        stopped += new
    return stopped


def kill_family(*leaders: int) -> list[int]:
    """SIGKILL a family without a chance to start anybody else, and say who was killed."""
    killed = stop_family(*leaders)
    signal_all(killed, signal.SIGKILL)
    return killed
