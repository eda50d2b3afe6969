"""`celery -A app dbbeat …`.

Celery imports this module at every call of `celery`, so what is heavy is imported where it is used.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryCommand, handle_preload_options

from celery_dbbeat.errors import DatabaseUnavailable, DbbeatError

if TYPE_CHECKING:
    from celery_dbbeat.settings import Settings

_UNAVAILABLE = 69


class _Command(CeleryCommand):
    """Turns this package's errors into one line and an exit code that scripts can use."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DbbeatError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(_UNAVAILABLE if isinstance(error, DatabaseUnavailable) else 1)


def _settings(ctx: click.Context) -> Settings:
    from celery_dbbeat import embedded
    from celery_dbbeat.settings import Settings

    app = ctx.obj.app
    app.loader.import_default_modules()
    app.finalize()
    settings = Settings.read(app.conf)
    if embedded.is_embedded(settings.url):
        settings = settings.at(embedded.start(settings.url))
    return settings


def _say(as_json: bool, sentence: str, **facts: object) -> None:  # noqa: FBT001 - a flag of the command
    click.echo(json.dumps(facts) if as_json else sentence)


@click.group()
@click.pass_context
@handle_preload_options
def dbbeat(ctx: click.Context) -> None:
    """Schedules in Postgres: tables and leases."""


@dbbeat.command(cls=_Command)
@click.option("-j", "--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.pass_context
def migrate(ctx: click.Context, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Make the tables, or bring them up to date. Safe to run on several machines at once."""
    from celery_dbbeat.store.migrate import migrate as run

    settings = _settings(ctx)
    version = run(settings.url, settings.schema)
    _say(as_json, f"The tables are at version {version}.", version=version)


@dbbeat.command(cls=_Command)
@click.argument("slots", type=click.IntRange(1, 256), metavar="N")
@click.option("-j", "--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.pass_context
def shards(ctx: click.Context, slots: int, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Cut the 256 shards into N slots (1 to 256), which the live replicas share out evenly."""
    from celery_dbbeat.store.database import Database
    from celery_dbbeat.store.leases import reslice
    from celery_dbbeat.store.migrate import check

    settings = _settings(ctx)
    with Database(settings.url, settings.schema, settings.database_timeout) as database:
        check(database)
        home = database.run("home_schema").one()["name"]
        with database.transaction() as transaction:
            reslice(transaction, slots, f"dbbeat_{home}")
    _say(as_json, f"The shards are cut into {slots} slots.", slots=slots)
