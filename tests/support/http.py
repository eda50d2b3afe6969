"""Ask a server as probes and Prometheus do."""

import json
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any


@dataclass(frozen=True)
class Asked:
    """An answer."""

    status: int
    content_type: str
    text: str

    @property
    def json(self) -> dict[str, Any]:
        """What it says, to a program."""
        answer: dict[str, Any] = json.loads(self.text)
        return answer


def ask(
    port: int,
    path: str,
    method: str = "GET",
    host: str = "127.0.0.1",
    timeout: float = 5,
    **headers: str,
) -> Asked:
    """Ask, by a connection of its own."""
    connection = HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        kind = answer.getheader("Content-Type", "")
        return Asked(answer.status, kind, answer.read().decode())
    finally:
        connection.close()


def status(port: int, path: str) -> int | None:
    """What it answers with; None where nothing does."""
    try:
        return ask(port, path, timeout=2).status
    except OSError:
        return None
