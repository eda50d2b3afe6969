"""A small HTTP server on a thread of its own: what it serves, and nothing else.

It answers GET and HEAD on the paths it was given, and 404 on all others. It binds the address it
was told, and says clearly when it cannot. A client that is slow or silent is let go after a few
seconds, and holds up no other; so many at once are served, and no more.
"""

import json
import logging
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from celery_dbbeat.errors import SettingsError

logger = logging.getLogger(__name__)

_PATIENCE = 5.0
_MOST_AT_ONCE = 16
#: How long closing takes.
_LOOK_EVERY = 0.2


@dataclass(frozen=True, slots=True)
class Answer:
    """What a path says."""

    status: HTTPStatus
    content_type: str
    body: bytes


def said(yes: bool, **facts: object) -> Answer:  # noqa: FBT001 - the only thing it is about
    """Yes or no, to a probe, with the facts for people."""
    status = HTTPStatus.OK if yes else HTTPStatus.SERVICE_UNAVAILABLE
    return Answer(status, "application/json", json.dumps(facts).encode() + b"\n")


#: From the Accept header of who asks.
Route = Callable[[str], Answer]


def split_address(address: str) -> tuple[str, int]:
    """The host, without brackets, and the port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


class Server:
    """Serves from when it was made until it is closed."""

    def __init__(self, setting: str, address: str, routes: Mapping[str, Route]) -> None:
        """Bind the address, the value of this setting; raise SettingsError where that fails."""
        host, port = split_address(address)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            self._http = _Http((host, port), family, routes)
        except OSError as error:
            raise SettingsError(
                f"{setting} is {address!r}, which cannot be served: {error}; allowed is an address "
                "of this machine and a port that nothing else listens on, or port 0 for any"
            ) from error
        self.port = int(self._http.server_address[1])
        thread = threading.Thread(
            target=self._http.serve_forever,
            args=(_LOOK_EVERY,),
            name=f"celery-dbbeat {setting}",
            daemon=True,
        )
        thread.start()
        shown = f"[{host}]" if ":" in host else host
        logger.info("serving %s on http://%s:%d", ", ".join(routes), shown, self.port)

    def abandon(self) -> None:
        """Let go of the address, in a process forked from the one that serves it."""
        self._http.socket.close()

    def close(self) -> None:
        """Serve no longer."""
        self._http.shutdown()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(
        self, address: tuple[str, int], family: socket.AddressFamily, routes: Mapping[str, Route]
    ) -> None:
        self.address_family = family
        self.routes = routes
        self._room = threading.BoundedSemaphore(_MOST_AT_ONCE)
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # Not as HTTPServer has it, which asks the DNS for a name that nobody needs.
        TCPServer.server_bind(self)

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library has it
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as the library has it
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - as the library has it
        level = logging.DEBUG if isinstance(sys.exc_info()[1], OSError) else logging.WARNING
        logger.log(level, "a request from %s failed", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    server_version = "celery-dbbeat"
    sys_version = ""
    timeout = _PATIENCE

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        route = self.server.routes.get(self.path.partition("?")[0])
        if route is None:
            known = ", ".join(self.server.routes)
            text = f"There is only {known} here.\n".encode()
            answer = Answer(HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", text)
        else:
            answer = route(self.headers.get("Accept", ""))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library calls it
        logger.debug(format, *args)
