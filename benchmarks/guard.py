"""What the worker guard costs: the same ticks of a task that does nothing, with it and without."""

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from uuid import UUID

import redis
from celery.app.trace import trace_ok_t
from kombu import Connection

from benchmarks.app import TASK
from benchmarks.beats import Setting, celery
from benchmarks.inbox import QUEUE
from benchmarks.report import Report, milliseconds, quantile
from benchmarks.servers import Servers, connect, statements_run, value
from celery_dbbeat.rules.tick import task_id
from celery_dbbeat.settings import Settings
from celery_dbbeat.worker.guard import Guard
from tests.support.processes import Process

PROCESSES = 4
CALLS = 2_000
SCHEDULE = UUID(int=7)
START = datetime.now(timezone.utc).replace(microsecond=0)
LIMIT = 120.0


def run(servers: Servers, size: int) -> Report:
    """A worker of four processes, then the guard alone in one."""
    report = Report(
        "guard",
        f"{size:,} ticks of a task that does nothing, {PROCESSES} worker processes",
        ("", "ticks", "round trips a tick"),
    )
    bare = Setting("celery-dbbeat", servers.fresh_redis(), servers.fresh_database())
    guarded = replace(bare, database_url=servers.fresh_database(), extra={"BENCHMARK_GUARD": "1"})
    rates = {}
    for label, setting in (("without the guard", bare), ("with the guard", guarded)):
        rate, statements, ran = _throughput(setting, size)
        rates[label] = rate
        report.rows.append((label, f"{rate:,.0f}/s", f"{statements:.2f}"))
        if setting is guarded and ran != size:
            report.wrong.append(f"{ran:.0f} of {size} ticks are done")
    late = _alone(guarded.database_url)
    middle, high = quantile(late, 0.5), quantile(late, 0.99)
    ratio = rates["with the guard"] / rates["without the guard"]
    report.headlines += [
        f"{ratio:.2f} × the ticks a second of a worker without it",
        f"{milliseconds(middle)} a tick (p50), {milliseconds(high)} (p99), in one process",
    ]
    report.figures = {**rates, "ratio": ratio, "p50": middle, "p99": high}
    return report


def _throughput(setting: Setting, size: int) -> tuple[float, float, float]:
    _fill(setting.broker_url, size)
    client = redis.Redis.from_url(setting.broker_url)
    with closing(client), connect(setting.database_url) as connection, _worker(setting) as worker:
        seconds = _drain(client, worker, size)
        time.sleep(2)  # for what the worker holds in its hands
        statements = statements_run(connection) / size
        done = value(connection, "SELECT count(*) FROM dbbeat_dedup WHERE status = 'done'")
    return 0.8 * size / seconds, statements, done


def _drain(client: "redis.Redis[bytes]", worker: Process, size: int) -> float:
    """Seconds for the four fifths in the middle, which start and end do not disturb."""
    marks: list[float] = []
    stop_at = time.monotonic() + LIMIT
    for left in (0.9 * size, 0.1 * size):
        while client.llen(QUEUE) > left:
            if not worker.running or time.monotonic() > stop_at:
                raise RuntimeError(f"the worker did not get on:\n{worker.tail()}")
            time.sleep(0.005)
        marks.append(time.monotonic())
    return marks[1] - marks[0]


@contextmanager
def _worker(setting: Setting) -> Iterator[Process]:
    worker = celery(
        setting, "worker", "-l", "WARNING", "-c", str(PROCESSES), "--without-gossip",
        "--without-mingle", "--without-heartbeat",
    )  # fmt: skip
    try:
        yield worker
    finally:
        worker.kill9()


def _fill(url: str, size: int) -> None:
    with Connection(url) as connection:
        queue = connection.SimpleQueue(QUEUE)
        producer = connection.Producer()
        for number in range(size):
            nominal = START + timedelta(milliseconds=number)
            identity = str(task_id(SCHEDULE, nominal))
            producer.publish(
                json.dumps([[number], {}, {}]), routing_key=QUEUE, correlation_id=identity,
                content_type="application/json", content_encoding="utf-8",
                headers={"lang": "py", "task": TASK, "id": identity, "retries": 0,
                         "dbbeat": _header(nominal)},
            )  # fmt: skip
        queue.close()


def _header(nominal: datetime) -> dict[str, object]:
    shown = nominal.isoformat()
    return {"schedule": "bench", "nominal": shown, "kind": "scheduled", "attempt": 1}


def _alone(url: str) -> list[float]:
    """The time of the guard itself, around nothing."""
    nothing = trace_ok_t(None, None, 0.0, None)
    guarded = Guard(Settings(url)).around(lambda *_: nothing)
    took = []
    for number in range(CALLS):
        nominal = START + timedelta(days=1, milliseconds=number)
        identity = str(task_id(SCHEDULE, nominal))
        request = {"dbbeat": _header(nominal), "hostname": "bench"}
        began = time.perf_counter()
        guarded(identity, (), {}, request)
        took.append(time.perf_counter() - began)
    return took
