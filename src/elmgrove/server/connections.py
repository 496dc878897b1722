"""Where the server listens, and the deadlines of connections."""

import asyncio
import importlib
import logging
import os
import socket
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator
from enum import IntEnum, auto
from functools import partial
from time import monotonic
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from elmgrove.errors import BadInput
from elmgrove.server.limits import CHUNK, Limits, network_of, throttled_log

# What uvicorn warns of here, anybody can make it warn of, a thousand times a second.
_errors = logging.getLogger("uvicorn.error.connections")
_errors.setLevel(logging.ERROR)


class Stage(IntEnum):
    """What a connection waits for; in this order they are shed."""

    CLOSING = auto()
    """Until it is closed: what it was sent last is still on its way."""
    STRANGER = auto()
    """For the head of a request, and none with a valid secret came before."""
    KNOWN = auto()
    """For the head of a request, after one with a valid secret."""
    STALLED = auto()
    """For its caller to read on."""


class Connection(H11Protocol):
    """A connection as uvicorn has it, which says what it waits for."""

    #: Is done when the connection is open: through TLS, after the handshake.
    opening: asyncio.Task[Any]

    def __init__(
        self,
        config: uvicorn.Config,
        state: ServerState,
        app_state: dict[str, Any],
        connections: "Connections",
        address: str,
    ) -> None:
        super().__init__(config, state, app_state)
        self.logger = _errors
        self.address = address
        self.stage: Stage | None = None
        self._is_open = False
        self._all = connections

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; through TLS this is after the handshake."""
        super().connection_made(transport)
        self._is_open = True
        # The same through TLS, where it would be more.
        transport.set_write_buffer_limits(high=CHUNK)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._all.forget(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has come; where it is the head of a request, nothing is waited for."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._all.leave(self)

    def on_response_complete(self) -> None:
        """Wait for the next request, after an answer."""
        known = "known" in self.scope["state"]
        self._all.enter(self, Stage.KNOWN if known else Stage.STRANGER)
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Leave it to the deadline for the next request, which ends more than silence."""

    def pause_writing(self) -> None:
        """Wait for the caller to read."""
        super().pause_writing()
        self._all.enter(self, Stage.STALLED)

    def resume_writing(self) -> None:
        """Go on, now that the caller has read most of it."""
        super().resume_writing()
        if self.stage is Stage.STALLED:
            self._all.leave(self)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP."""
        throttled_log.warn("Refused what is not HTTP")
        super().send_400_response(msg)

    def close(self) -> None:
        """Close the connection once all that was written is on its way."""
        if self._is_open:
            self.transport.close()
        else:
            self.opening.cancel()

    def abort(self) -> None:
        """Close the connection at once; one that is not open yet is never opened."""
        if self._is_open:
            self.transport.abort()
        else:
            self.opening.cancel()


class Connections:
    """All connections of a server, and which of them waits since when, for what.

    Who comes is let in, and who has waited longest makes room: so connections that never ask for
    anything keep nobody out, from wherever they come.
    """

    def __init__(self, limits: Limits, most: int) -> None:
        self._limits, self._most = limits, most
        self._open: set[Connection] = set()
        self._queues: dict[Stage, OrderedDict[Connection, float]] = {
            stage: OrderedDict() for stage in Stage
        }
        self._strangers: dict[str, OrderedDict[Connection, None]] = defaultdict(OrderedDict)
        self._closed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: Connection) -> None:
        """Take a new one in, which has said nothing yet."""
        self._open.add(connection)
        self.enter(connection, Stage.STRANGER)

    def forget(self, connection: Connection) -> None:
        """Take out one that is closed."""
        self.leave(connection)
        self._open.discard(connection)
        self._closed.set()

    def enter(self, connection: Connection, stage: Stage) -> None:
        """Note that a connection waits from now on."""
        self.leave(connection)
        if connection not in self._open:
            return
        connection.stage = stage
        self._queues[stage][connection] = monotonic()
        if stage is Stage.STRANGER:
            neighbours = self._strangers[connection.address]
            neighbours[connection] = None
            if len(neighbours) > self._limits.connections_by_address:
                self._shed(next(iter(neighbours)))

    def leave(self, connection: Connection) -> None:
        """Note that a connection waits no longer."""
        if connection.stage is None:
            return
        del self._queues[connection.stage][connection]
        if connection.stage is Stage.STRANGER:
            neighbours = self._strangers[connection.address]
            del neighbours[connection]
            if not neighbours:
                del self._strangers[connection.address]
        connection.stage = None

    async def room(self) -> None:
        """Wait until there is room for one more, and makes it where something can be shed."""
        while len(self._open) >= self._most:
            longest = [next(iter(queue)) for queue in self._queues.values() if queue]
            if longest:
                self._shed(longest[0])
            else:
                throttled_log.warn("All connections are at work: others wait")
            self._closed.clear()
            await self._closed.wait()

    def _shed(self, connection: Connection) -> None:
        throttled_log.warn("Shed connections that waited longest without a request")
        self.leave(connection)
        connection.abort()

    async def keep_deadlines(self) -> None:
        """Close what has waited too long, until cancelled."""
        head, answer = self._limits.head_deadline, self._limits.answer_deadline
        while True:
            await asyncio.sleep(min(head, answer, 4.0) / 4)
            for stage in (Stage.STRANGER, Stage.KNOWN):
                for connection in self._overdue(stage, head):
                    connection.close()
                    self.enter(connection, Stage.CLOSING)
            for connection in self._overdue(Stage.STALLED, answer):
                throttled_log.warn("Closed connections whose callers did not read their answers")
                connection.abort()
            for connection in self._overdue(Stage.CLOSING, answer):
                connection.abort()

    def _overdue(self, stage: Stage, deadline: float) -> list[Connection]:
        """Those that wait too long, who leave their queue."""
        queue, found, before = self._queues[stage], [], monotonic() - deadline
        while queue and next(iter(queue.values())) <= before:
            found.append(next(iter(queue)))
            self.leave(found[-1])
        return found


resource: Any = importlib.import_module("resource") if os.name == "posix" else None
log = logging.getLogger("uvicorn.error")

#: Files that are not connections: the data base's, logs, libraries, and sockets about to close.
RESERVE = 128


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
        """Start the application, and listens as soon as it can answer."""
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
            one.listen(2048)
            self._listening[one] = asyncio.create_task(self._accept(one))
            self._listening[one].add_done_callback(self._ended)
            scheme, where = "https" if self.config.ssl else "http", one.getsockname()
            log.info("The exchange is running on %s://%s port %d", scheme, *where[:2])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and lets those at work end; deadlines hold until then."""
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
        """End a server that would be deaf from now on: what started it can start it again."""
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
                throttled_log.warn("Could not take connections", error)
                await asyncio.sleep(0.1)
                continue
            self._open(taken, address)
            accepted += 1
            if accepted % 16 == 0:
                await asyncio.sleep(0)

    def _open(self, taken: socket.socket, address: str) -> None:
        connection = Connection(
            self.config,
            self.server_state,
            self.lifespan.state,
            self._connections,
            network_of(address),
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
            throttled_log.warn("Closed connections in their TLS handshake", failed)
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
