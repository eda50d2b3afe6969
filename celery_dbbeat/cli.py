"""`celery -A app dbbeat …`.

Celery imports this module at every call of `celery`, so what is heavy is imported where it is used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryCommand, handle_preload_options

from celery_dbbeat.errors import DatabaseUnavailable, DbbeatError

if TYPE_CHECKING:
    from celery import Celery

    from celery_dbbeat.api import Schedules
    from celery_dbbeat.settings import Settings

_UNAVAILABLE = 69
_JSON = click.option("-j", "--json", "as_json", is_flag=True, help="Answer in JSON.")


class _Command(CeleryCommand):
    """Turns this package's errors into one line and an exit code that scripts can use."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except DbbeatError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(_UNAVAILABLE if isinstance(error, DatabaseUnavailable) else 1)


def _app(ctx: click.Context) -> Celery:
    app = ctx.obj.app
    app.loader.import_default_modules()
    app.finalize()
    return app


def _read(ctx: click.Context, **given: str) -> Settings:
    """The settings, with those given on the command line before all others."""
    from celery_dbbeat.settings import Settings

    first = {f"DBBEAT_{name.upper()}": value for name, value in given.items()}
    return Settings.read(_app(ctx).conf, {**os.environ, **first})


def _settings(ctx: click.Context, **given: str) -> Settings:
    from celery_dbbeat import embedded

    return embedded.resolve(_read(ctx, **given))


def _schedules(ctx: click.Context) -> Schedules:
    from celery_dbbeat.api import Schedules

    return Schedules(_app(ctx))


def _say(as_json: bool, sentence: str, **facts: object) -> None:  # noqa: FBT001 - a flag of the command
    click.echo(json.dumps(facts) if as_json else sentence)


def _answer(value: object) -> None:
    from celery_dbbeat import tables

    click.echo(tables.as_json(value))


def _table(rows: Sequence[Mapping[str, object]], otherwise: str) -> None:
    from celery_dbbeat import tables

    if not rows:
        click.echo(otherwise, err=True)
    tables.show(rows)


@click.group()
@click.pass_context
@handle_preload_options
def dbbeat(ctx: click.Context) -> None:
    """Schedules in Postgres: tables, leases, and what became of fire times."""


@dbbeat.command(cls=_Command)
@click.option("--dedup-only", is_flag=True, help="Only the table of runs, in the database --url.")
@click.option("--url", help="With --dedup-only: the database that holds the effects.")
@_JSON
@click.pass_context
def migrate(ctx: click.Context, url: str | None, *, dedup_only: bool, as_json: bool) -> None:
    """Make the tables, or bring them up to date. Safe to run on several machines at once."""
    from celery_dbbeat.store.migrate import migrate as run

    if dedup_only != (url is not None):
        raise click.UsageError("--dedup-only and --url go together")
    settings = _settings(ctx, **({"url": url} if url else {}))
    version = run(settings.url, settings.schema, dedup_only=dedup_only)
    what = "The table of runs is" if dedup_only else "The tables are"
    _say(as_json, f"{what} at version {version}.", version=version)


@dbbeat.command(cls=_Command)
@click.argument("slots", type=click.IntRange(1, 256), metavar="N")
@_JSON
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


@dbbeat.command(cls=_Command)
@click.argument("name")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=50, show_default=True)
@_JSON
@click.pass_context
def history(ctx: click.Context, name: str, limit: int, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Show what became of the fire times of the schedule NAME, the newest first; times in UTC."""
    entries = _schedules(ctx).history(name, limit)
    if as_json:
        _answer(
            [
                {**asdict(entry), "lateness": entry.lateness, "duration": entry.duration}
                for entry in entries
            ]
        )
        return
    _table(
        [
            {
                "FIRE TIME": entry.nominal,
                "STATE": entry.state if entry.count == 1 else f"{entry.state} × {entry.count}",
                "KIND": entry.kind,
                "RUN": entry.status,
                "ATTEMPT": entry.attempt,
                "SENT LATE": entry.lateness,
                "TOOK": entry.duration,
                "WORKER": entry.worker,
                "TASK ID": entry.task_id,
                "WHY": entry.reason or entry.error,
            }
            for entry in entries
        ],
        f"The schedule {name!r} has no history yet.",
    )


@dbbeat.command(cls=_Command)
@click.option("-s", "--schedule", metavar="NAME", help="Only those of this schedule.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=100, show_default=True)
@click.option("-t", "--traceback", "tracebacks", is_flag=True, help="With their tracebacks.")
@_JSON
@click.pass_context
def dead(
    ctx: click.Context, schedule: str | None, limit: int, *, tracebacks: bool, as_json: bool
) -> None:
    """List dead ticks, those that were given up, the newest first; times in UTC."""
    letters = _schedules(ctx).dead(limit=limit, schedule=schedule)
    if as_json:
        _answer([asdict(letter) for letter in letters])
        return
    _table(
        [
            {
                "TASK ID": letter.task_id,
                "SCHEDULE": letter.schedule,
                "FIRE TIME": letter.nominal,
                "ATTEMPT": letter.attempt,
                "ENDED": letter.ended,
                "WORKER": letter.worker,
                "WHY": letter.reason or letter.error,
            }
            for letter in letters
        ],
        "No tick is dead.",
    )
    for letter in letters if tracebacks else ():
        click.echo(f"\n{letter.task_id}\n{letter.traceback or 'no traceback'}")


@dbbeat.command(cls=_Command)
@click.argument("task_ids", nargs=-1, metavar="[TASK_ID]...")
@click.option("--all", "everything", is_flag=True, help="All dead ticks instead of those named.")
@click.option("-s", "--schedule", metavar="NAME", help="With --all: only those of this schedule.")
@click.option("-y", "--yes", is_flag=True, help="With --all: do not ask.")
@_JSON
@click.pass_context
def replay(  # noqa: PLR0913 - click passes each of them
    ctx: click.Context,
    task_ids: tuple[str, ...],
    schedule: str | None,
    *,
    everything: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Have dead ticks run again, under their own ids. Those of deleted schedules stay dead."""
    if everything == bool(task_ids):
        raise click.UsageError("name task ids, or give --all")
    if not everything and (schedule is not None or yes):
        raise click.UsageError("--schedule and --yes go with --all")
    schedules = _schedules(ctx)
    if everything:
        whose = "every schedule" if schedule is None else f"the schedule {schedule!r}"
        if not yes:
            click.confirm(f"Run all dead ticks of {whose} again?", abort=True, err=True)
        count = schedules.replay_all(schedule=schedule)
    else:
        schedules.replay(*task_ids)
        count = len(task_ids)
    _say(as_json, f"To be sent again by beat: {count}.", sent_again=count)


@dbbeat.command(cls=_Command)
@click.pass_context
def roles(ctx: click.Context) -> None:
    """Print the SQL that makes the roles of beat, workers and managers, to run as the owner."""
    from celery_dbbeat.store.migrate import roles as text

    click.echo(text(_read(ctx).schema), nl=False)
