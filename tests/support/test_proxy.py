"""The proxy's ways to break a network, against an echo server."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.proxy import Proxy
from tests.support.server import LOOPBACK
from tests.support.waiting import wait_until


class Echo(socketserver.BaseRequestHandler):
    request: socket.socket

    def handle(self) -> None:
        with suppress(ConnectionResetError):
            while data := self.request.recv(1024):
                self.request.sendall(data)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with socketserver.ThreadingTCPServer((LOOPBACK, 0), Echo) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        try:
            with Proxy(server.server_address[1]) as proxy:
                yield proxy
        finally:
            server.shutdown()


@pytest.fixture
def client(proxy: Proxy) -> Iterator[socket.socket]:
    with connect(proxy) as client:
        assert ask(client) == b"hello"
        yield client


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection((LOOPBACK, proxy.port), timeout=0.3)


def ask(client: socket.socket, data: bytes = b"hello") -> bytes:
    client.sendall(data)
    return client.recv(1024)


def test_cut_resets_connections_and_refuses_new_ones(proxy: Proxy, client: socket.socket) -> None:
    proxy.cut()
    with pytest.raises(ConnectionResetError):
        ask(client)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)


def test_healed_after_a_cut_it_serves_on_the_same_port(proxy: Proxy, client: socket.socket) -> None:
    proxy.cut()
    proxy.heal()
    with connect(proxy) as again:
        assert ask(again) == b"hello"


def test_deaf_it_accepts_and_never_answers(proxy: Proxy, client: socket.socket) -> None:
    proxy.deaf()
    with connect(proxy) as new:
        for each in (client, new):
            with pytest.raises(TimeoutError):
                ask(each)


def test_healed_after_deafness_only_what_lost_bytes_is_reset(
    proxy: Proxy, client: socket.socket
) -> None:
    with connect(proxy) as idle:
        assert ask(idle) == b"hello"
        proxy.deaf()
        with pytest.raises(TimeoutError):
            ask(client)
        proxy.heal()
        with pytest.raises(ConnectionResetError):
            ask(client)
        assert ask(idle) == b"hello"


def test_deaf_it_hides_the_end_of_a_client(proxy: Proxy, client: socket.socket) -> None:
    proxy.deaf()
    client.close()
    time.sleep(0.1)
    assert proxy.connections == 1
    proxy.heal()
    wait_until(lambda: proxy.connections == 0, 5, "the client's end to be noticed")


def test_slow_holds_bytes_back_both_ways(proxy: Proxy, client: socket.socket) -> None:
    client.settimeout(5)
    proxy.slow(0.2)
    started = time.monotonic()
    assert ask(client) == b"hello"
    assert time.monotonic() - started >= 0.4


def test_a_url_goes_through_the_proxy() -> None:
    url = "postgresql+psycopg://user:secret@db.example:5432/name?sslmode=disable"
    proxy = Proxy.to(url)
    through = f"postgresql+psycopg://user:secret@{LOOPBACK}:{proxy.port}/name?sslmode=disable"
    assert proxy.url(url) == through
