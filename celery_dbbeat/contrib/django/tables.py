"""The tables in Django's database: made by the package's own migrations, read by its models."""

from collections.abc import Iterable
from typing import Any

from celery import Celery

from celery_dbbeat.contrib.django import place
from celery_dbbeat.store import migrate as migrations


def migrate(app: Celery) -> None:
    """Make or upgrade them where Django connects to just now: a test's database has its own."""
    migrations.migrate(place.url(), place.schema(app))


def name_them(models: Iterable[Any], schema: str | None) -> None:
    """Have the models read the tables of this schema.

    Django takes a name that is quoted already as it is, so a schema may stand before it.
    """
    if schema is None:
        return
    for model in models:
        rename(model, f'"{schema}"."{model._meta.db_table}"')  # noqa: SLF001 - Django's own name for it


def rename(model: Any, table: str) -> None:
    """Have a model read this table, and its columns by that name."""
    model._meta.db_table = table  # noqa: SLF001 - Django's own name for it
    for field in model._meta.concrete_fields:  # noqa: SLF001 - Django's own name for it
        field.__dict__.pop("cached_col", None)
