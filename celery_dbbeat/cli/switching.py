"""`dbbeat import SOURCE`: the schedules of another beat, from their last runs on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from celery_dbbeat.cli.base import JSON, Command, answer, app_of, settings_of, table

if TYPE_CHECKING:
    from datetime import date

    from celery import Celery

    from celery_dbbeat.contrib.importers import Entry, Outcome, Refused

# Done, but not all of it could be carried over.
SOME_LEFT_OUT = 3
_LEFT_OUT = frozenset({"refused", "taken"})
_AS_BEFORE = frozenset({"new", "updated", "unchanged"})


_Read = Callable[..., "list[Entry | Refused]"]


def _source(name: str, *options: Callable[..., Any]) -> Callable[[_Read], click.Command]:
    """A command that transfers what the decorated function reads."""

    def made(read: _Read) -> click.Command:
        @wraps(read)
        def command(ctx: click.Context, *, dry_run: bool, as_json: bool, **given: Any) -> None:
            _transfer(ctx, name, lambda app, today: read(app, today, **given), dry_run, as_json)

        for option in (*reversed(options), _DRY_RUN, JSON):
            command = option(command)
        return click.command(name, cls=Command)(click.pass_context(command))

    return made


_DRY_RUN = click.option("--dry-run", is_flag=True, help="Show what would become of each.")
_URL = click.option("--url", metavar="URL", help="Where they are, if not where the app says.")
_SCHEMA = click.option("--schema", help="The schema of their tables.")


@_source(
    "django-celery-beat",
    _URL,
    _SCHEMA,
    click.option(
        "--timezone",
        "zone",
        default="UTC",
        show_default=True,
        help="With --url: the zone of times in a database that keeps no offsets.",
    ),
)
def django_celery_beat(
    app: Celery, today: date, url: str | None, schema: str | None, zone: str
) -> list[Entry | Refused]:
    """Import from django-celery-beat: through Django, where the app uses it, or from a URL."""
    from celery_dbbeat.contrib.importers import sources

    return sources.of_django_celery_beat(app, today, url, schema, zone)


@_source("sqlalchemy-celery-beat", _URL, _SCHEMA)
def sqlalchemy_celery_beat(
    app: Celery, today: date, url: str | None, schema: str | None
) -> list[Entry | Refused]:
    """Import from sqlalchemy-celery-beat."""
    from celery_dbbeat.contrib.importers import sources

    return sources.of_sqlalchemy_celery_beat(app, today, url, schema)


@_source("redbeat", _URL, click.option("--prefix", help="What their keys begin with."))
def redbeat(app: Celery, today: date, url: str | None, prefix: str | None) -> list[Entry | Refused]:
    """Import from RedBeat."""
    from celery_dbbeat.contrib.importers import sources

    return sources.of_redbeat(app, today, url, prefix)


@_source(
    "beat-schedule",
    click.option(
        "--file", type=click.Path(path_type=Path), help="Where Celery's beat kept its last runs."
    ),
    click.option("--people", is_flag=True, help="Make them people's, so that code may drop them."),
)
def beat_schedule(
    app: Celery, today: date, file: Path | None, *, people: bool
) -> list[Entry | Refused]:
    """Import the app's own beat_schedule, with the last runs that Celery's own beat noted."""
    from celery_dbbeat.contrib.importers import sources

    path = file or Path(app.conf.beat_schedule_filename)
    return sources.of_beat_schedule(app, today, path, people=people)


COMMANDS = (django_celery_beat, redbeat, sqlalchemy_celery_beat, beat_schedule)


def _transfer(
    ctx: click.Context,
    source: str,
    read: Callable[[Celery, date], list[Entry | Refused]],
    dry_run: bool,  # noqa: FBT001 - a flag of the command
    as_json: bool,  # noqa: FBT001 - a flag of the command
) -> None:
    from celery_dbbeat.contrib.importers import transfer
    from celery_dbbeat.store.database import Database
    from celery_dbbeat.store.migrate import check

    settings = settings_of(ctx)
    with Database(settings.url, settings.schema, settings.database_timeout) as database:
        check(database)
        entries = read(app_of(ctx), database.now().date())
        outcomes = transfer(database, source, entries, dry_run=dry_run)
    if as_json:
        answer({"source": source, "dry_run": dry_run, "entries": [_facts(one) for one in outcomes]})
    else:
        _show(outcomes, dry_run=dry_run)
    if any(one.outcome in _LEFT_OUT for one in outcomes):
        ctx.exit(SOME_LEFT_OUT)


def _facts(one: Outcome) -> dict[str, object]:
    row = one.schedule
    facts = () if row is None else ("task", "kind", "expression", "timezone", "state", "owner")
    return {
        "name": one.name,
        "outcome": one.outcome,
        **{name: getattr(row, name) for name in facts},
        "go_on_from": one.go_on_from,
        "remarks": one.remarks,
    }


def _show(outcomes: list[Outcome], *, dry_run: bool) -> None:
    # What went as it should is in the sum; before it is done, people want to see each.
    shown = [one for one in outcomes if dry_run or one.outcome not in _AS_BEFORE]
    if shown:
        table([_cells(one) for one in shown], "")
    for one in outcomes:
        if one.remarks and (dry_run or one.outcome not in _AS_BEFORE):
            click.echo(f"\n{one.name}:")
            for remark in one.remarks:
                click.echo(f"  - {remark}")
    counts = Counter(one.outcome for one in outcomes)
    total = ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "nothing"
    click.echo(f"{'Would be' if dry_run else 'Imported'}: {total}.")


def _cells(one: Outcome) -> dict[str, object]:
    row = one.schedule
    when = "" if row is None else f"{row.kind} {row.expression}"
    zone = "" if row is None or row.timezone == "UTC" else f" in {row.timezone}"
    return {
        "NAME": one.name,
        "OUTCOME": one.outcome,
        "STATE": None if row is None else row.state,
        "GOES ON FROM": one.go_on_from,
        "WHEN": when + zone,
    }
