"""So many schedules a minute, spread evenly over it: how punctual, and at what cost."""

import time
from contextlib import closing

from benchmarks.beats import Setting, beats, cpu_seconds, wait_until_idle
from benchmarks.inbox import Message, RedisInbox
from benchmarks.report import Report, milliseconds, quantile
from benchmarks.schedules import insert
from benchmarks.servers import Servers, connect, statements_run

SECONDS = 30.0
MINUTE = 60.0


def run(servers: Servers, size: int) -> Report:
    """Each schedule once a minute, watched for half of one."""
    report = Report(
        "steady",
        f"{size:,} schedules a minute, spread evenly, over {SECONDS:g} s",
        ("", "p50", "p99", "max", "statements a tick", "CPU a tick"),
    )
    setting = Setting("celery-dbbeat", servers.fresh_redis(), servers.fresh_database())
    start = float(round(time.time() + 12 + size / 2000))
    insert(setting.database_url, size, start, every=MINUTE, apart=MINUTE / size)
    with (
        beats(setting) as running,
        connect(setting.database_url) as connection,
        closing(RedisInbox(setting.broker_url)) as arrivals,
    ):
        wait_until_idle(running)
        if time.time() > start - 0.5:
            raise RuntimeError("beat was not idle before the first schedule was due")
        time.sleep(start - time.time() - 0.2)
        statements, cpu = statements_run(connection), cpu_seconds(running)
        messages = arrivals.collect(start + SECONDS)
        statements, cpu = statements_run(connection) - statements, cpu_seconds(running) - cpu
        messages += arrivals.collect(start + SECONDS + 2)
    # Half a step before the end: fire times are in microseconds, and the next one is at the end.
    end = start + SECONDS - MINUTE / size / 2
    ours = [message for message in messages if message.nominal_at < end]
    _report(report, ours, statements / len(ours), cpu / len(ours))
    report.wrong = _wrong(ours, round(size * SECONDS / MINUTE))
    return report


def _report(report: Report, ours: list[Message], statements: float, cpu: float) -> None:
    late = [message.late for message in ours]
    shown = {"p50": quantile(late, 0.5), "p99": quantile(late, 0.99), "max": max(late)}
    report.figures = {**shown, "statements_a_tick": statements, "cpu_a_tick": cpu}
    report.headlines.append(
        "late by " + ", ".join(f"{milliseconds(value)} ({name})" for name, value in shown.items())
    )
    costs = (f"{statements:.2f}", f"{cpu * 1e6:,.0f} µs")
    report.rows.append(("celery-dbbeat", *map(milliseconds, shown.values()), *costs))


def _wrong(ours: list[Message], expected: int) -> list[str]:
    different = len({message.number for message in ours})
    if different == len(ours) == expected:
        return []
    return [f"{len(ours)} messages of {different} schedules arrived instead of {expected}"]
