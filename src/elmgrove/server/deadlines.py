"""Deadlines of connections: what each one waits for, and who is shed where there is no room."""

import asyncio
import logging
from collections import OrderedDict, defaultdict
from enum import IntEnum, auto
from time import monotonic
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from elmgrove.server.limits import CHUNK, Limits, seldom

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
        """Begins; through TLS this is after the handshake."""
        super().connection_made(transport)
        self._is_open = True
        # The same through TLS, where it would be more.
        transport.set_write_buffer_limits(high=CHUNK)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends."""
        self._all.forget(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Takes what has come; where it is the head of a request, nothing is waited for."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self._all.leave(self)

    def on_response_complete(self) -> None:
        """Waits for the next request, after an answer."""
        known = "known" in self.scope["state"]
        self._all.enter(self, Stage.KNOWN if known else Stage.STRANGER)
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Leaves it to the deadline for the next request, which ends more than silence."""

    def pause_writing(self) -> None:
        """Waits for the caller to read."""
        super().pause_writing()
        self._all.enter(self, Stage.STALLED)

    def resume_writing(self) -> None:
        """Goes on, now that the caller has read most of it."""
        super().resume_writing()
        if self.stage is Stage.STALLED:
            self._all.leave(self)

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP."""
        seldom.warn("Refused what is not HTTP")
        super().send_400_response(msg)

    def close(self) -> None:
        """Closes the connection once all that was written is on its way."""
        if self._is_open:
            self.transport.close()
        else:
            self.opening.cancel()

    def abort(self) -> None:
        """Closes the connection at once; one that is not open yet is never opened."""
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
        """Takes a new one in, which has said nothing yet."""
        self._open.add(connection)
        self.enter(connection, Stage.STRANGER)

    def forget(self, connection: Connection) -> None:
        """Takes out one that is closed."""
        self.leave(connection)
        self._open.discard(connection)
        self._closed.set()

    def enter(self, connection: Connection, stage: Stage) -> None:
        """Notes that a connection waits from now on."""
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
        """Notes that a connection waits no longer."""
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
        """Waits until there is room for one more, and makes it where something can be shed."""
        while len(self._open) >= self._most:
            longest = [next(iter(queue)) for queue in self._queues.values() if queue]
            if longest:
                self._shed(longest[0])
            else:
                seldom.warn("All connections are at work: others wait")
            self._closed.clear()
            await self._closed.wait()

    def _shed(self, connection: Connection) -> None:
        seldom.warn("Shed connections that waited longest without a request")
        self.leave(connection)
        connection.abort()

    async def keep_deadlines(self) -> None:
        """Closes what has waited too long, until cancelled."""
        head, answer = self._limits.head_deadline, self._limits.answer_deadline
        while True:
            await asyncio.sleep(min(head, answer, 4.0) / 4)
            for stage in (Stage.STRANGER, Stage.KNOWN):
                for connection in self._overdue(stage, head):
                    connection.close()
                    self.enter(connection, Stage.CLOSING)
            for connection in self._overdue(Stage.STALLED, answer):
                seldom.warn("Closed connections whose callers did not read their answers")
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
