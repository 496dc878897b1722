"""Exchange servers as processes of their own, on empty data bases that vanish afterwards."""

import asyncio
import secrets
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.exchange.client import Answer, Connection, DeviceConnection
from benchmarks.exchange.process import Running, started
from elmgrove.errors import require_extra

_PATIENCE = 120.0


class Server:
    """``elmgrove serve`` on a port of this machine."""

    def __init__(self, running: Running, port: int) -> None:
        self.running = running
        self.port = port

    def wait(self) -> None:
        """Waits until the server and its data base answer."""
        end = time.monotonic() + _PATIENCE
        while not asyncio.run(self._is_ready()):
            self.running.require_alive()
            if time.monotonic() > end:
                raise TimeoutError(f"the server on port {self.port} was not ready in time")
            time.sleep(0.01)

    def sum_up(self) -> None:
        """Asks for a merged sum, for which a server that just started reads everything."""
        status = asyncio.run(self._merged()).status
        if status != 200:
            raise RuntimeError(f"the server answered {status} where a sum was asked for")

    async def _merged(self) -> Answer:
        async with DeviceConnection(0, self.port) as connection:
            return await connection.merged()

    async def _is_ready(self) -> bool:
        try:
            async with Connection(self.port, "") as connection:
                return (await connection.ask("GET", "/ready")).status == 200
        except OSError:
            return False


@contextmanager
def serving(store: str, folder: Path) -> Iterator[Server]:
    """Starts a server; it may not listen yet."""
    with _free_port() as port:
        options = ["--store", store, "--port", str(port), "--log-level", "warning"]
        options += ["--admin-token-file", str(folder / "admin")]
        with started(["serve", *options], folder / f"server-{port}.log") as running:
            yield Server(running, port)


@contextmanager
def postgres_database(server: str) -> Iterator[str]:
    """Makes an empty data base on a PostgreSQL server and gives its URL; drops it afterwards."""
    name = f"elmgrove_bench_{secrets.token_hex(4)}"
    asyncio.run(_query(server, f"CREATE DATABASE {name}"))
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        asyncio.run(_query(server, f"DROP DATABASE {name} WITH (FORCE)"))


def database(store: str) -> str:
    """Names the data base, and whether it waits for the disk, which decides how fast writes are."""
    if not store.startswith("postgresql://"):
        return f"SQLite {sqlite3.sqlite_version}"
    settings = ("server_version", "fsync", "synchronous_commit")
    version, fsync, commit = (asyncio.run(_query(store, f"SHOW {name}"))[0][0] for name in settings)
    return f"PostgreSQL {version}, fsync {fsync}, synchronous_commit {commit}"


def megabytes(store: str) -> float:
    """Gives the size of a store on disk, in MB, with journals (SQLite) or indexes (PostgreSQL)."""
    if store.startswith("postgresql://"):
        rows = asyncio.run(_query(store, "SELECT pg_database_size(current_database())"))
        return float(rows[0][0]) / 1e6
    path = Path(store)
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 1e6


async def _query(url: str, statement: str) -> list[Any]:
    asyncpg = require_extra("asyncpg", "server")
    connection = await asyncpg.connect(url)
    try:
        return list(await connection.fetch(statement))
    finally:
        await connection.close()


@contextmanager
def _free_port() -> Iterator[int]:
    """A port that the system gives to nobody else meanwhile; a server may still listen there."""
    with closing(socket.socket()) as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", 0))
        yield int(free.getsockname()[1])
