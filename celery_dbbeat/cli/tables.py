"""What commands answer with: a table for people, JSON for programs.

On a terminal the head is bold and no line is longer than the window; into a file or a pipe goes
everything, as plain text.
"""

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import click

# On a terminal, of a column that others follow; a task id has 36.
_WIDEST = 40


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


@dataclass(frozen=True, slots=True)
class Coloured:
    """A text in a colour, where there is room for it and somebody looks."""

    text: str
    colour: str | None


def show(rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows as a table whose head is the keys of the first."""
    if not rows:
        return
    head = list(rows[0])
    cells = [[_cell(row[name]) for name in head] for row in rows]
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if room is not None:
        # One long name would push all that follows it out of the window.
        cells = [[*map(_cut, line[:-1]), line[-1]] for line in cells]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    click.secho(_line(head, widths, room), bold=True)
    for row, one in zip(rows, cells, strict=True):
        click.echo(_paint(_line(one, widths, room), widths, list(row.values())))


def _cut(cell: str) -> str:
    return cell if len(cell) <= _WIDEST else f"{cell[: _WIDEST - 1]}…"


def _line(cells: Iterable[str], widths: Iterable[int], room: int | None) -> str:
    text = "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
    return text if room is None or len(text) <= room else f"{text[: room - 1]}…"


def _paint(line: str, widths: Sequence[int], values: Sequence[object]) -> str:
    """The line with its coloured cells in their colours: last of all, for colours take no room."""
    starts = [sum(widths[:place]) + 2 * place for place in range(len(widths))]
    for start, width, value in reversed(list(zip(starts, widths, values, strict=True))):
        if isinstance(value, Coloured) and value.colour and start < len(line):
            end = start + width
            cell = click.style(line[start:end], fg=value.colour)
            line = f"{line[:start]}{cell}{line[end:]}"
    return line


def _cell(value: object) -> str:
    if isinstance(value, Coloured):
        value = value.text
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.3f} s"
    return one_line(str(value))


def one_line(text: str) -> str:
    """What may hold anything as one line, without codes that a terminal obeys."""
    line = " ".join(text.split())
    return "".join(character if character.isprintable() else "?" for character in line)
