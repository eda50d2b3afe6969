"""Somebody with a browser without scripts."""

import re
from html.parser import HTMLParser
from typing import Any

from httpx2 import Response
from starlette.testclient import TestClient
from starlette.types import ASGIApp

PASSWORDS = {"ada": "lovelace 1843", "bob": "ross 1942"}


class _Form(HTMLParser):
    """The values of the form with this id, as a browser would send them."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.values: dict[str, str] = {}
        self._action = action
        self._inside = False
        self._text: str | None = None
        self._select: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._inside = given.get("action", "").endswith(self._action)
        if not self._inside:
            return
        if tag == "input" and given.get("type") != "checkbox" and "name" in given:
            self.values[given["name"]] = given.get("value", "")
        elif tag == "textarea":
            self._text = given["name"]
            self.values[self._text] = ""
        elif tag == "select":
            self._select = given["name"]
        elif tag == "option" and self._select and "selected" in given:
            self.values[self._select] = given.get("value", "\0")

    def handle_data(self, data: str) -> None:
        if self._text:
            self.values[self._text] += data.removeprefix("\n")
        elif self._select and self.values.get(self._select) == "\0":
            self.values[self._select] = data

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._text = None
        elif tag == "select":
            self._select = None
        elif tag == "form":
            self._inside = False


def form(page: Response, action: str) -> dict[str, str]:
    """What a browser would send of the form with that action."""
    parser = _Form(action)
    parser.feed(page.text)
    assert parser.values, f"there is no form for {action} in {page.text}"
    return parser.values


class Visitor(TestClient):
    """Looks at pages and sends their forms."""

    def __init__(self, app: ASGIApp, prefix: str = "", **how: Any) -> None:  # noqa: ANN401 - TestClient's
        super().__init__(app, **how)
        self.prefix = prefix

    def look(self, path: str, status: int = 200, **query: Any) -> Response:  # noqa: ANN401 - whatever is asked
        """A page."""
        page = self.get(self.prefix + path, params=query)
        assert page.status_code == status, page.text
        return page

    def token(self) -> str:
        """The token of the session."""
        found = re.search(r'name="csrf" value="([^"]+)"', self.get(self.prefix + "/login").text)
        assert found
        return found[1]

    def submit(self, path: str, status: int = 200, **values: Any) -> Response:  # noqa: ANN401 - whatever is sent
        """Send a form with the session's token; redirects are followed."""
        page = self.post(self.prefix + path, data={"csrf": self.token(), **values})
        assert page.status_code == status, page.text
        return page

    def log_in(self, name: str, password: str | None = None, status: int = 200) -> Response:
        """Say who it is."""
        values = {"name": name, "password": password or PASSWORDS.get(name, "")}
        return self.submit("/login", status, **values)
