"""What django-celery-beat would have sent is what is sent here, or the import said why not."""

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from celery import Celery

from celery_dbbeat.contrib.importers import sources
from celery_dbbeat.store.database import Database
from tests.importers.kit import bring_in, django_project, planned, same
from tests.store.kit import Person

UTC = timezone.utc
# A few hours before the clocks change in Berlin.
SPRING = datetime(2026, 3, 28, 21, 34, 56, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 24, 21, 34, 56, tzinfo=UTC)


@pytest.mark.parametrize("now", [SPRING, AUTUMN], ids=["spring", "autumn"])
def test_the_next_twenty_fire_times_are_theirs_or_said_to_differ(
    store: Database, person: Person, tmp_path: Path, now: datetime, *, long_run: bool
) -> None:
    url = f"sqlite:///{tmp_path}/db.sqlite3"
    theirs = django_project(url, now, 1000 if long_run else 200)
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.result_expires = None
    entries = sources.of_django_celery_beat(app, now.date(), url, None, "UTC")
    outcomes = bring_in(store, "django-celery-beat", entries, now)
    ours = planned(person, now)
    assert {one.outcome for one in outcomes.values()} == {"new"}
    # One that expires before its next run is over there and here.
    assert {name for name, times in theirs.items() if times} <= ours.keys() <= theirs.keys()
    different = {
        name
        for name, times in ours.items()
        if not same(times, theirs[name], _tolerance(outcomes[name].schedule))
    }
    told = {name for name, one in outcomes.items() if "clocks change" in " ".join(one.remarks)}
    assert different <= told, [
        (outcomes[name].schedule, set(ours[name]) ^ set(theirs[name])) for name in different - told
    ]
    # Most are the same, so that the test means something; and some really do differ.
    assert 0 < len(different) < len(ours) / 3


def _tolerance(schedule: object) -> timedelta:
    solar = getattr(schedule, "kind", "") == "solar"
    return timedelta(seconds=1 if solar else 0.001)
