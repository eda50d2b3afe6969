"""The history of a schedule as a picture: how late its ticks were sent, how long their runs took.

An SVG without script and without inline style, so that it may stand in a page under the strictest
content policy. Colours come from the page: each mark has a class (`late`, `done`, `failed`,
`running`, `unsent`), and what it stands for is in its title. Heights are logarithmic, for a tick
that was an hour late must not flatten the hundred that were late by some milliseconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from celery_dbbeat.api import HistoryEntry

_WIDTH, _PANEL, _GAP, _LEFT, _TOP = 720, 96, 34, 58, 20
_FLOOR = 0.001
_SVG = "http://www.w3.org/2000/svg"
_LINES = (
    (0.001, "1 ms"),
    (0.01, "10 ms"),
    (0.1, "0.1 s"),
    (1, "1 s"),
    (10, "10 s"),
    (60, "1 min"),
    (600, "10 min"),
    (3600, "1 h"),
    (86_400, "1 day"),
    (864_000, "10 days"),
    (31_536_000, "1 year"),
)
_MOST_LINES = 4
_SENT = frozenset({"recorded", "sent", "dead", "cancelled"})


@dataclass(frozen=True, slots=True)
class _Panel:
    """One of the two charts."""

    title: str
    top: int
    value: Callable[[HistoryEntry], timedelta | None]
    kind: Callable[[HistoryEntry], str]


def picture(entries: Sequence[HistoryEntry]) -> str:
    """Draw the entries of `Schedules.history`, the oldest left; '' where there are none."""
    if not entries:
        return ""
    shown = list(reversed(entries))
    panels = (
        _Panel("sent late by", _TOP, lambda one: one.lateness, lambda _: "late"),
        _Panel("run took", _TOP + _PANEL + _GAP, lambda one: one.duration, _outcome),
    )
    height = _TOP + 2 * _PANEL + _GAP + 22
    marks = [mark for panel in panels for mark in _draw(panel, shown)]
    first, last = shown[0].nominal, shown[-1].nominal
    base = height - 6
    return "\n".join(
        [
            f'<svg class="history" viewBox="0 0 {_WIDTH} {height}" role="img" xmlns="{_SVG}">',
            f"<title>Lateness and duration of {len(shown)} entries</title>",
            *marks,
            _text(_LEFT, base, _instant(first), "start"),
            _text(_WIDTH, base, _instant(last), "end"),
            "</svg>",
        ]
    )


def seconds_shown(seconds: float) -> str:
    """Short, in a unit that fits."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1000:.3g} ms" if seconds else "0"


def _draw(panel: _Panel, shown: Sequence[HistoryEntry]) -> Iterator[str]:
    values = [panel.value(one) for one in shown]
    most = max([_seconds(value) for value in values if value is not None], default=1.0)
    top = next((line for line, _ in _LINES if line >= most), _LINES[-1][0])
    bottom = panel.top + _PANEL
    yield _text(_LEFT, panel.top - 7, panel.title, "start", "title")
    for line, name in _lines(top):
        y = bottom - _height(line, top)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(_LEFT - 6, y + 3.5, name, "end")
    step = (_WIDTH - _LEFT) / len(shown)
    wide = min(max(step * 0.7, 1.0), 26.0)
    for number, (one, value) in enumerate(zip(shown, values, strict=True)):
        x = _LEFT + step * (number + 0.5) - wide / 2
        if one.state not in _SENT:
            kind, tall, y = "unsent", _PANEL, panel.top
        elif value is None:
            continue
        else:
            kind = panel.kind(one)
            tall = max(2, round(_height(_seconds(value), top)))
            y = bottom - tall
        yield (
            f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{wide:.1f}" height="{tall}" rx="1">'
            f"<title>{escape(_said(one))}</title></rect>"
        )


def _lines(top: float) -> list[tuple[float, str]]:
    """A few lines up to the top one, evenly chosen."""
    below = [line for line in _LINES if line[0] <= top]
    stride = math.ceil(len(below) / _MOST_LINES)
    return below[::-1][::stride]


def _height(seconds: float, top: float) -> float:
    span = math.log(top / _FLOOR) or 1.0
    return max(0.0, math.log(max(seconds, _FLOOR) / _FLOOR) / span) * _PANEL


def _outcome(one: HistoryEntry) -> str:
    if one.ended is None:
        return "running"
    failed = one.state == "dead" or one.error or one.status not in {"done", None}
    return "failed" if failed else "done"


def _said(one: HistoryEntry) -> str:
    parts = [_instant(one.nominal), one.state]
    if one.count > 1:
        parts.append(f"{one.count} fire times")
    if one.lateness is not None:
        parts.append(f"sent late by {seconds_shown(one.lateness.total_seconds())}")
    if one.duration is not None:
        parts.append(f"took {seconds_shown(one.duration.total_seconds())}")
    parts += [text for text in (one.reason, one.error) if text]
    return ", ".join(parts)


def _seconds(value: timedelta) -> float:
    return max(value.total_seconds(), 0.0)


def _instant(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "label") -> str:
    shown = escape(text)
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{shown}</text>'
