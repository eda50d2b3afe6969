"""`dbbeat export`, `apply`, `import FILE`: schedules in files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from celery_dbbeat.cli import words
from celery_dbbeat.cli.base import JSON, Command, answer, say, schedules_of
from celery_dbbeat.cli.listing import conditions, every
from celery_dbbeat.cli.tables import one_line

if TYPE_CHECKING:
    from celery_dbbeat.api.documents import Difference, Document

_FORMAT = click.Choice(["yaml", "json"])
_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
_EXISTING = click.Path(path_type=Path, dir_okay=False, exists=True, allow_dash=True)
_AS = click.option(
    "--format", "form", type=_FORMAT, help="By itself: what the file's name says, or JSON."
)


@click.command(cls=Command)
@conditions
@click.option("-o", "--output", type=_FILE, default="-", help="A file instead of the screen.")
@_AS
@click.pass_context
def export(ctx: click.Context, /, *, output: Path, form: str | None, **which: Any) -> None:
    """Write schedules as `import` and `apply` read them: those of people, unless --owner says."""
    from celery_dbbeat.api import documents

    which["owner"] = which["owner"] or "people"
    document = documents.document_of(every(schedules_of(ctx), which))
    text = documents.write(document, as_yaml=_is_yaml(output, form))
    if str(output) == "-":
        click.echo(text, nl=False)
        return
    output.write_text(text, encoding="utf-8")
    click.echo(f"Written: {len(document['schedules']):,} schedules to {output}.", err=True)


@click.command("file", cls=Command)
@click.argument("file", type=_EXISTING)
@_AS
@click.option(
    "--on-conflict",
    type=click.Choice(["error", "update", "ignore"]),
    default="error",
    show_default=True,
    help="Where a name is there already.",
)
@click.option("--dry-run", is_flag=True, help="Check it; write nothing.")
@JSON
@click.pass_context
def import_file(  # noqa: PLR0913 - click passes each of them
    ctx: click.Context,
    /,
    *,
    file: Path,
    form: str | None,
    on_conflict: Any,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make the schedules of a file that `export` wrote, or somebody by hand."""
    schedules = schedules_of(ctx)
    definitions = _read(file, form).definitions()
    if dry_run:
        count = len(schedules.drafts(definitions))
        say(as_json, f"All {count:,} could be read.", schedules=count)
        return
    with words.progress(len(definitions), "Importing", quiet=as_json) as bar:
        written = schedules.create_many(definitions, on_conflict=on_conflict, progress=bar)
    counts = {
        "created": len(written.created),
        "updated": len(written.updated),
        "unchanged": len(written.unchanged),
    }
    shown = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    say(as_json, f"Imported: {shown or 'nothing'}.", **counts)


@click.command(cls=Command)
@click.option("-f", "--file", type=_EXISTING, required=True, help="What it is to be like.")
@_AS
@click.option("--prune", is_flag=True, help="Delete what an earlier file of the same set had.")
@click.option("--dry-run", is_flag=True, help="Only show the difference.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@JSON
@click.pass_context
def apply(  # noqa: PLR0913 - click passes each of them
    ctx: click.Context,
    /,
    *,
    file: Path,
    form: str | None,
    prune: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Make the schedules be as a file says, after showing the difference.

    Only what the file names is touched; with --prune also what was applied from a file of the same
    `set` before. What the code owns is refused.
    """
    schedules = schedules_of(ctx)
    document = _read(file, form)
    difference = schedules.compare(document, prune=prune)
    if as_json:
        answer({**_counts(difference), "dry_run": dry_run})
    else:
        _show(difference)
    if dry_run or not difference:
        return
    if not yes:
        click.confirm("Do this?", abort=True, err=True)
    number = sum(map(len, (difference.created, difference.changed, difference.deleted)))
    with words.progress(number, "Applying", quiet=as_json) as bar:
        schedules.apply(document, prune=prune, progress=bar)
    if not as_json:
        click.echo("Done.")


def _read(file: Path, form: str | None) -> Document:
    from celery_dbbeat.api import documents
    from celery_dbbeat.errors import ScheduleError

    try:
        with click.open_file(str(file), encoding="utf-8") as opened:
            text = opened.read()
    except (OSError, UnicodeDecodeError) as error:
        raise ScheduleError(f"{file} cannot be read: {error}") from None
    return documents.read(text, as_yaml=_is_yaml(file, form))


def _is_yaml(file: Path, form: str | None) -> bool:
    return form == "yaml" if form else file.suffix in {".yaml", ".yml"}


def _counts(difference: Difference) -> dict[str, object]:
    return {
        "created": difference.created,
        "changed": {
            name: {field: {"old": old, "new": new} for field, (old, new) in fields.items()}
            for name, fields in difference.changed.items()
        },
        "deleted": difference.deleted,
        "unchanged": len(difference.unchanged),
    }


def _show(difference: Difference) -> None:
    for name in difference.created:
        click.secho(f"+ {one_line(name)}", fg="green")
    for name, fields in difference.changed.items():
        click.secho(f"~ {one_line(name)}", fg="yellow")
        for field, (old, new) in fields.items():
            click.echo(f"    {field}: {words.shown(old)} → {words.shown(new)}")
    for name in difference.deleted:
        click.secho(f"- {one_line(name)}", fg="red")
    click.echo(
        f"To make: {len(difference.created):,}, to change: {len(difference.changed):,}, "
        f"to delete: {len(difference.deleted):,}, as it should be: {len(difference.unchanged):,}."
    )
