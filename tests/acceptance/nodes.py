"""pytest-celery's nodes as local processes, for machines without an engine for containers.

Its wrappers ask little of a container; `LocalContainer` answers that for a process, so that its
clusters, setup and worker API work as they are.
"""

import signal as signals
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from pytest_celery import (  # type: ignore[import-untyped]
    CeleryTestContainer,
    CeleryWorkerContainer,
)

from tests.support.processes import Process

WORKER_APP = """
from celery import Celery
from pytest_celery.vendors.worker import tasks
app = Celery("celery_test_app")
"""


class LocalContainer:
    """What Docker's client would give, for a process that can be started again."""

    def __init__(self, name: str, start: Callable[[], Process]) -> None:
        self.id = uuid4().hex
        self.name = name
        self.attrs = {
            "NetworkSettings": {"Networks": {}, "Ports": {}},
            "HostConfig": {"PortBindings": {}},
            "Config": {"Env": []},
        }
        self._start = start
        self.process = start()

    @property
    def status(self) -> str:
        return "running" if self.process.running else "exited"

    def reload(self) -> None:
        """There is nothing to ask anybody: the status is always fresh."""

    def logs(self) -> bytes:
        return self.process.log().encode()

    def kill(self, signal: str | int | None = None) -> None:
        number = signals.Signals[signal] if isinstance(signal, str) else signals.SIGKILL
        self.process.send(number)
        self.process.wait()

    def restart(self, timeout: float = 10) -> None:
        if self.process.running:
            self.process.terminate(timeout)
        self.process = self._start()


class ServerContainer(CeleryTestContainer):  # type: ignore[misc]
    """A broker or result backend that runs already, at a URL."""

    def __init__(self, url: str) -> None:  # its parent would want a container
        self._url = url

    @property
    def celeryconfig(self) -> dict[str, str]:
        return {"url": self._url, "host_url": self._url}

    def ready(self) -> bool:
        return True


class LocalWorkerContainer(CeleryWorkerContainer):  # type: ignore[misc]
    """A worker as a local process."""

    def teardown(self) -> None:
        self._container.process.kill9()


def local_worker(folder: Path, environment: Mapping[str, str]) -> LocalWorkerContainer:
    """Start a worker with pytest-celery's own tasks."""
    (folder / "app.py").write_text(WORKER_APP, encoding="utf-8")
    command: list[Any] = [sys.executable, "-m", *LocalWorkerContainer.command("-P", "solo")]

    def start() -> Process:
        return Process(command, log=folder / "worker.log", env=environment, cwd=folder)

    return LocalWorkerContainer(LocalContainer("worker", start))
