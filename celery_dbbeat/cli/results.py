"""`dbbeat history`, `dead`, `replay`: what became of fire times."""

from __future__ import annotations

from dataclasses import asdict

import click

from celery_dbbeat.cli.base import JSON, Command, answer, at_most, say, schedules_of, table


@click.command(cls=Command)
@click.argument("name")
@at_most(50)
@JSON
@click.pass_context
def history(ctx: click.Context, name: str, limit: int, as_json: bool) -> None:  # noqa: FBT001 - click passes it
    """Show what became of the fire times of the schedule NAME, the newest first; times in UTC."""
    entries = schedules_of(ctx).history(name, limit)
    if as_json:
        answer(
            [
                {**asdict(entry), "lateness": entry.lateness, "duration": entry.duration}
                for entry in entries
            ]
        )
        return
    table(
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


@click.command(cls=Command)
@click.option("-s", "--schedule", metavar="NAME", help="Only those of this schedule.")
@at_most(100)
@click.option("-t", "--traceback", "tracebacks", is_flag=True, help="With their tracebacks.")
@JSON
@click.pass_context
def dead(
    ctx: click.Context, schedule: str | None, limit: int, *, tracebacks: bool, as_json: bool
) -> None:
    """List dead ticks, those that were given up, the newest first; times in UTC."""
    letters = schedules_of(ctx).dead(limit=limit, schedule=schedule)
    if as_json:
        answer([asdict(letter) for letter in letters])
        return
    table(
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


@click.command(cls=Command)
@click.argument("task_ids", nargs=-1, metavar="[TASK_ID]...")
@click.option("--all", "everything", is_flag=True, help="All dead ticks instead of those named.")
@click.option("-s", "--schedule", metavar="NAME", help="With --all: only those of this schedule.")
@click.option("-y", "--yes", is_flag=True, help="With --all: do not ask.")
@JSON
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
    schedules = schedules_of(ctx)
    if everything:
        whose = "every schedule" if schedule is None else f"the schedule {schedule!r}"
        if not yes:
            click.confirm(f"Run all dead ticks of {whose} again?", abort=True, err=True)
        count = schedules.replay_all(schedule=schedule)
    else:
        schedules.replay(*task_ids)
        count = len(task_ids)
    say(as_json, f"To be sent again by beat: {count}.", sent_again=count)
