"""django-celery-beat: its `PeriodicTask` rows, through Django where it is set up, or from a URL."""

from collections.abc import Iterable, Mapping
from datetime import tzinfo
from typing import Any

from celery_dbbeat.contrib.importers.periodic_task import PeriodicTask
from celery_dbbeat.contrib.importers.tables import Join, read
from celery_dbbeat.errors import SourceError
from celery_dbbeat.rules.writing import CRONTAB_FIELDS
from celery_dbbeat.rules.zone import UTC, find_zone

SOURCE = "django-celery-beat"

_JOINS = {
    "interval": ("every", "period"),
    "crontab": (*CRONTAB_FIELDS, "timezone"),
    "solar": ("event", "latitude", "longitude"),
    "clocked": ("clocked_time",),
}
_TABLE = "django_celery_beat_"


def from_url(url: str, schema: str | None, zone: tzinfo) -> list[PeriodicTask]:
    """Read the tables; `zone` is that of times in a database that keeps no offsets."""
    joins = tuple(
        Join(f"{_TABLE}{kind}schedule", columns, f"{kind}_id") for kind, columns in _JOINS.items()
    )
    return [PeriodicTask.of(row, zone) for row in read(url, schema, f"{_TABLE}periodictask", joins)]


def from_django(app_zone: str) -> list[PeriodicTask]:
    """Read by Django's own models: from whatever database, through whatever router they have."""
    try:
        from django.apps import apps  # noqa: PLC0415 - only who has Django
        from django.conf import settings  # noqa: PLC0415
        from django.db import Error  # noqa: PLC0415
    except ImportError:
        raise SourceError("Django is not installed here; allowed is --url DATABASE_URL") from None
    if not (settings.configured and apps.ready and apps.is_installed("django_celery_beat")):
        raise SourceError(
            "this app does not set up Django with django_celery_beat among INSTALLED_APPS; "
            "allowed is --url DATABASE_URL, or DJANGO_SETTINGS_MODULE in the environment"
        )
    model = apps.get_model("django_celery_beat", "PeriodicTask")
    own = [field.column for field in model._meta.concrete_fields]  # noqa: SLF001 - Django's documented API
    theirs = [f"{kind}__{name}" for kind, names in _JOINS.items() for name in names]
    try:
        rows: Iterable[Mapping[str, Any]] = list(model.objects.order_by("id").values(*own, *theirs))
    except Error as error:
        raise SourceError(f"Django's database cannot be read: {error}") from None
    naive = UTC if settings.USE_TZ else find_zone(settings.TIME_ZONE)
    aware_crontabs = getattr(settings, "DJANGO_CELERY_BEAT_TZ_AWARE", True)
    return [_of(row, naive, None if aware_crontabs else app_zone) for row in rows]


def _of(row: Mapping[str, Any], naive: tzinfo, crontab_zone: str | None) -> PeriodicTask:
    given = {name.rpartition("__")[2]: value for name, value in row.items()}
    if given["timezone"] is not None:
        # Told not to be aware of zones, their crontabs run in the app's.
        given["timezone"] = crontab_zone or str(given["timezone"])
    return PeriodicTask.of(given, naive)
