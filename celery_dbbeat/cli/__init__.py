"""`celery -A app dbbeat …`."""

from __future__ import annotations

import click
from celery.bin.base import handle_preload_options

from celery_dbbeat.cli import editing, files, importing, listing, orders, status, web
from celery_dbbeat.cli.auditing import changes, check, diff, explain
from celery_dbbeat.cli.database import migrate, roles, shards
from celery_dbbeat.cli.health import health
from celery_dbbeat.cli.results import dead, history, replay
from celery_dbbeat.cli.topics import Topics


@click.group(cls=Topics)
@click.pass_context
@handle_preload_options
def dbbeat(ctx: click.Context) -> None:
    """Schedules in Postgres: made, watched, and what became of their fire times."""


_TOPICS: dict[str, tuple[click.Command, ...]] = {
    "Schedules": (
        *(listing.listing, listing.show, listing.preview),
        *(editing.add, editing.edit, editing.delete, diff),
    ),
    "Orders": (
        *(orders.pause, orders.resume, orders.trigger),
        *(orders.backfill, orders.backfills, orders.stop, orders.go_on),
    ),
    "What became of them": (history, explain, changes, check, dead, replay),
    "Files and other beats": (files.export, files.apply, importing.importing),
    "Running it": (
        *(status.status, health, web.web, web.password),
        *(migrate, shards, roles),
    ),
}
for _topic, _commands in _TOPICS.items():
    dbbeat.add_topic(_topic, _commands)
