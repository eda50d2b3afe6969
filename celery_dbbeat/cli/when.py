"""How every command takes a *when*, and an instant that has passed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import click

from celery_dbbeat.cli.words import Duration, duration_of

_EACH = (
    ("cron", "TEXT", "5, 6 or 7 fields, or @daily."),
    ("crontab", "JSON", "Celery's five fields."),
    ("interval", Duration(or_text=True), "every so long, such as 90s, 5m or '1 month'."),
    ("rrule", "TEXT", "a recurrence rule."),
    ("solar", "TEXT", "event latitude longitude."),
    ("once", "INSTANT", "at this one instant."),
)

#: The names of the options, which are those of the arguments of `Schedules.create`.
WHEN = tuple(name for name, _, _ in _EACH)


count = click.option(
    *("-n", "--count"),
    type=click.IntRange(1, 1000),
    default=10,
    show_default=True,
    help="So many fire times.",
)


def when(lead: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options of which one says when; what their help begins with."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for name, kind, meaning in reversed(_EACH):
            how = {"metavar": kind} if isinstance(kind, str) else {"type": kind}
            command = click.option(f"--{name}", **how, help=f"{lead} {meaning}")(command)
        return command

    return decorate


def instant_or_ago(field: str, text: str) -> datetime | timedelta:
    """An instant, in UTC unless it says, or how long ago: a duration with its unit."""
    from celery_dbbeat.api.fields import read_instant, refusal

    ago = duration_of(text.strip()) if text.strip()[-1:].isalpha() else None
    found = ago or read_instant(field, text, "UTC")
    if found is None:
        raise refusal(field, text, "an instant, or how long ago")
    return found
