"""`dbbeat add`, `edit`, `delete`: schedules made, changed and deleted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from celery_dbbeat.cli import words
from celery_dbbeat.cli.base import JSON, Command, answer, say, schedules_of
from celery_dbbeat.cli.listing import conditions, every
from celery_dbbeat.cli.tables import one_line
from celery_dbbeat.cli.when import WHEN, when
from celery_dbbeat.cli.words import Duration, Json, Label
from celery_dbbeat.errors import NameTaken, NotFound

if TYPE_CHECKING:
    from celery_dbbeat.api import ScheduleInfo, Schedules

_CATCH_UP = click.Choice(["latest", "all", "none"])
_OVERLAP = click.Choice(
    ["allow", "skip", "buffer_one", "buffer_all", "cancel_other", "terminate_other"]
)
_FIELDS = (
    when("When:"),
    click.option("--timezone", metavar="ZONE", help="The time zone *when* is read in."),
    click.option("--args", type=Json(), help="Positional arguments of the task."),
    click.option("--kwargs", type=Json(), help="Keyword arguments of the task."),
    click.option("--options", type=Json(), help="As for apply_async."),
    click.option("--queue", metavar="NAME", help="The queue it is sent to."),
    click.option("--priority", type=int, help="The priority of its messages."),
    click.option("--misfire-grace", type=Duration(or_none=True), help="Sent as late as this."),
    click.option("--catch-up", type=_CATCH_UP, help="Of several that are due at once, these."),
    click.option("--catch-up-limit", type=int, help="At most so many of them."),
    click.option("--overlap", type=_OVERLAP, help="While the last run is not done."),
    click.option("--max-concurrent", type=int, help="So many may run at once."),
    click.option("--jitter", type=Duration(), help="Delayed by up to this long."),
    click.option("--start-at", metavar="INSTANT", help="No fire time before."),
    click.option("--end-at", metavar="INSTANT", help="No fire time after."),
    click.option("--max-runs", type=int, help="Finished after so many ticks."),
    click.option("--exclude", multiple=True, metavar="TEXT", help="Leave this out; repeatable."),
    click.option(
        "-l",
        "--label",
        "labels",
        type=Label(),
        multiple=True,
        help="What you like to say of it; repeatable.",
    ),
    click.option("--description", help="What it is for."),
    click.option("--max-attempts", type=int, help="How often a tick is begun before it is dead."),
    click.option("--on-failure", type=click.Choice(["dead", "retry"]), help="If the task fails."),
    click.option("--resend-after", type=Duration(), help="Sent again if nobody took it so long."),
    click.option("--pause-after", type=int, help="Paused after so many failures in a row."),
    click.option("--dry-run", is_flag=True, help="Check it and show it; write nothing."),
)


# What these are when nothing is said of them; the others are null.
_UNSET: dict[str, Any] = {
    "args": [],
    "kwargs": {},
    "options": {},
    "labels": {},
    "exclude": [],
    "description": "",
    "jitter": 0,
    "timezone": "UTC",
}


def _fields(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_FIELDS):
        command = option(command)
    return command


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """What was said on the command line, as `Schedules.create` takes it."""
    given = {field: value for field, value in values.items() if value is not None and value != ()}
    if "labels" in given:
        given["labels"] = dict(given["labels"])
    if "exclude" in given:
        given["exclude"] = list(given["exclude"])
    if given.get("misfire_grace") == "none":
        given["misfire_grace"] = None
    return given


@click.command(cls=Command)
@click.argument("name")
@click.argument("task")
@_fields
@click.option("--paused", is_flag=True, help="Paused until it is resumed.")
@click.option("--note", help="With --paused: why.")
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "update", "ignore"]),
    default="error",
    show_default=True,
    help="Where the name is there already.",
)
@JSON
@click.pass_context
def add(  # noqa: PLR0913 - click passes each of them
    ctx: click.Context,
    /,
    name: str,
    task: str,
    *,
    dry_run: bool,
    paused: bool,
    on_conflict: Any,
    as_json: bool,
    **values: Any,
) -> None:
    """Make the schedule NAME, which sends TASK. It starts at its next fire time."""
    schedules = schedules_of(ctx)
    given = _given(values) | ({"paused": True} if paused else {})
    if "note" in given and not paused:
        raise click.UsageError("--note goes with --paused")
    if dry_run:
        if on_conflict == "error" and _is_there(schedules, name):
            raise NameTaken(f"name is {name!r}, which is taken; allowed is another")
        _show_draft(schedules, {"name": name, "task": task, **given}, as_json=as_json)
        return
    info = schedules.create(name, task, on_conflict=on_conflict, **given)
    _tell(schedules, info, "is there", as_json=as_json)


@click.command(cls=Command)
@click.argument("name")
@_fields
@click.option("--name", "new_name", metavar="NAME", help="Another name.")
@click.option("--task", metavar="NAME", help="Another task.")
@click.option(
    "--unset",
    multiple=True,
    metavar="FIELD",
    help="Take this away, such as end-at or labels; repeatable.",
)
@click.option("--version", type=int, help="Only if it is at this version, as `show` told.")
@JSON
@click.pass_context
def edit(  # noqa: PLR0913 - click passes each of them
    ctx: click.Context,
    /,
    name: str,
    *,
    new_name: str | None,
    task: str | None,
    unset: tuple[str, ...],
    version: int | None,
    dry_run: bool,
    as_json: bool,
    **values: Any,
) -> None:
    """Change of the schedule NAME what is given, and nothing else. An edit never fires at once."""
    changes = _given({**values, "name": new_name, "task": task})
    for field in (text.replace("-", "_") for text in unset):
        if field in changes:
            raise click.UsageError(f"{field} is to be set and to be unset; say one of the two")
        if field in WHEN:
            raise click.UsageError(f"{field} cannot be unset; give another *when* instead")
        changes[field] = _UNSET.get(field)
    if not changes:
        raise click.UsageError("say what to change")
    schedules = schedules_of(ctx)
    if dry_run:
        _show_draft(schedules, changes, schedules.get(name), as_json=as_json)
        return
    info = schedules.update(name, version=version, **changes)
    _tell(schedules, info, f"is at version {info.version}", as_json=as_json)


def _is_there(schedules: Schedules, name: str) -> bool:
    try:
        schedules.get(name)
    except NotFound:
        return False
    return True


def _show_draft(
    schedules: Schedules,
    given: dict[str, Any],
    base: ScheduleInfo | None = None,
    *,
    as_json: bool,
) -> None:
    before = None if base is None else base.draft()
    draft = schedules.definitions.draft(given, before)
    changed = {
        field: value
        for field, value in asdict(draft).items()
        if value != getattr(before, field, None)
    }
    if as_json:
        answer(changed)
        return
    click.echo(f"The schedule {draft.name!r} would {'be made' if base is None else 'change'}:")
    for field, value in changed.items():
        if before is None and value in ("", "[]", "{}"):
            continue
        old = "" if before is None else f"{words.shown(getattr(before, field))} → "
        click.echo(f"  {field}: {old}{words.shown(value)}")


def _tell(schedules: Schedules, info: ScheduleInfo, done: str, *, as_json: bool) -> None:
    if as_json:
        answer(asdict(info))
        return
    after = words.run_in(info, schedules.now()).text
    following = f"next run {after}, at {words.shown(info.next_due)}" if info.next_due else None
    click.echo(f"The schedule {one_line(info.name)!r} {done}: {following or info.state}.")


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@conditions
@click.option("--dry-run", is_flag=True, help="Only say which.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@JSON
@click.pass_context
def delete(
    ctx: click.Context,
    /,
    names: tuple[str, ...],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **which: Any,
) -> None:
    """Delete schedules by name, or all that the conditions mean. Their history stays."""
    if bool(names) == any(which.values()):
        raise click.UsageError("name schedules, or say which by --state, --label, …")
    schedules = schedules_of(ctx)
    # Each of those named has to be there; what a condition means is there, and may be the code's.
    found = [schedules.get(name) for name in dict.fromkeys(names)] or [
        info for info in every(schedules, which) if info.owner == "people"
    ]
    if dry_run:
        say(as_json, _listed(found), would_delete=[info.name for info in found])
        return
    if len(found) > 1 and not yes:
        click.confirm(f"Delete {len(found):,} schedules?", abort=True, err=True)
    with words.progress(len(found), "Deleting", quiet=as_json) as bar:
        count = schedules.delete_many([info.name for info in found], progress=bar)
    say(as_json, f"Deleted: {count:,}.", deleted=count)


def _listed(found: list[ScheduleInfo]) -> str:
    names = "".join(f"\n  {one_line(info.name)}" for info in found)
    return f"Would be deleted: {len(found):,}.{names}"
