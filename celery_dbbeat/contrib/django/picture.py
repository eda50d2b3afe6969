"""A schedule's history as a picture: how late its ticks were sent, and how long they ran.

Plain SVG, drawn here: no script, no style of its own, so that the strictest page may show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.html import format_html, format_html_join

from celery_dbbeat.store.history import HistoryEntry

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 960, 150, 64, 12, 26, 20
_STEPS = (1, 2, 5, 10)


@dataclass(frozen=True, slots=True)
class Point:
    """One tick in a chart."""

    at: datetime
    seconds: float
    kind: str
    said: str


def picture(entries: Sequence[HistoryEntry]) -> str:
    """Two charts over one time; empty where nothing was sent yet."""
    if not any(one.sent for one in entries):
        return ""
    first, last = min(one.nominal for one in entries), max(one.nominal for one in entries)
    late = [_point(one, one.lateness.total_seconds()) for one in entries if one.lateness]
    ran = [_point(one, one.duration.total_seconds()) for one in entries if one.duration]
    charts = [("Sent late by", late), ("Ran for", ran)]
    drawn = format_html_join(
        "",
        "{}",
        (
            (_chart(title, points, first, last, number * _HEIGHT),)
            for number, (title, points) in enumerate(charts)
        ),
    )
    return format_html(
        '<svg class="dbbeat-picture" viewBox="0 0 {} {}" role="img" '
        'aria-label="How late the ticks were sent, and how long they ran">{}</svg>',
        _WIDTH,
        _HEIGHT * len(charts),
        drawn,
    )


def _point(one: HistoryEntry, seconds: float) -> Point:
    kind = "bad" if one.state == "dead" or one.outcome == "failed" else "good"
    kind = "open" if kind == "good" and one.outcome is None and one.status != "done" else kind
    return Point(one.nominal, max(seconds, 0.0), kind, f"{one.nominal:%Y-%m-%d %H:%M:%S} UTC")


def _chart(title: str, points: Sequence[Point], first: datetime, last: datetime, top: int) -> str:
    high = _nice(max((point.seconds for point in points), default=1.0))
    floor = top + _HEIGHT - _BOTTOM
    height = _HEIGHT - _TOP - _BOTTOM
    whole = (last - first).total_seconds() or 1.0
    marks = []
    for point in points:
        share = (point.at - first).total_seconds() / whole if last > first else 0.5
        x = _LEFT + share * (_WIDTH - _LEFT - _RIGHT)
        y = floor - point.seconds / high * height
        said = f"{point.said}: {seconds_shown(point.seconds)}"
        marks.append(
            (point.kind, f"{x:.1f}", f"{x:.1f}", floor, f"{y:.1f}", f"{x:.1f}", f"{y:.1f}", said)
        )
    dots = format_html_join(
        "",
        '<g class="dbbeat-{}"><line x1="{}" x2="{}" y1="{}" y2="{}"/>'
        '<circle cx="{}" cy="{}" r="3"/><title>{}</title></g>',
        marks,
    )
    return format_html(
        "{}{}{}", _frame(title, top, floor, height, high), dots, _times(first, last, floor)
    )


def _frame(title: str, top: int, floor: int, height: int, high: float) -> str:
    lines = format_html_join(
        "",
        '<line class="dbbeat-grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
        '<text x="{}" y="{}" text-anchor="end">{}</text>',
        (
            (_LEFT, _WIDTH - _RIGHT, y, y, _LEFT - 6, y + 4, seconds_shown(share * high))
            for share in (0, 0.5, 1)
            for y in (floor - share * height,)
        ),
    )
    return format_html(
        '<text class="dbbeat-title" x="{}" y="{}">{}</text>{}', _LEFT, top + 14, title, lines
    )


def _times(first: datetime, last: datetime, floor: int) -> str:
    return format_html(
        '<text x="{}" y="{}">{}</text><text x="{}" y="{}" text-anchor="end">{}</text>',
        _LEFT, floor + 15, f"{first:%Y-%m-%d %H:%M} UTC",
        _WIDTH - _RIGHT, floor + 15, f"{last:%Y-%m-%d %H:%M} UTC",
    )  # fmt: skip


def _nice(high: float) -> float:
    """The next of 1, 2, 5, 10, … above."""
    if high <= 0:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(high))
    return next(step * power for step in _STEPS if step * power >= high * 0.999)


def seconds_shown(seconds: float) -> str:
    """Short, in a unit that fits."""
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1000:.3g} ms" if seconds else "0"
