"""What Django runs at start, and after `manage.py migrate`."""

from typing import Any

from celery import Celery
from django.apps import AppConfig
from django.core.checks import register
from django.db.models.signals import post_migrate

from celery_dbbeat import settings


class DbbeatConfig(AppConfig):
    """The one line in INSTALLED_APPS."""

    name = "celery_dbbeat.contrib.django"
    label = "dbbeat"
    verbose_name = "Schedules"
    #: The Celery app of the project: found once, as Celery's own current app is a thread's own.
    celery: Celery

    def ready(self) -> None:
        """Say where the schedules are, and keep the tables in step with Django's own."""
        # Apps have to be there before these are imported.
        from celery_dbbeat.contrib.django import place, tables  # noqa: PLC0415

        settings.fall_back(place.url)
        self.celery = place.find_app()
        tables.name_them(self.get_models(), place.schema(self.celery))
        register(place.check)

        def bring_up_to_date(using: str, **_: Any) -> None:
            if using == place.alias():
                tables.migrate(self.celery)

        post_migrate.connect(
            bring_up_to_date, sender=self, weak=False, dispatch_uid="celery-dbbeat tables"
        )
