"""`dbbeat web`: the schedules in the browser, served alone."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import Any

import click

from celery_dbbeat.cli.base import Command, app_of
from celery_dbbeat.errors import SettingsError

_USERS, _SECRET = "DBBEAT_WEB_USERS", "DBBEAT_WEB_SECRET"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command(cls=Command)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8585, show_default=True,
              help="On which port.")  # fmt: skip
@click.option("--users-file", type=_FILE, help=f"Users, or set {_USERS} to what it would hold.")
@click.option("--secret-file", type=_FILE, help=f"What signs sessions, or set {_SECRET}.")
@click.option("--insecure", is_flag=True, help="No log-in: all at this machine may do anything.")
@click.option("--root-path", default="", help="Behind a proxy: the path it takes away.")
@click.option("--trusted-proxy", default="127.0.0.1", show_default=True,
              help="Whose X-Forwarded headers count: addresses, or *.")  # fmt: skip
@click.pass_context
def web(ctx: click.Context, /, host: str, port: int, **how: Any) -> None:
    """Serve the schedules to browsers."""
    served = _served(ctx, host, how["users_file"], how["secret_file"], insecure=how["insecure"])
    import uvicorn  # a part of the extra that was looked for just now

    click.echo(f"Schedules at http://{f'[{host}]' if ':' in host else host}:{port}/")
    uvicorn.run(
        served,
        host=host,
        port=port,
        root_path=how["root_path"].rstrip("/"),
        proxy_headers=not how["insecure"],
        forwarded_allow_ips=how["trusted_proxy"],
        server_header=False,
        log_level="warning",
    )


@click.command("web-password", cls=Command)
def password() -> None:
    """Print the hash of a password, to be put into the users of `dbbeat web`.

    It is asked for, or read from the standard input: never an argument, which others could see.
    """
    users = _contrib().users
    if sys.stdin.isatty():
        given = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        given = sys.stdin.readline().rstrip("\n")
    if not given:
        raise click.UsageError("the password is empty")
    click.echo(users.hash_password(given))


def _served(
    ctx: click.Context, host: str, users: Path | None, secret: Path | None, *, insecure: bool
) -> Any:
    contrib = _contrib()
    lines = users.read_text() if users else os.environ.get(_USERS, "")
    if insecure:
        if lines:
            raise click.UsageError("--insecure does not go with users")
        if not contrib.site.is_loopback(host):
            raise click.UsageError(
                f"--host is {host!r}; allowed with --insecure is 127.0.0.1, ::1 or localhost"
            )
        own = secrets.token_urlsafe(48)
        return contrib.create_app(app_of(ctx), insecure=True, secret=own)
    if not lines:
        raise click.UsageError(
            f"nobody may log in; allowed is --users-file or {_USERS} with lines of "
            "NAME:ROLE:HASH, or --insecure for this machine alone"
        )
    sign = secret.read_text().strip() if secret else os.environ.get(_SECRET, "")
    auth = contrib.Passwords.of_lines(lines.splitlines())
    return contrib.create_app(app_of(ctx), auth=auth, secret=sign)


def _contrib() -> Any:
    try:
        import uvicorn  # noqa: F401 - served by it

        import celery_dbbeat.contrib.web as contrib

    except ImportError as error:
        raise SettingsError(
            f"{error.name or error} is missing; allowed is `pip install 'celery-dbbeat[web]'`"
        ) from None
    return contrib
