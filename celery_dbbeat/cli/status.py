"""`dbbeat status`: how it all stands, on one screen."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from celery_dbbeat.cli import words
from celery_dbbeat.cli.base import JSON, Command, answer, schedules_of, table

if TYPE_CHECKING:
    from celery_dbbeat.api import Status

_NOBODY = "No beat was seen within the hour."


@click.command(cls=Command)
@click.option("-w", "--watch", is_flag=True, help="Look again and again, until interrupted.")
@click.option("--every", type=click.FloatRange(min=0.2), default=2.0, show_default=True,
              metavar="SECONDS", help="With --watch: how often.")  # fmt: skip
@JSON
@click.pass_context
def status(ctx: click.Context, *, watch: bool, every: float, as_json: bool) -> None:
    """Show who dispatches, what is to be done, and what went wrong."""
    schedules = schedules_of(ctx)
    while True:
        found = schedules.status()
        if as_json:
            answer(asdict(found))
        else:
            if watch and sys.stdout.isatty():
                click.clear()
            _show(found)
        if not watch:
            return
        time.sleep(every)


def _show(found: Status) -> None:
    now = found.now
    rows = [
        {
            "REPLICA": one.id,
            "HOST": one.hostname,
            "STATE": words.replica(one),
            "SHARDS": f"{one.shards} of 256",
            "LEADS SINCE": one.leads_since,
            "UP FOR": words.span(now - one.started),
            "RELEASE": one.release,
        }
        for one in found.replicas
    ]
    table(rows, _NOBODY)
    states = ", ".join(f"{number} {state}" for state, number in found.schedules.items())
    unsent = (
        "" if found.oldest_unsent is None else f", oldest {words.span(now - found.oldest_unsent)}"
    )
    following = "-" if found.next_due is None else words.run_in_at(found.next_due, now).text
    click.echo()
    for title, text, bad in (
        ("schedules", states, found.schedules["invalid"].value),
        ("due now", f"{words.bounded(found.due)}, next {following}", 0),
        ("late", words.bounded(found.late), found.late),
        ("held back", f"{words.bounded(found.held_back)} late ones, at their rate", 0),
        ("waiting", f"{words.bounded(found.waiting)} for a run to end", 0),
        ("sent", f"{words.bounded(found.sent_a_minute)} in the last minute", 0),
        ("unsent", f"{words.bounded(found.unsent)}{unsent}", 0),
        ("awaited", f"{words.bounded(found.awaited)} by {found.workers} guarded workers", 0),
        ("dead", words.bounded(found.dead), found.dead),
    ):
        click.echo(f"{click.style(title.ljust(10), bold=True)} ", nl=False)
        click.secho(text, fg="red" if bad else None)
