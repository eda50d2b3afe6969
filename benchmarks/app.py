"""The Celery app that every beat runs here; the environment says against what."""

import os
from datetime import datetime, timedelta, timezone

from celery import Celery
from celery.schedules import schedule

import celery_dbbeat

TASK = "benchmarks.work"
DAY = timedelta(days=1)

app = Celery("benchmarks")
app.conf.update(
    task_ignore_result=True,
    # As often as celery-dbbeat looks up; Celery's own default is five minutes.
    beat_max_loop_interval=5,
    redbeat_redis_url=os.environ.get("CELERY_BROKER_URL"),
    broker_transport_options=(
        {"confirm_publish": True} if os.environ.get("BENCHMARK_CONFIRM") else {}
    ),
)


@app.task(name=TASK)
def work(number: int) -> None:
    """Nothing: no worker runs it."""


def daily_entries(size: int, due: datetime) -> dict[str, dict[str, object]]:
    """Entries of `beat_schedule`, each due for the first time at that instant."""
    when = schedule(DAY, app=app)
    return {
        f"daily-{number}": {
            "task": TASK,
            "schedule": when,
            "args": (number,),
            "last_run_at": due - DAY,
        }
        for number in range(size)
    }


if "BENCHMARK_GUARD" in os.environ:
    celery_dbbeat.setup(app)

if "BENCHMARK_STATIC" in os.environ:
    _size, _due = os.environ["BENCHMARK_STATIC"].split("@")
    app.conf.beat_schedule = daily_entries(
        int(_size), datetime.fromtimestamp(float(_due), timezone.utc)
    )
