"""Log in and log out."""

from __future__ import annotations

from starlette.responses import Response

from celery_dbbeat.contrib.web.session import Session
from celery_dbbeat.contrib.web.site import Ask

_LONGEST = 1000


def show(ask: Ask) -> Response:
    """Ask for name and password."""
    return ask.show("login.html", next=_way(ask.query.get("next", "")), name="", problem="")


def enter(ask: Ask) -> Response:
    """Begin a new session, so that one from before is of no use to anybody."""
    name, password = ask.form.get("name", ""), ask.form.get("password", "")
    way = _way(ask.form.get("next", ""))
    auth = ask.site.auth
    found = None
    if auth is not None and len(password) <= _LONGEST:
        found = auth.login(name, password)
    if found is None:
        text = "There is no such user with that password."
        return ask.show("login.html", 403, next=way, name=name, problem=text)
    ask.session = Session(found.name)
    path, _, query = way.partition("?")
    response = ask.go(path)
    if query:
        response.headers["location"] = f"{ask.at(path)}?{query}"
    return response


def leave(ask: Ask) -> Response:
    """End the session."""
    ask.session = Session()
    return ask.go("/login")


def _way(path: str) -> str:
    """Where to go afterwards: a page of this app, never one elsewhere."""
    inside = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if inside else "/"
