"""What Django runs at start, and after `manage.py migrate`."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from celery_dbbeat import settings


class DbbeatConfig(AppConfig):
    """The one line in INSTALLED_APPS."""

    name = "celery_dbbeat.contrib.django"
    label = "dbbeat"
    verbose_name = "Schedules"

    def ready(self) -> None:
        """Say where the schedules are, and keep the tables in step with Django's own."""
        # Apps have to be there before these are imported.
        from celery_dbbeat.contrib.django.place import alias, url  # noqa: PLC0415

        settings.fall_back(url)

        def bring_up_to_date(using: str, **_: Any) -> None:
            if using == alias():
                from celery_dbbeat.contrib.django.tables import migrate  # noqa: PLC0415

                migrate()

        post_migrate.connect(
            bring_up_to_date, sender=self, weak=False, dispatch_uid="celery-dbbeat tables"
        )
