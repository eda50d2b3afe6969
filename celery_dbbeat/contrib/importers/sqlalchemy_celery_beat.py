"""sqlalchemy-celery-beat: its tables, wherever they are."""

from celery_dbbeat.contrib.importers.periodic_task import PeriodicTask
from celery_dbbeat.contrib.importers.tables import Join, read
from celery_dbbeat.rules.writing import CRONTAB_FIELDS
from celery_dbbeat.rules.zone import UTC

SOURCE = "sqlalchemy-celery-beat"
DEFAULT_URL = "sqlite:///schedule.db"

_COLUMNS = {
    "interval": ("every", "period"),
    "crontab": (*CRONTAB_FIELDS, "timezone"),
    "solar": ("event", "latitude", "longitude"),
    "clocked": ("clocked_time",),
}
_JOINS = tuple(
    Join(f"celery_{kind}schedule", columns, "schedule_id", ("discriminator", f"{kind}schedule"))
    for kind, columns in _COLUMNS.items()
)


def from_url(url: str, schema: str | None) -> list[PeriodicTask]:
    """Read the tables; its times are UTC where the database keeps no offsets."""
    return [PeriodicTask.of(row, UTC) for row in read(url, schema, "celery_periodictask", _JOINS)]
