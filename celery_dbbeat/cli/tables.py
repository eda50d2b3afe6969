"""What commands answer with: a table for people, JSON for programs.

On a terminal the head is bold and no line is longer than the window; into a file or a pipe goes
everything, as plain text.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import click


def as_json(value: object) -> str:
    """JSON; instants as ISO-8601, durations in seconds."""
    return json.dumps(value, default=_plain)


def _plain(value: object) -> str | float:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{value!r} has no form in JSON")


def show(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows as a table whose head is the keys of the first."""
    if not rows:
        return
    head = list(rows[0])
    cells = [[_cell(row[name]) for name in head] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    click.secho(_line(head, widths, room), bold=True)
    for one in cells:
        click.echo(_line(one, widths, room))


def _line(cells: Iterable[str], widths: Iterable[int], room: int | None) -> str:
    text = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
    return text if room is None or len(text) <= room else f"{text[: room - 1]}…"


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.3f} s"
    # What came from a task may hold anything: one line, and no codes that a terminal obeys.
    line = " ".join(str(value).split())
    return "".join(character if character.isprintable() else "?" for character in line)
