"""Who is logged in, kept in a signed cookie: nothing is stored on the server."""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from itsdangerous import BadData, URLSafeTimedSerializer

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

COOKIE = "dbbeat_session"
_HOURS = 12 * 3600


def _token() -> str:
    return secrets.token_urlsafe(24)


@dataclass(frozen=True, slots=True)
class Session:
    """A visit. `token` has to come with each write; `said` is shown once, on the next page."""

    user: str | None = None
    said: str = ""
    token: str = field(default_factory=_token)


class Sessions:
    """Reads and writes the cookie."""

    def __init__(self, secret: str) -> None:
        self._signer = URLSafeTimedSerializer(secret, salt="celery-dbbeat-web-session")

    def read(self, request: Request) -> Session:
        """The visit; a new one where the cookie is missing, too old, or not ours."""
        try:
            known = self._signer.loads(request.cookies.get(COOKIE, ""), max_age=_HOURS)
            return Session(known["user"], known["said"], known["token"])
        except (BadData, KeyError, TypeError):
            return Session()

    def write(self, request: Request, response: Response, session: Session) -> None:
        """Have the browser keep it, for this server's own pages only."""
        response.set_cookie(
            COOKIE,
            str(self._signer.dumps(asdict(session))),
            max_age=_HOURS,
            path=request.scope.get("root_path", "") or "/",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",
        )
