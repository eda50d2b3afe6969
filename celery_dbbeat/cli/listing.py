"""`dbbeat list`, `show`, `preview`: what schedules there are, and when they fire."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from celery_dbbeat.cli import words
from celery_dbbeat.cli.base import JSON, Command, answer, at_most, schedules_of, table
from celery_dbbeat.cli.when import count, when
from celery_dbbeat.cli.words import Label

if TYPE_CHECKING:
    from celery_dbbeat.api import ScheduleInfo, Schedules
    from celery_dbbeat.rules.preview import FireTime

_A_PAGE = 1000
_STATES = click.Choice(["active", "paused", "finished", "invalid"])

_CONDITIONS = (
    click.option("--state", type=_STATES, help="Only those in this state."),
    click.option("--task", metavar="NAME", help="Only those of this task."),
    click.option("--queue", metavar="NAME", help="Only those that are sent to this queue."),
    click.option("-l", "--label", "labels", type=Label(), multiple=True, help="With this label."),
    click.option("--text", help="With words in name, task or description that begin so."),
    click.option("--owner", type=click.Choice(["people", "code"]), help="Only theirs."),
)


def conditions(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which schedules are meant."""
    for option in reversed(_CONDITIONS):
        command = option(command)
    return command


def every(schedules: Schedules, which: dict[str, Any]) -> Iterator[ScheduleInfo]:
    """All schedules that are meant, page by page."""
    page = schedules.list(**meant(which), limit=_A_PAGE)
    while page:
        yield from page
        if len(page) < _A_PAGE:
            return
        page = schedules.list(**meant(which), limit=_A_PAGE, after=page[-1].name)


def meant(which: dict[str, Any]) -> dict[str, Any]:
    """The conditions as `Schedules.list` takes them."""
    return {**which, "labels": dict(which["labels"])}


@click.command("list", cls=Command)
@conditions
@at_most(50)
@click.option("--after", metavar="NAME", help="Go on after this name.")
@click.option("--all", "everything", is_flag=True, help="All of them, however many.")
@JSON
@click.pass_context
def listing(
    ctx: click.Context,
    /,
    *,
    limit: int,
    after: str | None,
    everything: bool,
    as_json: bool,
    **which: Any,
) -> None:
    """List schedules in the order of their names."""
    schedules = schedules_of(ctx)
    if everything:
        found, more = list(every(schedules, which)), False
    else:
        found = schedules.list(**meant(which), limit=limit + 1, after=after)
        found, more = found[:limit], len(found) > limit
    if as_json:
        answer([asdict(info) for info in found])
        return
    now = schedules.now()
    table(
        [_row(info, now) for info in found],
        "There is no such schedule."
        if any(which.values()) or after
        else "There is no schedule yet.",
    )
    if more:
        click.echo(f"There are more: --after {found[-1].name!r}, or --all.", err=True)


def _row(info: ScheduleInfo, now: datetime) -> dict[str, object]:
    return {
        "NAME": info.name,
        "STATE": words.state(info),
        "NEXT RUN": words.run_in(info, now),
        "WHEN": words.when(info),
        "TASK": info.task,
        "QUEUE": info.options.get("queue"),
    }


@click.command(cls=Command)
@click.argument("name")
@JSON
@click.pass_context
def show(ctx: click.Context, name: str, *, as_json: bool) -> None:
    """Show all that there is to know of the schedule NAME; times in UTC."""
    schedules = schedules_of(ctx)
    info = schedules.get(name)
    if as_json:
        answer(asdict(info))
        return
    now = schedules.now()
    facts = {
        **asdict(info),
        "state": words.state(info),
        "next run": words.run_in(info, now),
        "when": _in_words(schedules, info),
    }
    width = max(map(len, facts))
    for field in ("name", "state", "next run", "when", *facts):
        if field in facts:
            value = facts.pop(field)
            if value not in (None, "", [], {}):
                click.echo(f"{click.style(field.ljust(width), bold=True)}  {words.shown(value)}")


def _in_words(schedules: Schedules, info: ScheduleInfo) -> str:
    from celery_dbbeat.errors import TriggerError

    try:
        return schedules.describe(info)
    except TriggerError:  # an invalid one: its reason says why
        return words.when(info)


@click.command(cls=Command)
@click.argument("name", required=False)
@when("Instead of NAME:")
@click.option("--timezone", metavar="ZONE", help="Its time zone; with NAME, the one to show.")
@count
@click.option("--after", metavar="INSTANT", help="After this instant instead of now.")
@JSON
@click.pass_context
def preview(  # noqa: PLR0913 - click passes each of them
    ctx: click.Context,
    /,
    name: str | None,
    *,
    timezone: str | None,
    count: int,
    after: str | None,
    as_json: bool,
    **instead: Any,
) -> None:
    """Show the next fire times of the schedule NAME, or of a *when* that is not stored."""
    from celery_dbbeat.api.fields import read_instant

    given = {kind: value for kind, value in instead.items() if value is not None}
    if (name is not None) + len(given) != 1:
        raise click.UsageError("name a schedule, or give one of --cron, --interval, …")
    schedules = schedules_of(ctx)
    zone = timezone or (schedules.get(name).timezone if name else "UTC")
    what = name or {**given, "timezone": zone}
    found = schedules.forecast(what, count, read_instant("after", after, zone))
    if as_json:
        answer([asdict(one) for one in found])
        return
    now = schedules.now()
    click.echo(f"{schedules.describe(what)}\n", err=True)
    table([_fire_time(one, zone, now) for one in found], "No fire time is left.")


_DST = {"none": None, "gap": "clocks skip its time", "fold": "clocks show its time twice"}


def _fire_time(one: FireTime, zone: str, now: datetime) -> dict[str, object]:
    from celery_dbbeat.rules.zone import find_zone

    local = one.nominal_at.astimezone(find_zone(zone))
    return {
        f"IN {zone}": local.isoformat(sep=" ", timespec="seconds"),
        "IN UTC": one.nominal_at,
        "FROM NOW": words.run_in_at(one.nominal_at, now),
        "REMARK": _DST[one.dst],
    }
