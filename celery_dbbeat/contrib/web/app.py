"""The app: which pages there are, and what every answer carries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from celery import Celery
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from celery_dbbeat.contrib.web import editing, entering, ordering, reading
from celery_dbbeat.contrib.web.session import Sessions
from celery_dbbeat.contrib.web.site import Handler, Identify, Site, endpoint
from celery_dbbeat.contrib.web.users import AuthProvider, Passwords
from celery_dbbeat.errors import SettingsError

_SHORTEST_SECRET = 32
_HEADERS = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    b"x-frame-options": b"DENY",
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cache-control": b"no-store",
}
#: path, page, who may see it
_PAGES: tuple[tuple[str, Handler, str], ...] = (
    ("/", reading.schedules, "reader"),
    ("/schedule", reading.schedule, "reader"),
    ("/dead", reading.dead, "reader"),
    ("/changes", reading.changes, "reader"),
    ("/replicas", reading.replicas, "reader"),
    ("/backfills", ordering.backfills, "reader"),
    ("/new", editing.new, "editor"),
    ("/edit", editing.edit, "editor"),
    ("/delete", editing.confirm, "editor"),
    ("/backfill", ordering.plan, "editor"),
    ("/login", entering.show, "anybody"),
)
_WRITES: tuple[tuple[str, Handler, str], ...] = (
    ("/new", editing.create, "editor"),
    ("/edit", editing.update, "editor"),
    ("/check", editing.check, "editor"),
    ("/delete", editing.delete, "editor"),
    ("/trigger", ordering.trigger, "editor"),
    ("/pause", ordering.pause, "editor"),
    ("/resume", ordering.resume, "editor"),
    ("/backfill", ordering.backfill, "editor"),
    ("/backfill/stop", ordering.stop, "editor"),
    ("/backfill/continue", ordering.go_on, "editor"),
    ("/replay", ordering.replay, "editor"),
    ("/login", entering.enter, "anybody"),
    ("/logout", entering.leave, "anybody"),
)


def create_app(  # noqa: PLR0913 - each by its name
    app: Celery,
    *,
    users: Mapping[str, str] | None = None,
    editors: Collection[str] = (),
    auth: AuthProvider | None = None,
    identify: Identify | None = None,
    secret: str | None = None,
    insecure: bool = False,
) -> ASGIApp:
    """The pages for the schedules of a Celery app, to be served alone or mounted.

    >>> web = create_app(app, users={"ada": "scrypt.…"}, editors=["ada"], secret=os.environ["…"])

    Who may look is said in one of four ways: `users` and their password hashes, of whom only
    `editors` may write; `auth`, an AuthProvider; `identify`, a function from the request to a User
    or None, where the app around this one knows; `insecure`: everybody who asks from this machine
    may do anything. `secret` signs the sessions; all processes need the same.
    """
    ways = [users is not None, auth is not None, identify is not None, insecure]
    if sum(ways) != 1:
        raise SettingsError(
            "who may look is not said, or twice; allowed is one of users, auth, identify, "
            "or insecure=True for those who sit at this machine"
        )
    if secret is None or len(secret) < _SHORTEST_SECRET:
        raise SettingsError(
            f"secret is {'missing' if not secret else 'too short'}; allowed is random text of "
            f"{_SHORTEST_SECRET} characters or more"
        )
    if users is not None:
        auth = Passwords(users, editors)
    elif editors:
        raise SettingsError("editors are given without users; allowed is both")
    app.loader.import_default_modules()
    app.finalize()
    site = Site(app, Sessions(secret), auth, identify)
    routes = [
        Route(path, endpoint(site, page, role=role), methods=[method], name=f"{method} {path}")
        for method, pages in (("GET", _PAGES), ("POST", _WRITES))
        for path, page, role in pages
    ]
    files = StaticFiles(directory=Path(__file__).parent / "static")
    return _Hardened(Starlette(routes=[*routes, Mount("/static", files)]))


class _Hardened:
    """Every answer says what browsers must not do with it."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, with the headers."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = [pair for pair in message["headers"] if pair[0].lower() not in _HEADERS]
                message["headers"] = [*given, *_HEADERS.items()]
            await send(message)

        await self._inner(scope, receive, sending)
