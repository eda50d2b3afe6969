"""The app that the beats of these tests run. Addresses come from the environment."""

from celery import Celery

TASK = "tests.faults.app.note"

app = Celery("tests.faults.app")
app.conf.update(
    beat_scheduler="celery_dbbeat:DatabaseScheduler",
    broker_connection_retry_on_startup=True,
    task_ignore_result=True,
    timezone="UTC",
)


@app.task(name=TASK)  # type: ignore[untyped-decorator]
def note(number: int = 0) -> int:
    return number
