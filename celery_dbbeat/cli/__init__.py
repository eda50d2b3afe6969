"""`celery -A app dbbeat …`."""

from __future__ import annotations

import click
from celery.bin.base import handle_preload_options

from celery_dbbeat.cli import editing, files, importing, listing, orders, status, web
from celery_dbbeat.cli.auditing import changes, check, diff, explain
from celery_dbbeat.cli.database import migrate, roles, shards
from celery_dbbeat.cli.health import health
from celery_dbbeat.cli.results import dead, history, replay


@click.group()
@click.pass_context
@handle_preload_options
def dbbeat(ctx: click.Context) -> None:
    """Schedules in Postgres: tables, leases, and what became of fire times."""


_COMMANDS: tuple[click.Command, ...] = (
    *(migrate, shards, roles),
    *(listing.listing, listing.show, listing.preview, status.status),
    *(editing.add, editing.edit, editing.delete),
    *(files.export, files.apply, importing.importing),
    *(orders.pause, orders.resume, orders.trigger),
    *(orders.backfill, orders.backfills, orders.stop, orders.go_on),
    *(changes, explain, diff, check),
    *(history, dead, replay, health),
    *(web.web, web.password),
)
for _command in _COMMANDS:
    dbbeat.add_command(_command)
