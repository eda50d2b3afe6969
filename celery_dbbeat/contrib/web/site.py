"""From a request to a page: who asks, whether they may, what they sent, what went wrong."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlencode

from celery import Celery
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import ImmutableMultiDict
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from celery_dbbeat.api import Schedules
from celery_dbbeat.contrib.web import words
from celery_dbbeat.contrib.web.session import Session, Sessions
from celery_dbbeat.contrib.web.users import AuthProvider, User
from celery_dbbeat.errors import DatabaseUnavailable, DbbeatError, NotFound

Form = ImmutableMultiDict[str, str]
Handler = Callable[["Ask"], Response]
Endpoint = Callable[[Request], Awaitable[Response]]
Identify = Callable[[Request], User | None]

_MOST_BYTES = 1 << 20
_MOST_FIELDS = 2000
#: Who writes where nobody has to log in.
_SOMEBODY = User("somebody at this machine", editor=True)


@dataclass(frozen=True, slots=True)
class Site:
    """What all pages share. Without `auth` and `identify`, whoever sits at this machine may all."""

    app: Celery
    sessions: Sessions
    auth: AuthProvider | None = None
    identify: Identify | None = None

    def user(self, request: Request, session: Session) -> User | None:
        """Who asks."""
        if self.identify is not None:
            return self.identify(request)
        if self.auth is not None:
            return None if session.user is None else self.auth.find(session.user)
        return _SOMEBODY if _is_here(request) else None


class Ask:
    """One request of one user."""

    def __init__(self, site: Site, request: Request, session: Session, form: Form) -> None:
        self.site = site
        self.request = request
        self.session = session
        self.form = form
        self.user = User("")

    @property
    def query(self) -> ImmutableMultiDict[str, str]:
        """What stands behind the ? of the address."""
        return self.request.query_params

    @property
    def schedules(self) -> Schedules:
        """The schedules, in the name of who asks."""
        return Schedules(self.site.app, user=self.user.name, source="web")

    def at(self, path: str, **query: str | None) -> str:
        """The address of a page, wherever this app is mounted."""
        known = {name: value for name, value in query.items() if value not in {None, ""}}
        root = self.request.scope.get("root_path", "").rstrip("/")
        return f"{root}{path}" + (f"?{urlencode(known)}" if known else "")

    def show(self, template: str, status: int = 200, **names: object) -> Response:
        """A page; everything in it is escaped."""
        said, self.session = self.session.said, replace(self.session, said="")
        page = _TEMPLATES.get_template(template).render(
            ask=self, at=self.at, user=self.user, token=self.session.token, said=said, **names
        )
        return HTMLResponse(page, status)

    def go(self, path: str, said: str = "", **query: str | None) -> Response:
        """On to another page, which says what was done."""
        self.session = replace(self.session, said=said)
        return RedirectResponse(self.at(path, **query), 303)

    def fail(self, status: int, title: str, text: str) -> Response:
        """A page that says what went wrong."""
        return self.show("error.html", status, title=title, text=text)


def endpoint(site: Site, handler: Handler, *, role: str) -> Endpoint:
    """What Starlette calls: `role` is `anybody`, `reader` or `editor`; a POST needs its token."""

    async def answer(request: Request) -> Response:
        session = site.sessions.read(request)
        try:
            form = await _read_form(request)
        except ClientDisconnect:
            return Response(status_code=400)
        # Schedules wait for the database, so they do it in a thread.
        ask = Ask(site, request, session, form or _NO_FORM)
        response = await run_in_threadpool(_answer, ask, handler, role, too_long=form is None)
        site.sessions.write(request, response, ask.session)
        return response

    return answer


def _answer(ask: Ask, handler: Handler, role: str, *, too_long: bool) -> Response:
    if too_long:
        return ask.fail(413, "Too much", f"A form may have {_MOST_BYTES} bytes.")
    refused = _refused(ask, role)
    if refused is not None:
        return refused
    try:
        return handler(ask)
    except DbbeatError as error:
        _, status, title = next(row for row in _FAILURES if isinstance(error, row[0]))
        return ask.fail(status, title, str(error))


def _refused(ask: Ask, role: str) -> Response | None:
    """Why nothing is done for this user, if so."""
    if role != "anybody":
        found = ask.site.user(ask.request, ask.session)
        if found is None:
            return _strangers(ask)
        ask.user = found
        if role == "editor" and not found.editor:
            return ask.fail(403, "Not allowed", f"{found.name} may look, but not write.")
    if ask.request.method == "POST" and not _same(ask.form.get("csrf", ""), ask.session.token):
        text = "The form is too old, or comes from elsewhere. Go back, reload, and send it again."
        return ask.fail(403, "Nothing was done", text)
    return None


def _strangers(ask: Ask) -> Response:
    if ask.site.auth is None:
        text = "The app around this one does not let you in."
        if ask.site.identify is None:
            text = "Without log-in, only this machine may look, as localhost."
        return ask.fail(403, "Not allowed", text)
    wanted = ask.request.url.path + (f"?{ask.request.url.query}" if ask.request.url.query else "")
    known = wanted.removeprefix(ask.at("")) if ask.request.method == "GET" else None
    return ask.go("/login", next=known)


async def _read_form(request: Request) -> Form | None:
    """What was posted; None: too much of it."""
    if request.method != "POST":
        return _NO_FORM
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            return None
    try:
        text = body.decode()
        return Form(parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS))
    except ValueError:
        return _NO_FORM


def _is_here(request: Request) -> bool:
    """Asked from this machine, by a name of this machine: not by a page of somebody else's."""
    return request.client is not None and all(
        is_loopback(host) for host in (request.client.host, request.url.hostname or "")
    )


def is_loopback(host: str) -> bool:
    """Whether that is an address that only this machine reaches."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


_NO_FORM = Form()
_FAILURES: tuple[tuple[type[DbbeatError], int, str], ...] = (
    (NotFound, 404, "Not found"),
    (DatabaseUnavailable, 503, "The database cannot be reached"),
    (DbbeatError, 400, "Nothing was done"),
)
_TEMPLATES = Environment(
    loader=PackageLoader(__package__), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_TEMPLATES.filters |= words.FILTERS
