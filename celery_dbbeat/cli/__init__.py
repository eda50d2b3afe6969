"""`celery -A app dbbeat …`."""

from __future__ import annotations

import click
from celery.bin.base import handle_preload_options

from celery_dbbeat.cli import orders
from celery_dbbeat.cli.auditing import changes, check, diff, explain
from celery_dbbeat.cli.database import migrate, roles, shards
from celery_dbbeat.cli.results import dead, history, replay


@click.group()
@click.pass_context
@handle_preload_options
def dbbeat(ctx: click.Context) -> None:
    """Schedules in Postgres: tables, leases, and what became of fire times."""


for _command in (
    *(migrate, shards, roles, history, dead, replay),
    *(changes, explain, diff, check),
):
    dbbeat.add_command(_command)
for _command in (
    orders.pause,
    orders.resume,
    orders.trigger,
    orders.backfill,
    orders.backfills,
    orders.stop,
    orders.go_on,
):
    dbbeat.add_command(_command)
