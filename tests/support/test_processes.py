"""Children can be watched, stopped and killed, and never outlive the run."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.family import family
from tests.support.processes import Process
from tests.support.waiting import wait_until

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print("started", child.pid, flush=True)
time.sleep(60)
"""
TICKING = """
import time
while True:
    time.sleep(0.01)
    print("tick", flush=True)
"""
A_RUN = """
import os, signal, sys
from pathlib import Path
from tests.support.processes import Process
from tests.support.reaper import reaper
child = Process([sys.executable, "-c", sys.argv[1]], log=reaper().folder / "log")
child.wait_for("started")
child.stop_signal()
print(child.pid, reaper().folder, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def parent(tmp_path: Path) -> Process:
    process = python(PARENT, tmp_path)
    process.wait_for("started")
    return process


def python(code: str, folder: Path) -> Process:
    return Process([sys.executable, "-c", code], log=folder / "log")


def test_the_log_and_the_exit_code_can_be_read(tmp_path: Path) -> None:
    process = python("import sys; print('out'); sys.exit('err')", tmp_path)
    assert process.wait() == 1
    assert process.log().split() == ["out", "err"]


def test_waiting_for_a_text_fails_when_the_process_has_ended(tmp_path: Path) -> None:
    process = python("print('something else')", tmp_path)
    with pytest.raises(AssertionError, match="something else"):
        process.wait_for("never said")


def test_kill9_takes_the_whole_family(parent: Process) -> None:
    assert len(family(parent.pid)) == 2
    parent.kill9()
    assert parent.rc == -signal.SIGKILL
    assert not family(parent.pid)


def test_an_orphan_is_still_family(parent: Process) -> None:
    parent.kill9(only_leader=True)
    assert len(family(parent.pid)) == 1
    parent.kill9()
    assert not family(parent.pid)


def test_terminate_ends_what_the_leader_left_behind(parent: Process) -> None:
    assert parent.terminate() == -signal.SIGTERM
    assert not family(parent.pid)


def test_a_stopped_process_goes_on(tmp_path: Path) -> None:
    process = python(TICKING, tmp_path)
    process.wait_for("tick")
    process.stop_signal()
    wait_until(lambda: state(process.pid) == "T", 5, "the stop")
    seen = len(process.log())
    process.cont()
    wait_until(lambda: len(process.log()) > seen, 5, "another tick")
    process.kill9()


def test_nothing_outlives_a_killed_run() -> None:
    command = [sys.executable, "-c", A_RUN, PARENT]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    pid, folder = run.stdout.split()
    assert run.returncode == -signal.SIGKILL
    wait_until(lambda: not family(int(pid)), 5, "the end of the stopped family")
    wait_until(lambda: not Path(folder).exists(), 5, "the removal of the folder")


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0]
