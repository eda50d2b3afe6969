"""So many schedules that nobody dispatched for six hours, each fire time to be made up for.

Meanwhile others are due as ever. What counts: that all comes at the rate asked for, without a burst
over it, in order, and that what is on time stays so.
"""

import json
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

import redis

from benchmarks.app import TASK
from benchmarks.beats import Setting, beats, cpu_seconds
from benchmarks.inbox import QUEUE
from benchmarks.report import Report, milliseconds, quantile
from benchmarks.schedules import insert
from benchmarks.servers import Servers, connect

MISSED = 72
EVERY = 300
RATE = 2000
PUNCTUAL = 6000
MINUTE = 60.0

_INSERT = """
INSERT INTO dbbeat_schedule (name, task, kind, expression, args, catch_up, misfire_grace, end_at)
SELECT 'late-' || i, %(task)s, 'interval', %(every)s::int::text, jsonb_build_array(i), 'all', NULL,
       to_timestamp(floor(extract(epoch FROM now()) / %(every)s::int) * %(every)s::int - 60)
FROM generate_series(1, %(size)s) AS i
"""
_AWAY = """
UPDATE dbbeat_cursor c SET replan_from = NULL, nominal_at = first, due_at = first
FROM (SELECT id, to_timestamp((floor(extract(epoch FROM end_at) / %(every)s::int) - %(missed)s + 1)
                              * %(every)s::int) AS first
      FROM dbbeat_schedule WHERE end_at IS NOT NULL) s
WHERE c.schedule_id = s.id
"""


@dataclass(frozen=True, slots=True)
class Arrival:
    """What is kept of a message."""

    schedule: str
    nominal_at: float
    kind: str
    at: float


def run(servers: Servers, size: int) -> Report:
    """One beat; it ends when all late ticks have arrived, or after half as long again."""
    report = Report(
        "catch_up",
        f"{size:,} schedules × {MISSED} missed fire times, {RATE:,} a second asked for,"
        f" {PUNCTUAL:,} others a minute",
        ("", "rate", "busiest second", "on time p50", "p99", "max", "CPU of beat"),
    )
    extra = {"DBBEAT_CATCH_UP_RATE": str(RATE)}
    setting = Setting("celery-dbbeat", servers.fresh_redis(), servers.fresh_database(), extra)
    start = float(round(time.time() + 8 + size / 2000))
    insert(setting.database_url, PUNCTUAL, start, every=MINUTE, apart=MINUTE / PUNCTUAL)
    with connect(setting.database_url) as connection:
        connection.execute(_INSERT, {"task": TASK, "every": EVERY, "size": size})
        connection.execute(_AWAY, {"every": EVERY, "missed": MISSED})
        connection.execute("ANALYZE dbbeat_schedule, dbbeat_cursor")
    time.sleep(max(0.0, start - time.time()))
    with beats(setting) as running:
        arrivals = _collect(setting.broker_url, size * MISSED)
        share = cpu_seconds(running) / max(arrivals[-1].at - start, 1.0)
    late = [one for one in arrivals if one.schedule.startswith("late-")]
    # The first second is that of the start: what came due before it is late by that.
    began_at = arrivals[0].at + 1.0
    others = [
        one.at - one.nominal_at
        for one in arrivals
        if one.schedule.startswith("bench-") and one.nominal_at > began_at
    ]
    _report(report, late, others, share)
    report.wrong = _wrong(late, size)
    return report


def _collect(url: str, number: int) -> list[Arrival]:
    found: list[Arrival] = []
    late, stop_at = 0, time.time() + 30 + 1.5 * number / RATE
    with closing(redis.Redis.from_url(url, socket_timeout=10)) as client:
        while late < number and time.time() < stop_at:
            some = client.rpop(QUEUE, 1000) or []
            now = time.time()
            for raw in some:
                header = json.loads(raw)["headers"]["dbbeat"]
                nominal = datetime.fromisoformat(header["nominal"]).timestamp()
                found.append(Arrival(header["schedule"], nominal, header["kind"], now))
                late += header["schedule"].startswith("late-")
            if len(some) < 100:
                time.sleep(0.01)
    return found


def _report(report: Report, late: Sequence[Arrival], others: Sequence[float], share: float) -> None:
    first, last = late[0].at, late[-1].at
    rate = len(late) / max(last - first, 1e-9)
    busiest = max(Counter(int(one.at - first) for one in late).values())
    times = {"p50": quantile(others, 0.5), "p99": quantile(others, 0.99), "max": max(others)}
    report.figures = {"rate": rate, "busiest_second": busiest, "cpu": share, **times}
    report.headlines.append(
        f"{len(late):,} late ticks in {last - first:.1f} s: {rate / RATE:.1%} of the rate;"
        f" on time meanwhile {milliseconds(times['p99'])} (p99)"
    )
    shown = [milliseconds(value) for value in times.values()]
    report.rows.append(("celery-dbbeat", f"{rate:,.0f}/s", f"{busiest:,}", *shown, f"{share:.0%}"))


def _wrong(late: Sequence[Arrival], size: int) -> list[str]:
    wrong = []
    by_schedule = defaultdict(list)
    for one in late:
        by_schedule[one.schedule].append(one.nominal_at)
    different = sum(len(set(nominals)) for nominals in by_schedule.values())
    if not different == len(late) == size * MISSED:
        wrong.append(f"{len(late)} messages of {different} ticks instead of {size * MISSED}")
    disordered = sum(nominals != sorted(nominals) for nominals in by_schedule.values())
    if disordered:
        wrong.append(f"{disordered} schedules out of order")
    if any(one.kind != "catch_up" for one in late):
        wrong.append("some do not say that they are late")
    return wrong
