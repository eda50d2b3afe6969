"""`dbbeat changes`, `explain`, `diff`, `check`: what auditors and people on call ask."""

from __future__ import annotations

import re
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from celery_dbbeat.cli.base import JSON, Command, answer, schedules_of, table

if TYPE_CHECKING:
    from celery_dbbeat.api import Completeness

_AGO = re.compile(r"([0-9]{1,6})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@click.command(cls=Command)
@click.argument("name")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=50, show_default=True)
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
    if before and after:
        return ", ".join(f"{key}: {before[key]!r} → {after[key]!r}" for key in sorted(after))
    return ", ".join(f"{key}: {value!r}" for key, value in (before or after or {}).items())


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
@click.option("-n", "--count", type=click.IntRange(1, 1000), default=10, show_default=True)
@click.option("--kind", help="The kind of the new expression; else as it is.")
@click.option("-e", "--expression", help="The new expression.")
@click.option("--timezone", help="The new time zone.")
@click.option("--start-at", metavar="INSTANT", help="The new beginning.")
@click.option("--end-at", metavar="INSTANT", help="The new end.")
@JSON
@click.pass_context
def diff(
    ctx: click.Context, /, name: str, count: int, *, as_json: bool, **given: str | None
) -> None:
    """Show which fire times of the schedule NAME a change would add and remove."""
    wanted: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if not wanted:
        raise click.UsageError("name what would change, such as --expression '0 7 * * *'")
    schedules = schedules_of(ctx)
    if wanted.keys() & {"kind", "expression"}:
        info = schedules.get(name)
        wanted = {"kind": info.kind, "expression": info.expression, **wanted}
    found = schedules.diff(name, n=count, **wanted)
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
            "": "past" if at <= found.now else "to come",
            "CHANGE": marks[at],
            "OVERLAPS": "the run before" if at in found.overlapping else "",
        }
        for at in sorted(marks)
    ]
    table(rows, "Neither has a fire time.")


@click.command(cls=Command)
@click.option("--since", required=True, help="An instant (UTC unless it says), or 90m, 12h, 7d.")
@click.option("--until", help="An instant, or how long ago; else now.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=1000, show_default=True)
@JSON
@click.pass_context
def check(ctx: click.Context, since: str, until: str | None, limit: int, *, as_json: bool) -> None:
    """Look for fire times that have neither a tick nor a reason; exits with 1 if there are any."""
    found = schedules_of(ctx).check(
        _instant("since", since),
        None if until is None else _instant("until", until),
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


def _instant(name: str, text: str) -> datetime | timedelta:
    from celery_dbbeat.api.fields import read_instant

    ago = _AGO.fullmatch(text.strip())
    if ago:
        return timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    instant = read_instant(name, text, "UTC")
    if instant is None:
        raise click.UsageError(f"--{name} is missing")
    return instant
