"""The server serves what it was given, where it was told, and nothing holds it up."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http import HTTPStatus

import pytest

from celery_dbbeat.errors import SettingsError
from celery_dbbeat.observe.server import Answer, Server, said, split_address
from tests.support.http import ask
from tests.support.waiting import wait_until


def broken(_: str) -> Answer:
    raise LookupError("broken")


ROUTES = {
    "/live": lambda _: said(yes=True, live=True),
    "/ready": lambda _: said(yes=False, ready=False, reason="no broker"),
    "/echo": lambda accept: Answer(HTTPStatus.OK, "text/plain", accept.encode()),
    "/broken": broken,
}


@pytest.fixture
def server() -> Iterator[Server]:
    with closing(Server("dbbeat_http", "127.0.0.1:0", ROUTES)) as server:
        yield server


def test_yes_and_no(server: Server) -> None:
    live, ready = ask(server.port, "/live"), ask(server.port, "/ready?verbose=1")
    assert (live.status, live.json, live.content_type) == (200, {"live": True}, "application/json")
    assert (ready.status, ready.json) == (503, {"ready": False, "reason": "no broker"})


def test_a_route_sees_what_is_accepted(server: Server) -> None:
    assert ask(server.port, "/echo", Accept="text/plain").text == "text/plain"


@pytest.mark.parametrize("path", ["/", "/metricsx", "/live/", "/..", "/echo/../live"])
def test_all_else_is_not_found(server: Server, path: str) -> None:
    answer = ask(server.port, path)
    assert answer.status == 404
    assert "/live, /ready, /echo, /broken" in answer.text


def test_a_head_has_no_body(server: Server) -> None:
    assert (ask(server.port, "/live", "HEAD").status, ask(server.port, "/live", "HEAD").text) == (
        200,
        "",
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_other_methods_are_not_served(server: Server, method: str) -> None:
    assert ask(server.port, "/live", method).status == 501


def test_a_route_that_fails_is_logged_and_the_others_go_on(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(OSError):  # noqa: PT011 - it just hangs up
        ask(server.port, "/broken")
    wait_until(lambda: "LookupError: broken" in caplog.text)
    assert ask(server.port, "/live").status == 200


def test_silent_clients_hold_up_nobody(server: Server) -> None:
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        assert ask(server.port, "/live").status == 200


def test_it_binds_where_it_was_told_and_nowhere_else(server: Server) -> None:
    with pytest.raises(ConnectionRefusedError):
        ask(server.port, "/live", host="127.0.0.2")


def test_ipv6() -> None:
    with closing(Server("dbbeat_http", "[::1]:0", ROUTES)) as server:
        assert ask(server.port, "/live", host="::1").status == 200


def test_the_port_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    with closing(Server("dbbeat_http", "127.0.0.1:0", ROUTES)) as server:
        assert f"on http://127.0.0.1:{server.port}" in caplog.text
        assert server.port > 0


def test_one_that_is_taken_is_refused(server: Server) -> None:
    address = f"127.0.0.1:{server.port}"
    with pytest.raises(SettingsError) as error:
        Server("dbbeat_worker_http", address, ROUTES)
    said = str(error.value)
    assert said.startswith(f"dbbeat_worker_http is {address!r}, which cannot be served: ")
    assert "Address already in use" in said
    assert "allowed is an address of this machine and a port that nothing else listens on" in said


@pytest.mark.parametrize("address", ["192.0.2.1:0", "no-such-host.invalid:0"])
def test_one_that_is_elsewhere_is_refused(address: str) -> None:
    with pytest.raises(SettingsError, match="which cannot be served"):
        Server("dbbeat_http", address, ROUTES)


def test_after_closing_it_is_free_again(server: Server) -> None:
    server.close()
    with closing(Server("dbbeat_http", f"127.0.0.1:{server.port}", ROUTES)) as again:
        assert ask(again.port, "/live").status == 200


@pytest.mark.parametrize(
    ("address", "parts"), [("h:1", ("h", 1)), ("[::1]:80", ("::1", 80)), (":0", ("", 0))]
)
def test_splitting(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts
