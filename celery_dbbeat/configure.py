"""One call that makes an app use this scheduler, and its workers the guard."""

from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_process_init, worker_process_shutdown

from celery_dbbeat.errors import DbbeatError

SCHEDULER = "celery_dbbeat:DatabaseScheduler"
# By name: only workers import it.
_STEP = "celery_dbbeat.worker.install:GuardStep"


def setup(app: Celery, url: str | None = None) -> None:
    """Make `celery beat` of this app use the database scheduler, and its workers run a tick once.

    >>> app = Celery("shop", broker="redis://localhost")
    >>> setup(app, "postgresql+psycopg://shop@localhost/shop")

    `url` is where the schedules live; without it, `dbbeat_url` or DBBEAT_URL says.
    """
    app.conf.beat_scheduler = SCHEDULER
    app.conf.dbbeat_guard = True
    if url is not None:
        app.conf.dbbeat_url = url
    app.steps["consumer"].add(_STEP)
    _guard_pool_processes(app)


def _guard_pool_processes(app: Celery) -> None:
    guards = []

    def prepare(**_: Any) -> None:
        # Before the pool forks: what an embedded Postgres is started for is inherited.
        from celery_dbbeat.worker.install import monitor_of

        try:
            monitor_of(app)
        except DbbeatError as error:
            # Signals swallow errors: this ends the worker, with one line that says why.
            raise SystemExit(f"Error: {error}") from None

    def begin(**_: Any) -> None:
        # In a pool process, so that nobody else needs what is imported here.
        from celery_dbbeat.worker.install import guard_process, monitor_of

        monitor = monitor_of(app)
        if monitor is not None:
            monitor.in_pool_process()
        guards.append(guard_process(app))

    def end(**_: Any) -> None:
        for guard in guards:
            guard.close()

    name = f"celery-dbbeat {id(app)}"
    worker_init.connect(prepare, weak=False, dispatch_uid=name)
    worker_process_init.connect(begin, weak=False, dispatch_uid=name)
    worker_process_shutdown.connect(end, weak=False, dispatch_uid=name)
