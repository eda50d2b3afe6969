"""Many schedules, none due for an hour: what a beat costs that has nothing to do."""

import time

from benchmarks.beats import Setting, beats, cpu_seconds, wait_until_idle
from benchmarks.report import Report
from benchmarks.schedules import insert
from benchmarks.servers import Servers, connect, statements_run, value
from tests.support.waiting import wait_until

SECONDS = 20.0
AN_HOUR = 3600.0
_UNPLANNED = "SELECT count(*) FROM dbbeat_cursor WHERE replan_from IS NOT NULL"


def run(servers: Servers, size: int) -> Report:
    """One beat, watched for a while."""
    report = Report(
        "idle",
        f"{size:,} schedules, none due for an hour, over {SECONDS:g} s",
        ("", "statements", "CPU", "planned in"),
    )
    setting = Setting("celery-dbbeat", servers.fresh_redis(), servers.fresh_database())
    insert(setting.database_url, size, time.time() + AN_HOUR)
    with beats(setting) as running, connect(setting.database_url) as connection:
        started_at = time.time()
        wait_until(lambda: value(connection, _UNPLANNED) == 0, 300, "all planned", every=0.2)
        planned_in = time.time() - started_at
        wait_until_idle(running)
        statements, cpu = statements_run(connection), cpu_seconds(running)
        time.sleep(SECONDS)
        statements = (statements_run(connection) - statements) / SECONDS
        cpu = (cpu_seconds(running) - cpu) / SECONDS
        ticks = value(connection, "SELECT count(*) FROM dbbeat_tick")
    report.rows.append(
        ("celery-dbbeat", f"{statements:.2f}/s", f"{cpu:.2%}", f"{planned_in:.1f} s")
    )
    report.headlines.append(f"{statements:.2f} statements a second, {cpu:.2%} of a core")
    report.figures = {"statements_a_second": statements, "cpu": cpu, "planned_in": planned_in}
    if ticks:
        report.wrong.append(f"{ticks:.0f} ticks were recorded though nothing was due")
    return report
