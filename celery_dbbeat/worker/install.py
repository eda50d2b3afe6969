"""Put the guard around the tracers of a worker, wherever its pool runs tasks."""

import functools
from typing import Any

from celery import Celery, bootsteps
from celery.signals import task_revoked
from celery.worker.consumer.tasks import Tasks

from celery_dbbeat import embedded
from celery_dbbeat.settings import Settings
from celery_dbbeat.worker.announcer import Announcer
from celery_dbbeat.worker.current import read_tick, run_of
from celery_dbbeat.worker.guard import Guard


@functools.cache
def settings_of(app: Celery) -> Settings:
    """The settings of an app, read once; an embedded Postgres is started."""
    return embedded.resolve(Settings.read(app.conf))


def guard_process(app: Celery) -> Guard:
    """Guard all tasks of this process."""
    guard = Guard(settings_of(app))
    for task in app.tasks.values():
        if task.__trace__ is not None:
            task.__trace__ = guard.around(task.__trace__)
    return guard


class GuardStep(bootsteps.StartStopStep):
    """Starts after Celery has built the tracers, at each connection to the broker anew."""

    requires = (Tasks,)
    name = "celery-dbbeat guard"

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        """Nothing is announced yet."""
        super().__init__(parent, **kwargs)
        self._guard: Guard | None = None
        self._announcer: Announcer | None = None

    def start(self, parent: Any) -> None:
        """Guard the tasks of this process; those of pool processes guard themselves."""
        app = parent.app
        self._guard = guard_process(app)
        if self._announcer is None:
            self._announcer = Announcer(
                settings_of(app), parent.hostname, lambda: list(app.amqp.queues.consume_from)
            )
            self._announcer.start()
            task_revoked.connect(self._on_revoked)

    def _on_revoked(self, *, request: Any, terminated: bool, expired: bool, **_: Any) -> None:
        headers = getattr(request, "headers", None) or {}
        tick = None if expired else read_tick(str(request.id), headers.get("dbbeat"))
        if tick is not None and self._announcer is not None:
            run = run_of(tick, request.retries or 0, str(request.hostname))
            self._announcer.revoked(run, terminated=terminated)

    def shutdown(self, parent: Any) -> None:  # noqa: ARG002 - as Celery calls it
        """Say goodbye to beat."""
        if self._announcer is not None:
            self._announcer.stop()
        if self._guard is not None:
            self._guard.close()
