"""A schedule inserted by plain SQL: when beat has planned it, and how late its first tick is."""

import time
from contextlib import closing

import psycopg
from psycopg.rows import TupleRow

from benchmarks.app import TASK
from benchmarks.beats import Setting, beats, wait_until_idle
from benchmarks.inbox import RedisInbox
from benchmarks.report import Report, milliseconds, quantile
from benchmarks.servers import Servers, connect, value
from tests.support.waiting import wait_until

_PLANNED = """
SELECT count(*) FROM dbbeat_cursor c JOIN dbbeat_schedule s ON s.id = c.schedule_id
WHERE s.name = %s AND c.nominal_at IS NOT NULL
"""


def run(servers: Servers, repetitions: int) -> Report:
    """Insert, wait for the first message, delete; so many times."""
    report = Report(
        "seen",
        f"a schedule inserted by SQL, due each second, {repetitions} times",
        ("", "p50", "max"),
    )
    setting = Setting("celery-dbbeat", servers.fresh_redis(), servers.fresh_database())
    with (
        beats(setting) as running,
        connect(setting.database_url) as connection,
        closing(RedisInbox(setting.broker_url)) as arrivals,
    ):
        wait_until_idle(running)
        found = [_once(connection, arrivals, number) for number in range(repetitions)]
    for label, values in (
        ("planned after the commit", [planned for planned, _ in found]),
        ("first message after its fire time", [late for _, late in found]),
    ):
        middle, worst = quantile(values, 0.5), max(values)
        report.rows.append((label, milliseconds(middle), milliseconds(worst)))
        report.headlines.append(f"{label}: {milliseconds(middle)} (p50)")
        report.figures[label] = values
    return report


def _once(
    connection: psycopg.Connection[TupleRow], arrivals: RedisInbox, number: int
) -> tuple[float, float]:
    name = f"seen-{number}"
    time.sleep(number * 0.137 % 1)  # at any place within the second
    connection.execute(
        "INSERT INTO dbbeat_schedule (name, task, kind, expression, args)"
        " VALUES (%s, %s, 'interval', '1', '[1]')",
        (name, TASK),
    )
    committed_at = time.time()
    wait_until(lambda: value(connection, _PLANNED, name), 30, f"the plan of {name}", every=0.001)
    planned = time.time() - committed_at
    message = arrivals.next(30)
    if message is None or message.headers["periodic_task_name"] != name:
        raise RuntimeError(f"instead of the first tick of {name} came {message}")
    connection.execute("DELETE FROM dbbeat_schedule WHERE name = %s", (name,))
    time.sleep(0.1)
    arrivals.drain()
    return planned, message.late
