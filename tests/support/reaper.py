"""Nothing outlives the test run, however it ends.

A small process waits on a pipe whose other end only the test run holds. When the run ends, even by
`kill -9`, the pipe closes, and the reaper kills every family that is still registered and removes
the run's folder. (The kernel's parent-death signal would not do: it goes to the direct child only,
comes when the starting *thread* ends, and needs a preexec hook that is unsafe beside threads.)
"""

import atexit
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tests.support.family import kill_family


class Reaper:
    """The test run's end of the pipe."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dbbeat-test-", dir=_reachable_tmp()))
        self.folder.chmod(0o711)  # servers that refuse root run as another user below it
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.reaper", str(self.folder)],
            stdin=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
            text=True,
        )
        atexit.register(self._close)

    def register(self, pid: int) -> None:
        """Kill this family when the run ends."""
        self._tell(f"+{pid}")

    def forget(self, pid: int) -> None:
        """It has ended; its number may soon be another's."""
        self._tell(f"-{pid}")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


@cache
def reaper() -> Reaper:
    """The one reaper of this run, started when first needed."""
    return Reaper()


def _reachable_tmp() -> Path:
    """The temporary folder, unless other users cannot get there (a private TMPDIR)."""
    chosen = Path(tempfile.gettempdir()).resolve()
    private = [p for p in (chosen, *chosen.parents) if not p.stat().st_mode & stat.S_IXOTH]
    return Path("/tmp") if private and os.getuid() == 0 else chosen  # noqa: S108 - mkdtemp inside


def _main(folder: str) -> None:
    leaders: set[int] = set()
    for line in sys.stdin:
        change = leaders.add if line.startswith("+") else leaders.discard
        change(int(line[1:]))
    kill_family(*leaders)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main(sys.argv[1])
