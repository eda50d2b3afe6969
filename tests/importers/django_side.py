"""A project with django-celery-beat, in a process of its own: Django is set up once a process.

`python django_side.py URL NOW COUNT SEED` makes its tables and COUNT mixed tasks in that database,
and prints for each, as JSON, when its own scheduler would send it the next 20 times after NOW: by
asking the real entry, `is_due()`, at the times it says itself that it wants to be asked again.
"""

# ruff: noqa: ANN401 - Django's models have no types
# ruff: noqa: PLC0415 - they can be imported once Django is set up
# ruff: noqa: S311 - what is chosen here is no secret

import json
import random
import sys
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import make_url

UTC = timezone.utc
TIMES = 20
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe")
EVENTS = ("sunrise", "sunset", "solar_noon", "dawn_civil", "dusk_nautical")
MINUTES = ("0", "30", "*/5", "*/7", "5,35", "10-20/3", "59")
HOURS = ("*", "*/2", "2", "3", "9-17", "1,2,3", "22-2")
WEEKDAYS = ("*", "*", "mon-fri", "0", "6,0", "wed")
DAYS = ("*", "*", "1", "13", "*/2", "28-31")
MONTHS = ("*", "*", "*", "3,10", "*/3")


def set_up(url: str) -> None:
    import django
    from django.conf import settings

    settings.configure(
        DATABASES={"default": database(url)},
        INSTALLED_APPS=["django_celery_beat"],
        USE_TZ=True,
        TIME_ZONE="Europe/Berlin",
        SECRET_KEY="none",  # noqa: S106 - nothing is signed with it
        DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    )
    django.setup()


def database(url: str) -> dict[str, Any]:
    at = make_url(url)
    if at.drivername.startswith("sqlite"):
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": at.database}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": at.database,
        "USER": at.username,
        "PASSWORD": at.password or "",
        "HOST": at.host or at.query.get("host", ""),
        "PORT": at.port or "",
    }


def make(now: datetime, count: int, seed: int) -> None:
    from django_celery_beat import models

    choose = random.Random(seed)
    makers = {
        "crontab": (models.CrontabSchedule, crontab),
        "interval": (models.IntervalSchedule, interval),
        "solar": (models.SolarSchedule, solar),
        "clocked": (models.ClockedSchedule, clocked),
    }
    tasks = []
    for number in range(count):
        kind = choose.choices(list(makers), (10, 6, 2, 2))[0]
        model, spec = makers[kind]
        when, _ = model.objects.get_or_create(**spec(choose, now))
        tasks.append(task(choose, now, number, kind, when))
    models.PeriodicTask.objects.bulk_create(tasks)
    models.PeriodicTask.objects.update(date_changed=now - timedelta(seconds=0.3))


def crontab(choose: random.Random, _: datetime) -> dict[str, Any]:
    return {
        "minute": choose.choice(MINUTES),
        "hour": choose.choice(HOURS),
        "day_of_week": choose.choice(WEEKDAYS),
        "day_of_month": choose.choice(DAYS),
        "month_of_year": choose.choice(MONTHS),
        "timezone": ZoneInfo(choose.choice(ZONES)),
    }


def interval(choose: random.Random, _: datetime) -> dict[str, Any]:
    period = choose.choice(["days", "hours", "minutes", "seconds"])
    return {"every": choose.randint(1, 90), "period": period}


def solar(choose: random.Random, _: datetime) -> dict[str, Any]:
    return {
        "event": choose.choice(EVENTS),
        "latitude": choose.randint(-500_000, 500_000) / 10_000,
        "longitude": choose.randint(-1_800_000, 1_800_000) / 10_000,
    }


def clocked(choose: random.Random, now: datetime) -> dict[str, Any]:
    return {"clocked_time": now + timedelta(seconds=choose.randint(60, 10**6))}


def task(choose: random.Random, now: datetime, number: int, kind: str, when: Any) -> Any:
    from django_celery_beat.models import PeriodicTask

    made = PeriodicTask(name=f"task {number}", task="shop.tasks.work", **{kind: when})
    made.args, made.kwargs = json.dumps([number]), json.dumps({"deep": {"ä": [1.5, None]}})
    made.one_off = kind == "clocked" or choose.random() < 0.05
    made.enabled = choose.random() > 0.1
    made.queue = choose.choice([None, None, "bulk"])
    made.priority = choose.choice([None, None, 0, 5])
    made.headers = choose.choice(["{}", "{}", '{"trace": "on"}'])
    made.description = f"number {number}"
    if choose.random() < 0.1:
        made.expires = now + timedelta(days=choose.randint(0, 3), hours=7)
    elif choose.random() < 0.1:
        made.expire_seconds = 30
    if kind == "interval" and choose.random() < 0.1:
        made.start_time = now + timedelta(hours=choose.randint(-5, 40), seconds=11)
    if kind != "clocked" and made.enabled and choose.random() < 0.9:
        # Soon enough that nothing is overdue.
        made.last_run_at = now - timedelta(milliseconds=choose.randint(1, 500))
        made.total_run_count = 0 if made.one_off else 7
    return made


def fire_times(model: Any, now: datetime, app: Any) -> list[str]:
    """When the real entry is due, asked when it wants to be asked."""
    from django_celery_beat.utils import NEVER_CHECK_TIMEOUT

    times: list[str] = []
    clock = SimpleNamespace(now=now)
    model.save = lambda: None
    entry = _entry(model, clock, app)
    while model.enabled and len(times) < TIMES:
        due, seconds = entry.is_due()
        if due:
            times.append(clock.now.isoformat())
            model.last_run_at = clock.now
            model.total_run_count += 1
            entry = _entry(model, clock, app)
        elif seconds == NEVER_CHECK_TIMEOUT:
            break
        else:
            # Not a microsecond too early, by rounding.
            clock.now += max(timedelta(seconds=seconds), timedelta(microseconds=1))
    return times


def _entry(model: Any, clock: SimpleNamespace, app: Any) -> Any:
    """The real entry, with another clock; like theirs it is made anew after each run."""
    from django_celery_beat.schedulers import ModelEntry

    entry = ModelEntry(model, app=app)
    entry._default_now = entry.schedule.nowfun = lambda: clock.now
    return entry


def main() -> None:
    url, now, count, seed = sys.argv[1:]
    set_up(url)
    from celery import Celery
    from django.core.management import call_command
    from django_celery_beat.models import PeriodicTask

    call_command("migrate", verbosity=0)
    make(datetime.fromisoformat(now), int(count), int(seed))
    app = Celery("theirs", broker="memory://")
    found = PeriodicTask.objects.select_related("interval", "crontab", "solar", "clocked")
    times = {
        model.name: fire_times(model, datetime.fromisoformat(now), app)
        for model in found.filter(enabled=True)
    }
    json.dump(times, sys.stdout)


if __name__ == "__main__":
    main()
