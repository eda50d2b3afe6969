"""`dbbeat pause`, `resume`, `trigger`, `backfill` and what goes with it."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from celery_dbbeat.cli.base import JSON, Command, answer, at_most, say, schedules_of, table
from celery_dbbeat.cli.words import Json

if TYPE_CHECKING:
    from celery_dbbeat.api import Backfill, DryRun, Schedules

_LOOK_EVERY = 0.5
_STEPS = 1000


@click.command(cls=Command)
@click.argument("name")
@click.option("--note", help="Why: shown until it is resumed.")
@JSON
@click.pass_context
def pause(ctx: click.Context, name: str, note: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Pause the schedule NAME. Nothing more is sent for it; what runs goes on."""
    schedules_of(ctx).pause(name, note)
    say(as_json, f"The schedule {name!r} is paused.", name=name, state="paused", note=note)


@click.command(cls=Command)
@click.argument("name")
@click.option("--catch-up", is_flag=True, help="Backfill the time that it was paused.")
@JSON
@click.pass_context
def resume(ctx: click.Context, name: str, *, catch_up: bool, as_json: bool) -> None:
    """Let the schedule NAME go on at its next fire time."""
    ordered = schedules_of(ctx).resume(name, catch_up=catch_up)
    number = None if ordered is None else ordered.id
    also = "" if number is None else f" Backfill {number} catches up on the time it was paused."
    say(
        as_json,
        f"The schedule {name!r} is active.{also}",
        name=name,
        state="active",
        backfill=number,
    )


@click.command(cls=Command)
@click.argument("name")
@click.option("--args", type=Json(), help="Positional arguments instead of its own.")
@click.option("--kwargs", type=Json(), help="Keyword arguments instead of its own.")
@JSON
@click.pass_context
def trigger(
    ctx: click.Context,
    name: str,
    args: Any,
    kwargs: Any,
    as_json: bool,  # noqa: FBT001 - click passes it
) -> None:
    """Send the task of the schedule NAME now, once; a paused schedule stays paused."""
    task_id = schedules_of(ctx).trigger(name, args, kwargs)
    say(as_json, f"To be sent by beat: {task_id}.", task_id=str(task_id))


@click.command(cls=Command)
@click.argument("name")
@click.argument("start")
@click.argument("end")
@click.option("--dry-run", is_flag=True, help="Only show what would be sent.")
@at_most(100, "With --dry-run: show at most so many fire times.")
@click.option("--reprocess", type=click.Choice(["none", "failed", "all"]), default="none",
              show_default=True, help="What is sent besides what never ran.")  # fmt: skip
@click.option("--rate", type=float, help="At most so many a second.")
@click.option("--max-concurrent", type=int, default=1, show_default=True,
              help="So many may be on their way or running at once.")  # fmt: skip
@click.option("--overlap", type=click.Choice(["allow", "buffer_all"]), default="allow",
              show_default=True, help="Whether it waits for the schedule's own ticks.")  # fmt: skip
@click.option("--note", help="Why: shown with it.")
@click.option("--wait", is_flag=True, help="Show how far it is, and return when it has ended.")
@click.option("-y", "--yes", is_flag=True, help="Also what is older than dbbeat_retention.")
@JSON
@click.pass_context
def backfill(  # noqa: PLR0913 - click passes each of them
    ctx: click.Context,
    /,
    name: str,
    start: str,
    end: str,
    *,
    dry_run: bool,
    limit: int,
    wait: bool,
    yes: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Send the fire times of the schedule NAME from START to END, both included, that did not run.

    START and END are ISO-8601: without an offset in the schedule's time zone; a day is the whole
    of it.
    """
    if dry_run and wait:
        raise click.UsageError("--wait does not go with --dry-run")
    schedules = schedules_of(ctx)
    if dry_run:
        reprocess = how["reprocess"]
        planned = schedules.backfill(name, start, end, True, reprocess=reprocess, limit=limit)  # noqa: FBT003 - as it is declared
        _show_plan(planned, as_json=as_json)
        return
    ordered = schedules.backfill(name, start, end, force=yes, **how)
    if wait:
        ordered = _watch(schedules, ordered)
    if as_json:
        answer(_facts(ordered))
    elif wait:
        click.echo(_sentence(ordered))
    else:
        fire_times = "" if ordered.total is None else f": {ordered.total} fire times"
        click.echo(f"Backfill {ordered.id} is ordered{fire_times}.")
    if wait and (ordered.state == "stopped" or ordered.failed):
        ctx.exit(1)


@click.command(cls=Command)
@click.argument("name", required=False)
@at_most(100)
@JSON
@click.pass_context
def backfills(ctx: click.Context, name: str | None, limit: int, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """List backfills and how far they have come, the newest first; times in UTC."""
    found = schedules_of(ctx).backfills(name, limit=limit)
    if as_json:
        answer([_facts(one) for one in found])
        return
    table(
        [
            {
                "ID": one.id,
                "SCHEDULE": one.schedule,
                "FROM": one.start,
                "TO": one.end,
                "STATE": one.state,
                "DECIDED": f"{one.share:.0%}",
                "SENT": one.sent,
                "OPEN": one.open,
                "DONE": one.done,
                "FAILED": one.failed,
                "BY": one.ordered_by,
                "WHY": one.reason or one.note,
            }
            for one in found
        ],
        "There is no backfill.",
    )


@click.command("backfill-stop", cls=Command)
@click.argument("number", type=int, metavar="ID")
@JSON
@click.pass_context
def stop(ctx: click.Context, number: int, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Have the backfill ID send nothing more; what it has sent goes on."""
    found = schedules_of(ctx).stop_backfill(number)
    answer(_facts(found)) if as_json else click.echo(_sentence(found))


@click.command("backfill-continue", cls=Command)
@click.argument("number", type=int, metavar="ID")
@JSON
@click.pass_context
def go_on(ctx: click.Context, number: int, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Let the backfill ID that was stopped go on from where it was."""
    found = schedules_of(ctx).continue_backfill(number)
    answer(_facts(found)) if as_json else click.echo(_sentence(found))


def _show_plan(planned: DryRun, *, as_json: bool) -> None:
    if as_json:
        answer({**asdict(planned), "to_send": planned.to_send})
        return
    table(
        [
            {
                "FIRE TIME": one.nominal,
                "IS": one.standing,
                "BECOMES": _WORDS[one.action],
                "TASK ID": one.task_id,
            }
            for one in planned.fire_times
        ],
        "There is no fire time in between.",
    )
    listed = len(planned.fire_times)
    more = "" if planned.complete else "at least "
    among = "" if planned.following is None else f" of the first {listed}"
    click.echo(f"{more}{planned.count} fire times; {planned.to_send}{among} would be sent.")


_WORDS = {
    "send": "sent",
    "again": "sent again",
    "anew": "sent again, under another id",
    "skip": "left as it is",
}


def _watch(schedules: Schedules, ordered: Backfill) -> Backfill:
    """Wait for its end; who interrupts that leaves it to beat."""
    with click.progressbar(length=_STEPS, label=f"Backfill {ordered.id}", file=sys.stderr) as bar:
        while True:
            found = schedules.show_backfill(ordered.id)
            bar.update(round(found.share * _STEPS) - bar.pos)
            if found.state != "running":
                return found
            time.sleep(_LOOK_EVERY)


def _facts(one: Backfill) -> dict[str, object]:
    return {**asdict(one), "share": one.share}


def _sentence(one: Backfill) -> str:
    why = f": {one.reason}" if one.reason else ""
    return (
        f"Backfill {one.id} is {one.state}{why}. "
        f"{one.passed} fire times decided{_of(one.total)}, {one.sent} sent: "
        f"{one.done} done, {one.failed} failed, {one.open} under way."
    )


def _of(total: int | None) -> str:
    return "" if total is None else f" of {total}"
