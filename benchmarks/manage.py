"""A million schedules: lists by every condition, many made and many deleted at once."""

import statistics
import time
from collections.abc import Callable
from typing import Any

from celery import Celery

from benchmarks.report import Report, milliseconds, quantile
from benchmarks.servers import Servers, connect
from celery_dbbeat import Schedules

AT_ONCE = 100_000
TRIES = 5

_FILL = """
INSERT INTO dbbeat_schedule (name, task, kind, expression, options, labels, description, state)
SELECT format('tenant-%%s-job-%%s', to_char(i %% 1000, 'FM000'), to_char(i, 'FM0000000')),
       'shop.tasks.task_' || i %% 50, 'interval', '86400',
       CASE WHEN i %% 4 = 0 THEN jsonb_build_object('queue', 'queue-' || i %% 20) ELSE '{}' END,
       jsonb_build_object('team', 'team-' || i %% 20, 'tenant', i %% 1000,
                          'early', i %% 1000 < 200, 'late', i %% 1000 >= 800),
       CASE WHEN i %% 997 = 0 THEN 'prime numbers are rare' ELSE 'run of the mill' END,
       CASE WHEN i %% 1000 = 7 THEN 'invalid' WHEN i %% 100 = 8 THEN 'paused'
            WHEN i %% 10 = 9 THEN 'finished' ELSE 'active' END
FROM generate_series(1, %s) AS i
"""

# What a list is asked for, and a name far into it.
_LISTS: dict[str, tuple[dict[str, Any], str]] = {
    "all": ({}, "tenant-900"),
    "state active": ({"state": "active"}, "tenant-900"),
    "state paused, 1 in 100": ({"state": "paused"}, "tenant-900"),
    "state invalid, 1 in 1,000": ({"state": "invalid"}, "tenant-007-job-09"),
    "task, 1 in 50": ({"task": "shop.tasks.task_7"}, "tenant-900"),
    "queue, 1 in 20": ({"queue": "queue-8"}, "tenant-900"),
    "queue and state": ({"queue": "queue-8", "state": "paused"}, "tenant-900"),
    "task and label": (
        {"task": "shop.tasks.task_7", "labels": {"team": "team-7"}},
        "tenant-900",
    ),
    "label, 1 in 20": ({"labels": {"team": "team-7"}}, "tenant-900"),
    "label, 1 in 1,000": ({"labels": {"tenant": 7}}, "tenant-007-job-09"),
    "label, 1 in 5, all at the end": ({"labels": {"late": True}}, "tenant-900"),
    "label, 1 in 5, none left": ({"labels": {"early": True}}, "tenant-200"),
    "label of none": ({"labels": {"team": "nobody"}}, "tenant-900"),
    "text, in all": ({"text": "job"}, "tenant-900"),
    "text, 1 in 997": ({"text": "rare prime"}, "tenant-900"),
    "text, one": ({"text": "0777777"}, "tenant-100"),
    "text of none": ({"text": "nothing"}, "tenant-900"),
    "owner code": ({"owner": "code"}, "tenant-900"),
}


def run(servers: Servers, size: int) -> Report:
    """Fill a database, and do to it what people do."""
    report = Report(
        "manage", f"{size:,} schedules; a page is 100 of them", ("", "p50", "slowest", "found")
    )
    url = servers.fresh_database()
    with connect(url) as connection:
        connection.execute(_FILL, [size])
        connection.execute("VACUUM ANALYZE dbbeat_schedule, dbbeat_cursor")
    app = Celery("bench", broker="memory://", set_as_current=False)
    app.conf.dbbeat_url = url
    schedules = Schedules(app)
    for name, (conditions, far) in _LISTS.items():
        for page, after in (("first page", None), ("a later one", far)):
            _time(report, f"{name}: {page}", _lister(schedules, conditions, after))
    for what, work in (("create_many", _create), ("delete_many", _delete)):
        began = time.perf_counter()
        count = work(schedules)
        took = time.perf_counter() - began
        report.headlines.append(f"{what}: {count:,} in {took:.1f} s")
        report.figures[what] = took
        if count != AT_ONCE:
            report.wrong.append(f"{what} did {count:,}")
    return report


def _lister(
    schedules: Schedules, conditions: dict[str, Any], after: str | None
) -> Callable[[], int]:
    return lambda: len(schedules.list(**conditions, after=after))


def _time(report: Report, name: str, ask: Callable[[], int]) -> None:
    """One unmeasured, then a few that are."""
    found = ask()
    times = []
    for _ in range(TRIES):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    report.figures[name] = quantile(times, 1)
    half = statistics.median(times)
    report.rows.append((name, milliseconds(half), milliseconds(max(times)), str(found)))


def _create(schedules: Schedules) -> int:
    definitions = (
        {
            "name": f"made-{number:06}",
            "task": "shop.tasks.sync",
            "cron": f"{number % 60} {number // 60 % 24} * * *",
            "timezone": "Europe/Berlin",
            "args": [number],
            "labels": {"team": f"team-{number % 20}"},
        }
        for number in range(AT_ONCE)
    )
    return len(schedules.create_many(definitions).created)


def _delete(schedules: Schedules) -> int:
    return schedules.delete_many(f"made-{number:06}" for number in range(AT_ONCE))
