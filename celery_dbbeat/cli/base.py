"""What all commands share: the app, its settings, answers for people and for programs.

Celery imports the commands at every call of `celery`, so what is heavy is imported where it is
used.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from celery.bin.base import CeleryCommand

from celery_dbbeat.errors import DatabaseUnavailable, DbbeatError

if TYPE_CHECKING:
    from celery import Celery

    from celery_dbbeat.api import Schedules
    from celery_dbbeat.settings import Settings

UNAVAILABLE = 69
JSON = click.option("-j", "--json", "as_json", is_flag=True, help="Answer in JSON.")


def at_most(default: int, what: str = "At most so many.") -> Callable[..., Any]:
    """The option that says how many."""
    return click.option(
        *("-n", "--limit"),
        type=click.IntRange(min=1),
        default=default,
        show_default=True,
        help=what,
    )


class Command(CeleryCommand):
    """Turns this package's errors into one line and an exit code that scripts can use."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error of this package is one line."""
        if os.environ.get("NO_COLOR") or ctx.obj.no_color:
            ctx.color = False
        try:
            return super().invoke(ctx)
        except DbbeatError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(UNAVAILABLE if isinstance(error, DatabaseUnavailable) else 1)


def app_of(ctx: click.Context) -> Celery:
    """The app of `celery -A`, with all its tasks."""
    app = ctx.obj.app
    app.loader.import_default_modules()
    app.finalize()
    return app


def read_settings(ctx: click.Context, **given: str) -> Settings:
    """The settings, with those given on the command line before all others."""
    from celery_dbbeat.settings import Settings

    first = {f"DBBEAT_{name.upper()}": value for name, value in given.items()}
    return Settings.read(app_of(ctx).conf, {**os.environ, **first})


def settings_of(ctx: click.Context, **given: str) -> Settings:
    """The settings, with an embedded Postgres started where they ask for one."""
    from celery_dbbeat import embedded

    return embedded.resolve(read_settings(ctx, **given))


def schedules_of(ctx: click.Context) -> Schedules:
    """The schedules of that app; what is done with them is done by who is logged in here."""
    from celery_dbbeat.api import Schedules

    return Schedules(app_of(ctx), user=_login(), source="cli")


def _login() -> str | None:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # nobody that this machine knows, as in some containers
        return None


def say(as_json: bool, sentence: str, **facts: object) -> None:  # noqa: FBT001 - a flag of the command
    """A sentence for people, the facts for programs."""
    click.echo(json.dumps(facts) if as_json else sentence)


def answer(value: object) -> None:
    """Facts for programs."""
    from celery_dbbeat.cli import tables

    click.echo(tables.as_json(value))


def table(rows: Sequence[Mapping[str, object]], otherwise: str) -> None:
    """A table for people; where there is nothing to show, say so aside."""
    from celery_dbbeat.cli import tables

    if not rows:
        click.echo(otherwise, err=True)
    tables.show(rows)
