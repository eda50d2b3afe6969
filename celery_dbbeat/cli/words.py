"""How people say things: durations, states in their colours, a schedule's *when*."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from celery_dbbeat.cli.tables import Coloured, one_line

if TYPE_CHECKING:
    from celery_dbbeat.api import ReplicaStatus, ScheduleInfo

_UNITS = {"w": 604800, "d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?")
_STEPS = ((86400 * 2, 86400, "d"), (3600 * 2, 3600, "h"), (60 * 2, 60, "min"))

_COLOURS = {"active": "green", "paused": "yellow", "finished": "bright_black", "invalid": "red"}

_LONGEST = 60
#: From so many on a bar shows how far it is.
_LONG = 2000


class Duration(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # by version
    """Seconds, or such as `90s`, `5m`, `1h30m`, `2d`; where `none` is allowed, that as well.

    `or_text`: what is none of these is left to whoever reads it, such as `1 month`.
    """

    name = "duration"

    def __init__(self, *, or_none: bool = False, or_text: bool = False) -> None:
        self._or_none = or_none
        self._or_text = or_text

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta | str:
        """The duration; `none` stays a word, which says that it was given."""
        if isinstance(value, timedelta):
            return value
        if self._or_none and value == "none":
            return "none"
        try:
            found = duration_of(str(value))
        except OverflowError:
            self.fail(f"{value!r}, which is longer than any calendar", param)
        if found is None and not self._or_text:
            none = ", or none" if self._or_none else ""
            self.fail(f"{value!r}; allowed are seconds, or such as 90s, 5m, 1h30m, 2d{none}", param)
        return str(value) if found is None else found


def duration_of(text: str) -> timedelta | None:
    """Seconds, or such as `90s`, `1h30m`, `2d`, `1w`; None for what is none of these."""
    found = _DURATION.fullmatch(text)
    if not text or not found:
        return None
    numbers = zip(found.groups(), _UNITS.values(), strict=True)
    return timedelta(seconds=sum(float(number or 0) * unit for number, unit in numbers))


class Json(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # by version
    """A value in JSON."""

    name = "json"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """The value."""
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            self.fail(f"{value!r} is not JSON; allowed is such as '[1, \"a\"]'", param)


class Label(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # by version
    """`name=value`; what JSON reads as a number, true, false or null is that, the rest is text."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, object]:
        """Name and value."""
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r}; allowed is such as team=billing", param)
        try:
            return name, json.loads(text)
        except (ValueError, RecursionError):
            return name, text


def span(duration: timedelta) -> str:
    """How long, roughly: `45 s`, `3 min`, `5 h`, `12 d`."""
    seconds = abs(duration.total_seconds())
    for least, unit, word in _STEPS:
        if seconds >= least:
            return f"{seconds / unit:.0f} {word}"
    return f"{seconds:.0f} s"


def run_in(info: ScheduleInfo, now: datetime) -> Coloured:
    """When its next run is: `in 3 min`, or how late it is."""
    if info.next_due is None:
        return Coloured("-" if info.next_nominal is None else "waits", None)
    return run_in_at(info.next_due, now)


def run_in_at(due: datetime, now: datetime) -> Coloured:
    """The same of an instant."""
    ahead = due - now
    if ahead > timedelta(0):
        return Coloured(f"in {span(ahead)}", None)
    late = ahead < -timedelta(seconds=1)
    return Coloured(f"{span(ahead)} late" if late else "now", "red" if late else None)


def state(info: ScheduleInfo) -> Coloured:
    """Its state, in a colour."""
    return Coloured(info.state, _COLOURS[info.state])


def when(info: ScheduleInfo) -> str:
    """Its *when*, in short."""
    text = info.expression
    if info.kind == "interval":
        text = f"every {every(text)}"
    elif info.kind == "crontab":
        text = _crontab(text)
    zone = "" if info.timezone == "UTC" or info.kind == "interval" else f" {info.timezone}"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return (text if info.kind == "interval" else f"{info.kind} {text}") + zone


def every(seconds: str) -> str:
    """An interval in the largest unit that it is a whole number of."""
    number = seconds.strip()
    whole = int(number) if re.fullmatch(r"[0-9]{1,10}", number) else 0
    for unit, word in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole and whole % unit == 0:
            return f"{whole // unit} {word}"
    return f"{number} s" if re.fullmatch(r"[0-9.]+", number) else number


def shown(value: object) -> str:
    """A value of any column, for people."""
    if isinstance(value, Coloured):
        return click.style(value.text, fg=value.colour)
    if isinstance(value, timedelta):
        return "0 s" if not value else f"{value.total_seconds():g} s"
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S} UTC"
    return one_line(json.dumps(value) if isinstance(value, list | dict) else str(value))


def _crontab(text: str) -> str:
    try:
        fields = json.loads(text)
    except ValueError:
        return text
    if not isinstance(fields, Mapping):
        return text
    names = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    return " ".join(str(fields.get(name, "*")) for name in names)


@contextmanager
def progress(length: int, label: str, *, quiet: bool) -> Iterator[Callable[[int], None] | None]:
    """A bar aside for what takes long, where somebody looks."""
    if quiet or length < _LONG or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update


def replica(one: ReplicaStatus) -> Coloured:
    """What a beat process does."""
    if not one.alive:
        return Coloured("gone", "red")
    if not one.ready:
        return Coloured("not ready", "yellow")
    return Coloured("leads" if one.shards else "stands by", "green")


def bounded(count: int) -> str:
    """A count that goes no further than its bound."""
    from celery_dbbeat.store.status import MOST

    return f"{count:,}" if count < MOST else f"{count:,} or more"
