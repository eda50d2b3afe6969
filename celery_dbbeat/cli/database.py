"""`dbbeat migrate`, `shards`, `roles`: the tables themselves."""

from __future__ import annotations

import click

from celery_dbbeat.cli.base import JSON, Command, read_settings, say, settings_of


@click.command(cls=Command)
@click.option("--dedup-only", is_flag=True, help="Only the table of runs, in the database --url.")
@click.option("--url", help="With --dedup-only: the database that holds the effects.")
@JSON
@click.pass_context
def migrate(ctx: click.Context, url: str | None, *, dedup_only: bool, as_json: bool) -> None:
    """Make the tables, or bring them up to date. Safe to run on several machines at once."""
    from celery_dbbeat.store.migrate import migrate as run

    if dedup_only != (url is not None):
        raise click.UsageError("--dedup-only and --url go together")
    settings = settings_of(ctx, **({"url": url} if url else {}))
    version = run(settings.url, settings.schema, dedup_only=dedup_only)
    what = "The table of runs is" if dedup_only else "The tables are"
    say(as_json, f"{what} at version {version}.", version=version)


@click.command(cls=Command)
@click.argument("slots", type=click.IntRange(1, 256), metavar="N")
@JSON
@click.pass_context
def shards(ctx: click.Context, slots: int, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Cut the 256 shards into N slots (1 to 256), which the live replicas share out evenly."""
    from celery_dbbeat.store.database import Database
    from celery_dbbeat.store.leases import reslice
    from celery_dbbeat.store.migrate import check

    settings = settings_of(ctx)
    with Database(settings.url, settings.schema, settings.database_timeout) as database:
        check(database)
        home = database.run("home_schema").one()["name"]
        with database.transaction() as transaction:
            reslice(transaction, slots, f"dbbeat_{home}")
    say(as_json, f"The shards are cut into {slots} slots.", slots=slots)


@click.command(cls=Command)
@click.pass_context
def roles(ctx: click.Context) -> None:
    """Print the SQL that makes the roles of beat, workers and managers, to run as the owner."""
    from celery_dbbeat.store.migrate import roles as text

    click.echo(text(read_settings(ctx).schema), nl=False)
