"""A TCP proxy in front of a server: the network that a test can break.

It runs in a thread of its own. What it does to connections:

- `heal()`: passes bytes both ways (as at the start). Connections that lost bytes are reset, since
  nothing can repair them; those that were idle go on.
- `cut()`: resets all connections and refuses new ones, as when the machine behind is gone.
- `deaf()`: connections stay open and new ones are accepted, but no byte arrives and no end of a
  connection is noticed, as when a firewall drops the packets.
- `slow(seconds)`: each read is held back for so long, in both directions.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from typing_extensions import Self

from tests.support.server import LOOPBACK, free_port

CHUNK = 64 * 1024
RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(eq=False)
class Link:
    """One client's connection, and ours to the server behind, once there is one."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    lost_bytes: bool = False

    def close(self) -> None:
        """Close both sides in order: what was read is still delivered."""
        for writer in filter(None, (self.client, self.server)):
            writer.close()

    def reset(self) -> None:
        """Close both sides the hard way."""
        for writer in filter(None, (self.client, self.server)):
            plain = writer.get_extra_info("socket")
            if plain is not None and not writer.is_closing():
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            writer.transport.abort()


class Proxy:
    """Stands in front of `host:port`; use it as a context manager."""

    def __init__(self, port: int, host: str = LOOPBACK) -> None:
        self.port = free_port()
        self._target = host, port
        self._links: set[Link] = set()
        self._delay = 0.0
        self._hearing = asyncio.Event()
        self._server: asyncio.Server | None = None

    @classmethod
    def to(cls, url: str) -> "Proxy":
        """A proxy to the server that a URL names."""
        parts = urlsplit(url)
        if parts.hostname is None or parts.port is None:
            raise ValueError(f"a proxy needs a URL with a host and a port, not {url!r}")
        return cls(parts.port, parts.hostname)

    def url(self, url: str) -> str:
        """The same URL, through the proxy."""
        parts = urlsplit(url)
        login, at, _ = parts.netloc.rpartition("@")
        return urlunsplit(parts._replace(netloc=f"{login}{at}{LOOPBACK}:{self.port}"))

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._links)

    def heal(self) -> None:
        """Pass bytes again, at once."""
        self._do(self._set(hearing=True))

    def cut(self) -> None:
        """Reset all connections and refuse new ones."""
        self._do(self._cut())

    def deaf(self) -> None:
        """Keep connections, accept new ones, and swallow every byte."""
        self._do(self._set(hearing=False))

    def slow(self, seconds: float) -> None:
        """Hold each read back for so long."""
        self._do(self._set(hearing=True, delay=seconds))

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.heal()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _set(self, *, hearing: bool, delay: float = 0) -> None:
        await self._listen()
        self._delay = delay
        if not hearing:
            self._hearing.clear()
            return
        self._reset(link for link in self._links if link.lost_bytes)
        self._hearing.set()

    async def _cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self._reset(self._links)
        self._hearing.set()

    def _reset(self, links: Iterable[Link]) -> None:
        for link in list(links):
            link.reset()

    async def _close(self) -> None:
        await self._cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # the transports' last callbacks

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, LOOPBACK, self.port)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(writer)
        self._links.add(link)
        try:
            await self._connect(link, reader)
        except OSError:
            pass  # the server behind refused: so do we
        finally:
            link.close()
            self._links.discard(link)

    async def _connect(self, link: Link, reader: asyncio.StreamReader) -> None:
        if not self._hearing.is_set():
            link.lost_bytes = True
            await self._hearing.wait()
            return
        answers, link.server = await asyncio.open_connection(*self._target)
        directions = [
            asyncio.ensure_future(self._pump(link, reader, link.server)),
            asyncio.ensure_future(self._pump(link, answers, link.client)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()

    async def _pump(
        self, link: Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        try:
            while data := await source.read(CHUNK):
                if self._delay:
                    await asyncio.sleep(self._delay)
                if self._hearing.is_set():
                    sink.write(data)
                    await sink.drain()
                else:
                    link.lost_bytes = True
        except OSError:
            pass  # a reset is an end, too
        await self._hearing.wait()
