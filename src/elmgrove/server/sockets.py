"""Sockets: where the server listens, and lets connections in as long as there is room."""

import asyncio
import importlib
import logging
import os
import socket
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any

import uvicorn

from elmgrove.errors import BadInput
from elmgrove.server.deadlines import Connection, Connections
from elmgrove.server.limits import CHUNK, Limits, neighbourhood, seldom

resource: Any = importlib.import_module("resource") if os.name == "posix" else None
log = logging.getLogger("uvicorn.error")

#: Files that are not connections: the data base's, logs, libraries, and sockets about to close.
RESERVE = 128
#: Connections that wait for the server to take them, in the system.
BACKLOG = 2048
#: Connections that are let in before others have their turn.
AT_ONCE = 16


class Server(uvicorn.Server):
    """uvicorn's server, with limits and deadlines for connections.

    ``beginning`` is called when its port is its own and it can answer, ``ending`` when it begins
    to end: what waits is to be answered then.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        limits: Limits,
        ending: Callable[[], None] = lambda: None,
        beginning: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._beginning, self._ending = beginning, ending
        self._limits = limits
        self._connections = Connections(limits, _room_for(limits))
        self._listening: dict[socket.socket, asyncio.Task[None]] = {}
        self._others: set[asyncio.Task[Any]] = set()

    @property
    def port(self) -> int | None:
        """The port on which it listens; None while it does not."""
        return next((int(one.getsockname()[1]) for one in self._listening), None)

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts the application, and listens as soon as it can answer."""
        bound = list(_bound(self.config.host, self.config.port))
        try:
            # All but what would listen.
            await super().startup(sockets=[])
        except BaseException:  # it ends here, whatever it was
            for one in bound:
                one.close()
            raise
        self._beginning()
        self._spawn(self._connections.keep_deadlines()).add_done_callback(self._ended)
        for one in bound:
            one.listen(BACKLOG)
            self._listening[one] = asyncio.create_task(self._accept(one))
            self._listening[one].add_done_callback(self._ended)
            scheme, where = "https" if self.config.ssl else "http", one.getsockname()
            log.info("The exchange is running on %s://%s port %d", scheme, *where[:2])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes no more connections, and lets those at work end; deadlines hold until then."""
        self._ending()
        await _cancelled(self._listening.values())
        for one in self._listening:
            one.close()
        await super().shutdown(sockets)
        await _cancelled(self._others)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._others.add(task)
        task.add_done_callback(self._others.discard)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        """Ends a server that would be deaf from now on: what started it can start it again."""
        if not task.cancelled():
            log.critical("The server can't take connections any more", exc_info=task.exception())
            self.should_exit = True

    async def _accept(self, listening: socket.socket) -> None:
        loop, accepted = asyncio.get_running_loop(), 0
        while True:
            await self._connections.room()
            try:
                taken, (address, *_) = await loop.sock_accept(listening)
            except OSError as error:
                # Its caller is gone, or the system has no more files: neither ends a server.
                seldom.warn("Could not take connections", error)
                await asyncio.sleep(0.1)
                continue
            self._open(taken, address)
            accepted += 1
            if accepted % AT_ONCE == 0:
                await asyncio.sleep(0)

    def _open(self, taken: socket.socket, address: str) -> None:
        connection = Connection(
            self.config,
            self.server_state,
            self.lifespan.state,
            self._connections,
            neighbourhood(address),
        )
        encrypted: dict[str, Any] = {}
        if self.config.ssl is not None:
            # No deadline for the handshake alone: that for the first request is one for both.
            patience = self._limits.answer_deadline
            encrypted = {"ssl": self.config.ssl, "ssl_shutdown_timeout": patience}
        connect = asyncio.get_running_loop().connect_accepted_socket
        connection.opening = self._spawn(connect(lambda: connection, taken, **encrypted))
        connection.opening.add_done_callback(partial(self._opened, connection, taken))
        self._connections.add(connection)

    def _opened(
        self, connection: Connection, taken: socket.socket, opening: asyncio.Task[Any]
    ) -> None:
        failed = None if opening.cancelled() else opening.exception()
        if failed is not None:
            seldom.warn("Closed connections in their TLS handshake", failed)
        if failed is not None or opening.cancelled():
            taken.close()
            self._connections.forget(connection)


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    cancelled = list(tasks)
    for task in cancelled:
        task.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


def _room_for(limits: Limits) -> int:
    """How many connections there may be; the system is asked for as many files as they need."""
    if resource is None:
        return limits.connections
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted, endless = limits.connections + RESERVE, resource.RLIM_INFINITY
    if files != endless and files < wanted:
        files = wanted if most == endless else min(most, wanted)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return limits.connections if files == endless else max(1, min(files, wanted) - RESERVE)


def _bound(host: str, port: int) -> Iterator[socket.socket]:
    """Sockets for all addresses that the host stands for, which do not listen yet."""
    try:
        passive = socket.AI_PASSIVE
        for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=passive):
            family, kind, protocol, _, address = found
            one = socket.socket(family, kind, protocol)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                # Otherwise the system takes megabytes for a slow caller, and long says nothing.
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, CHUNK)
            one.bind(address)
            yield one
    except OSError as error:
        raise BadInput(f"can't listen on {host}:{port}: {error.strerror}") from error
