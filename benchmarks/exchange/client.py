"""HTTP with next to no cost on this side, so that what is measured is the server."""

import asyncio
from time import perf_counter
from types import TracebackType
from typing import NamedTuple, Self

from benchmarks.exchange.fleet import FEDERATION, key_of, name_of

# Whole answers fit, so that reading one does not stop and start.
_BUFFER = 2**21


class Answer(NamedTuple):
    """What came back, after how long (from the first byte sent to the last one received)."""

    status: int
    etag: str
    size: int
    seconds: float


class Connection:
    """A connection of one device; requests go one after another."""

    def __init__(self, port: int, key: str) -> None:
        self._port = port
        self._key = key

    async def __aenter__(self) -> Self:
        opening = asyncio.open_connection("127.0.0.1", self._port, limit=_BUFFER)
        self._reader, self._writer = await opening
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, *, body: bytes = b"", etag: str = "") -> Answer:
        """Sends a request and reads all of the answer."""
        head = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
        head += [f"Authorization: Bearer {self._key}"] if self._key else []
        head += [f"If-None-Match: {etag}"] if etag else []
        start = perf_counter()
        self._writer.writelines(["\r\n".join([*head, "", ""]).encode(), body])
        await self._writer.drain()
        first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = dict(line.lower().split(": ", 1) for line in lines if line)
        size = int(headers.get("content-length", 0))
        await self._reader.readexactly(size)
        return Answer(int(first.split()[1]), headers.get("etag", ""), size, perf_counter() - start)


class DeviceConnection(Connection):
    """What a device of the fleet sends. Made for one sync: a minute later it would be closed."""

    def __init__(self, device: int, port: int) -> None:
        super().__init__(port, key_of(device))
        self._device = device

    async def put(self, blob: bytes) -> Answer:
        """Publishes a contribution."""
        path = f"/v1/federations/{FEDERATION}/contributions/{name_of(self._device)}"
        return await self.ask("PUT", path, body=blob)

    async def merged(self, etag: str = "") -> Answer:
        """Asks for the sum over all others, unless it is still the one it has."""
        return await self.ask("GET", f"/v1/federations/{FEDERATION}/merged", etag=etag)
