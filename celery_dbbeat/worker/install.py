"""Put the guard around the tracers of a worker, wherever its pool runs tasks."""

import functools
from datetime import timedelta
from typing import Any

from celery import Celery, bootsteps, states
from celery.signals import task_revoked, task_unknown
from celery.worker import state
from celery.worker.consumer.tasks import Tasks

from celery_dbbeat import embedded
from celery_dbbeat.settings import Settings
from celery_dbbeat.store.runs import Ending
from celery_dbbeat.store.workers import Reading
from celery_dbbeat.worker.announcer import Announcer
from celery_dbbeat.worker.current import read_tick, run_of
from celery_dbbeat.worker.guard import Guard
from celery_dbbeat.worker.monitor import Monitor


@functools.cache
def settings_of(app: Celery) -> Settings:
    """The settings of an app, read once; an embedded Postgres is started."""
    return embedded.resolve(Settings.read(app.conf))


@functools.cache
def monitor_of(app: Celery) -> Monitor | None:
    """What the worker serves, where it is to serve anything.

    To be asked for before the pool is forked: its processes inherit where to count.
    """
    address = settings_of(app).worker_http
    return None if address is None else Monitor(address)


def guard_process(app: Celery, guard: Guard | None = None) -> Guard:
    """Guard all tasks of this process, by the guard that it has or by a new one."""
    guard = guard or Guard(settings_of(app))
    for task in app.tasks.values():
        if task.__trace__ is not None:
            task.__trace__ = guard.around(task.__trace__)
    return guard


def _reading(app: Celery) -> Reading:
    begun = len(state.active_requests)
    return Reading(list(app.amqp.queues.consume_from), max(0, len(state.reserved_requests) - begun))


class GuardStep(bootsteps.StartStopStep):
    """Starts after Celery has built the tracers, at each connection to the broker anew."""

    requires = (Tasks,)
    name = "celery-dbbeat guard"

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        """Nothing is announced yet."""
        super().__init__(parent, **kwargs)
        self._guard: Guard | None = None
        self._hostname = ""
        self._rest = timedelta(0)
        self._announcer: Announcer | None = None
        self._monitor: Monitor | None = None

    def start(self, parent: Any) -> None:
        """Guard the tasks of this process; those of pool processes guard themselves."""
        app = parent.app
        self._guard = guard_process(app, self._guard)
        self._hostname = parent.hostname
        self._rest = timedelta(seconds=settings_of(app).resend_after)
        if self._announcer is None:
            self._announcer = Announcer(settings_of(app), parent.hostname, lambda: _reading(app))
            self._announcer.start()
            self._monitor = monitor_of(app)
            task_revoked.connect(self._on_revoked)
            task_unknown.connect(self._on_unknown)
        if self._monitor is not None:
            self._monitor.connected(self._announcer)

    def stop(self, parent: Any) -> None:  # noqa: ARG002 - as Celery calls it
        """The connection to the broker is gone, or the worker stops."""
        if self._monitor is not None:
            self._monitor.disconnected()

    def _on_revoked(self, *, request: Any, terminated: bool, expired: bool, **_: Any) -> None:
        headers = getattr(request, "headers", None) or {}
        told = "somebody revoked it" + (" while it ran" if terminated else " before it was run")
        if not expired:  # beat knows that by itself
            ending = Ending("failed", states.REVOKED, told)
            self._discarded(request.id, headers, ending, terminated=terminated)

    def _on_unknown(self, *, message: Any, name: str, id: str, **_: Any) -> None:  # noqa: A002 - as Celery calls it
        told = f"the worker does not know the task {name!r}"
        # Another one may: it is sent again, as often as it may be begun.
        ending = Ending("released", states.REJECTED, told, rest=self._rest)
        self._discarded(id, message.headers or {}, ending)

    def _discarded(
        self, task_id: str, headers: dict[str, Any], ending: Ending, *, terminated: bool = False
    ) -> None:
        tick = read_tick(str(task_id), headers.get("dbbeat"))
        if tick is not None and self._announcer is not None:
            run = run_of(tick, 0, self._hostname)
            self._announcer.discarded(run, ending, terminated=terminated)

    def shutdown(self, parent: Any) -> None:  # noqa: ARG002 - as Celery calls it
        """Say goodbye to beat."""
        if self._monitor is not None:
            self._monitor.close()
        if self._announcer is not None:
            self._announcer.stop()
        if self._guard is not None:
            self._guard.close()
