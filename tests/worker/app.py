"""The app of these tests: each effect is a row of a table that no constraint helps.

DBBEAT_TEST_NO_GUARD runs it as an app that only sets `beat_scheduler`.
"""

import os
import time

import psycopg
from celery import Celery, Task
from celery.exceptions import Ignore, Reject

from celery_dbbeat import current_tick, once, setup
from tests.support.postgres import psycopg_url

app = Celery("tests.worker.app")
app.conf.update(
    broker_connection_retry_on_startup=True,
    task_acks_late=bool(os.environ.get("DBBEAT_TEST_ACKS_LATE")),
    task_reject_on_worker_lost=bool(os.environ.get("DBBEAT_TEST_REJECT_ON_WORKER_LOST")),
    task_track_started=bool(os.environ.get("DBBEAT_TEST_TRACK_STARTED")),
    result_backend=os.environ.get("DBBEAT_TEST_RESULT_BACKEND"),
    task_ignore_result="DBBEAT_TEST_RESULT_BACKEND" not in os.environ,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    timezone="UTC",
)
if os.environ.get("DBBEAT_TEST_NO_GUARD"):
    app.conf.beat_scheduler = "celery_dbbeat:DatabaseScheduler"
else:
    setup(app)

EFFECT = "INSERT INTO effect (task_id, worker, attempt) VALUES (%s, %s, %s)"


def connect() -> psycopg.Connection[tuple[object, ...]]:
    url = os.environ.get("DBBEAT_TEST_EFFECTS_URL") or os.environ["DBBEAT_URL"]
    return psycopg.connect(psycopg_url(url), connect_timeout=5)


def have_effect(connection: psycopg.Connection[tuple[object, ...]], task: Task) -> None:
    tick = current_tick()
    attempt = tick.attempt if tick else 0
    connection.execute(EFFECT, (task.request.id, str(os.getpid()), attempt))


@app.task(bind=True, name="plain")  # type: ignore[untyped-decorator]
def plain(self: Task, seconds: float = 0.0) -> str:
    """An effect without `once`, at the end of so many seconds."""
    time.sleep(seconds)
    with connect() as connection:
        have_effect(connection, self)
    return "effect"


@app.task(bind=True, name="exactly")  # type: ignore[untyped-decorator]
def exactly(self: Task, seconds: float = 0.0) -> str:
    """An effect with `once`."""
    with connect() as connection, once(connection):
        have_effect(connection, self)
        time.sleep(seconds)
    return "effect"


@app.task(bind=True, name="polite")  # type: ignore[untyped-decorator]
def polite(self: Task, seconds: float = 30.0) -> str:
    """Ends early when it is asked to; else it has an effect at the end of so many seconds."""
    tick = current_tick()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if tick is not None and tick.cancelled():
            return "asked to end"
        time.sleep(0.05)
    with connect() as connection:
        have_effect(connection, self)
    return "effect"


@app.task(bind=True, name="failing")  # type: ignore[untyped-decorator]
def failing(self: Task) -> None:
    with connect() as connection:
        have_effect(connection, self)
    raise LookupError("no such customer")


@app.task(bind=True, name="retrying", max_retries=5)  # type: ignore[untyped-decorator]
def retrying(self: Task, times: int = 2) -> str:
    """Has its effect only after so many retries of its own."""
    if self.request.retries < times:
        raise self.retry(countdown=0.1)
    with connect() as connection:
        have_effect(connection, self)
    return "effect"


@app.task(bind=True, name="ignoring")  # type: ignore[untyped-decorator]
def ignoring(self: Task) -> None:
    with connect() as connection:
        have_effect(connection, self)
    raise Ignore


@app.task(bind=True, name="rejecting", acks_late=True)  # type: ignore[untyped-decorator]
def rejecting(self: Task) -> str:
    """Gives the message back the first time."""
    with connect() as connection:
        found = connection.execute(
            "SELECT count(*) FROM effect WHERE task_id = %s", (self.request.id,)
        ).fetchone()
        have_effect(connection, self)
    if found == (0,):
        raise Reject("not yet", requeue=True)
    return "effect"


@app.task(name="noop")  # type: ignore[untyped-decorator]
def noop(*_: object) -> None:
    """Nothing."""
