"""`dbbeat changes`, `explain`, `diff`, `check`: what auditors and people on call ask."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from celery_dbbeat.cli import words
from celery_dbbeat.cli.base import JSON, Command, answer, at_most, schedules_of, table
from celery_dbbeat.cli.when import count, instant_or_ago, when

if TYPE_CHECKING:
    from celery_dbbeat.api import Completeness


@click.command(cls=Command)
@click.argument("name")
@at_most(50)
@JSON
@click.pass_context
def changes(ctx: click.Context, name: str, limit: int, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Show who changed the schedule NAME, when and how, the newest first; times in UTC."""
    found = schedules_of(ctx).changes(name, limit)
    if as_json:
        answer([asdict(one) for one in found])
        return
    table(
        [
            {
                "WHEN": one.at,
                "WHO": one.who,
                "BY": one.source,
                "ACTION": one.action,
                "NAME": one.name,
                "WHAT": _what(one.before, one.after),
            }
            for one in found
        ],
        f"Of the schedule {name!r} no change is known.",
    )


def _what(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    shown = words.shown
    if before and after:
        return ", ".join(
            f"{key}: {shown(before[key])} → {shown(after[key])}" for key in sorted(after)
        )
    whole = before or after or {}
    return ", ".join(
        f"{key}: {shown(whole[key])}"
        for key in sorted(whole)
        if whole[key] not in (None, "", [], {})
    )


@click.command(cls=Command)
@click.argument("name")
@click.argument("at")
@JSON
@click.pass_context
def explain(ctx: click.Context, name: str, at: str, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Tell why the schedule NAME did or did not run at AT.

    AT is an instant such as 2026-03-29T02:30+01:00; without an offset a local time in the
    schedule's time zone.
    """
    found = schedules_of(ctx).explain(name, at)
    if as_json:
        facts = asdict(found)
        del facts["sentences"]
        answer({**facts, "text": found.text})
        return
    for sentence in found.sentences:
        click.echo(sentence)


@click.command(cls=Command)
@click.argument("name")
@when("The new *when*:")
@click.option("--timezone", metavar="ZONE", help="The new time zone.")
@click.option("--start-at", metavar="INSTANT", help="The new beginning.")
@click.option("--end-at", metavar="INSTANT", help="The new end.")
@count
@JSON
@click.pass_context
def diff(ctx: click.Context, /, name: str, count: int, *, as_json: bool, **given: Any) -> None:
    """Show which fire times of the schedule NAME a change would add and remove."""
    wanted: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not wanted:
        raise click.UsageError("name what would change, such as --cron '0 7 * * *'")
    found = schedules_of(ctx).diff(name, n=count, **wanted)
    if as_json:
        answer(asdict(found))
        return
    marks = {
        **dict.fromkeys(found.kept, ""),
        **dict.fromkeys(found.added, "added"),
        **dict.fromkeys(found.removed, "removed"),
    }
    rows = [
        {
            "FIRE TIME": at,
            "IS": "past" if at <= found.now else "to come",
            "CHANGE": marks[at],
            "OVERLAPS": "the run before" if at in found.overlapping else "",
        }
        for at in sorted(marks)
    ]
    table(rows, "Neither has a fire time.")


@click.command(cls=Command)
@click.option(
    "--since",
    required=True,
    metavar="INSTANT|AGO",
    help="Such as 2026-01-31T00:00 (UTC unless it says), or how long ago: 90m, 12h, 7d.",
)
@click.option("--until", metavar="INSTANT|AGO", help="The same; now, unless given.")
@at_most(1000)
@JSON
@click.pass_context
def check(ctx: click.Context, since: str, until: str | None, limit: int, *, as_json: bool) -> None:
    """Look for fire times that have neither a tick nor a reason; exits with 1 if there are any."""
    found = schedules_of(ctx).check(
        instant_or_ago("since", since),
        None if until is None else instant_or_ago("until", until),
        limit=limit,
    )
    if as_json:
        answer({**asdict(found), "complete": found.complete})
    else:
        _show(found)
    ctx.exit(0 if found.complete else 1)


def _show(found: Completeness) -> None:
    if found.gaps:
        table(
            [
                {"FIRE TIME": gap.nominal, "SCHEDULE": gap.schedule, "STATE": gap.state}
                for gap in found.gaps
            ],
            "",
        )
    for name, reason in found.unreadable:
        click.echo(f"The fire times of {name!r} cannot be worked out: {reason}", err=True)
    click.echo(
        f"{found.fire_times} fire times of {found.schedules} schedules from "
        f"{found.since:%Y-%m-%d %H:%M:%S} to {found.until:%Y-%m-%d %H:%M:%S} UTC: "
        + (f"{found.missing} with neither tick nor reason." if found.missing else "complete.")
    )
