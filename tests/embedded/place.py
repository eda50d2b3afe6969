"""A folder for an embedded server, and the processes that use it."""

import os
import sys
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from tests.embedded import user
from tests.support.processes import Process
from tests.support.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]


class Place:
    """One folder, who uses it, and what runs in it."""

    def __init__(self, path: Path) -> None:
        self.path = path / "embedded"
        self.log = path / "users.log"
        self.users: list[Process] = []

    def begin(self, *options: str, python: str = sys.executable, account: str = "") -> Process:
        """Start a user; it may not have the server yet."""
        url = f"embedded:{self.path}"
        process = Process(
            [python, "-m", "tests.embedded.user", url, *options],
            log=self.log.with_suffix(f".{len(self.users)}"),
            env={"PYTHONPATH": os.pathsep.join(p for p in sys.path if "site-packages" in p)},
            cwd=REPOSITORY,
            user=account or None,
        )
        self.users.append(process)
        return process

    def use(self, *options: str) -> Process:
        """Start a user that has the server."""
        process = self.begin(*options)
        process.wait_for("using")
        return process

    def failure(self) -> str:
        """What a user is told that cannot have the server."""
        process = self.begin()
        assert process.wait() == user.FAILED, process.tail()
        return process.log().partition("error ")[2]

    def query(self, statement: str, process: Process | None = None) -> object:
        """The first value of the first row, if any."""
        url = url_of(process or self.users[0])
        with psycopg.connect(make_url(url).set(drivername="postgresql").render_as_string()) as conn:
            cursor = conn.execute(statement)
            row = cursor.fetchone() if cursor.description else None
            return row[0] if row else None

    @property
    def data(self) -> Path:
        """The server's data folder."""
        return self.path / "server" / "data"

    @property
    def server(self) -> int:
        """The number of the server's process."""
        return int((self.data / "postmaster.pid").read_text().split()[0])

    @property
    def running(self) -> list[int]:
        """The keeper and the server, as far as they run."""
        everyone = {int(path.name): command(path) for path in Path("/proc").glob("[0-9]*")}
        ours = {pid: line for pid, line in everyone.items() if str(self.path).encode() in line}
        return [pid for pid, line in ours.items() if b"tests.embedded" not in line]

    @property
    def keeper(self) -> int:
        """The number of the keeper's process."""
        (pid,) = (pid for pid in self.running if b"_keeper.py" in command(Path(f"/proc/{pid}")))
        return pid

    def wait_for_end(self) -> None:
        """Wait until nothing of the server runs."""
        wait_until(lambda: not self.running, 15, lambda: f"the end of {self.running}")


def url_of(process: Process) -> str:
    """What a user was told."""
    return process.wait_for("using").partition("url ")[2].split()[0]


def command(process: Path) -> bytes:
    """Its command line; empty once it has ended."""
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
