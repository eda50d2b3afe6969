"""What time itself costs: the next fire time of usual expressions, and planning a batch."""

from datetime import datetime, timedelta, timezone
from itertools import cycle
from statistics import median
from time import process_time
from uuid import UUID

from benchmarks.report import Report
from benchmarks.servers import Servers
from celery_dbbeat.rules.plan import plan
from celery_dbbeat.rules.schedule import Cursor, Schedule
from celery_dbbeat.rules.trigger import parse_trigger

EXPRESSIONS = (
    ("cron", "* * * * *"),
    ("cron", "*/5 * * * *"),
    ("cron", "0 9 * * mon-fri"),
    ("cron", "30 2 * * *"),
    ("cron", "0 0 1 * *"),
    ("cron", "15 */2 * * *"),
    ("crontab", '{"minute": 0, "hour": "8-17"}'),
    ("interval", "300"),
    ("interval", "1 month"),
    ("rrule", "FREQ=WEEKLY;BYDAY=MO,WE;BYHOUR=9"),
)
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe")
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
BATCH = 1_000
BATCHES = 15


def run(servers: Servers, size: int) -> Report:
    """Step through each expression in each zone, then plan batches."""
    report = Report(
        "triggers",
        f"next(after), {size:,} times each, in one process, by its CPU time",
        ("", *ZONES),
    )
    spent, done = 0.0, 0
    for kind, text in EXPRESSIONS:
        times = [_step(kind, text, zone, size) for zone in ZONES]
        report.rows.append((f"{kind} {text}", *(f"{size / time:,.0f}/s" for time in times)))
        if kind == "cron":
            spent, done = spent + sum(times), done + size * len(times)
    batch = median(_plan_batch() for _ in range(BATCHES))
    report.headlines.append(f"{done / spent:,.0f} a second over all that are cron")
    report.headlines.append(f"{batch * 1000:.1f} ms to plan {BATCH:,} schedules that are due")
    report.figures = {"cron_a_second": done / spent, "batch_seconds": batch}
    return report


def _step(kind: str, text: str, zone: str, size: int) -> float:
    trigger, at = parse_trigger(kind, text, zone), NOW
    began = process_time()
    for _ in range(size):
        at = trigger.next(at) or NOW
    return process_time() - began


def _plan_batch() -> float:
    kinds = [(kind, text, zone) for kind, text in EXPRESSIONS for zone in ZONES]
    due = []
    for number, (kind, text, zone) in zip(range(BATCH), cycle(kinds), strict=False):
        schedule = Schedule(UUID(int=number), 1, f"s{number}", "t", kind, text, zone)
        at = schedule.trigger.next(NOW) or NOW
        due.append((schedule, Cursor(at, at), at + timedelta(milliseconds=5)))
    began = process_time()
    for schedule, cursor, now in due:
        plan(schedule, cursor, now)
    return process_time() - began
