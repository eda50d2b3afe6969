"""`dbbeat health`: whether the replica on this host lives, and is ready; for exec probes.

Where `dbbeat_http` names a port, the replica itself is asked. Else the tables say when a replica on
this host was heard of last. They are no witness when they cannot be reached: that makes a replica
not ready, but no reason to end one that may live.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import click

from celery_dbbeat.cli.base import JSON, Command, read_settings, say
from celery_dbbeat.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from celery_dbbeat.settings import Settings

_PATIENCE = 3.0
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to ask who listens everywhere


@click.command(cls=Command)
@click.option("--live", "what", flag_value="live", help="Is its loop going round?")
@click.option(
    "--ready", "what", flag_value="ready", default="ready", help="And does it reach all it needs?"
)
@JSON
@click.pass_context
def health(ctx: click.Context, what: str, *, as_json: bool) -> None:
    """Say whether beat on this host is ready (or lives); exits with 0 if it is, else with 1."""
    settings = read_settings(ctx)
    port = 0 if settings.http is None else int(settings.http.rpartition(":")[2])
    well, why = _ask(settings.http or "", what) if port else _look(settings, what)
    word = what if well else f"not {what}"
    say(as_json, f"{word}: {why}" if why else word, **{what: well, "reason": why})
    ctx.exit(0 if well else 1)


def _ask(address: str, what: str) -> tuple[bool, str]:
    from http.client import HTTPConnection, HTTPException

    from celery_dbbeat.observe.server import split_address

    host, port = split_address(address)
    connection = HTTPConnection(_ANY.get(host, host), port, timeout=_PATIENCE)
    try:
        connection.request("GET", f"/{what}")
        answer = connection.getresponse()
        return answer.status == 200, answer.read().decode(errors="replace").strip()  # noqa: PLR2004 - OK
    except (OSError, HTTPException) as error:
        return False, f"nothing answers on {address}: {error}"
    finally:
        connection.close()


def _look(settings: Settings, what: str) -> tuple[bool, str]:
    from celery_dbbeat import embedded
    from celery_dbbeat.observe.pulse import stuck_after
    from celery_dbbeat.store import gauges
    from celery_dbbeat.store.database import Database

    host = socket.gethostname()
    settings = embedded.resolve(settings)
    fresh = settings.lease_ttl if what == "ready" else stuck_after(settings.lease_ttl)
    try:
        with Database(settings.url, settings.schema, _PATIENCE) as database:
            seen = gauges.replicas_of(database, host, fresh)
    except DatabaseUnavailable as error:
        if what == "ready":
            raise
        return True, f"that cannot be told without the database: {error}"
    if not seen:
        return False, f"no replica on {host} was heard of"
    if not any(one.fresh for one in seen):
        return False, f"no replica on {host} was heard of for {seen[0].seen_ago:.0f} s"
    if what == "ready" and not any(one.fresh and one.ready for one in seen):
        return False, f"the replica on {host} cannot reach the broker"
    return True, ""
