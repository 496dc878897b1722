"""Metrics of the server: what it did since it started, and what it holds, for Prometheus."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

import prometheus_client
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmgrove.server.auth import require_admin
from elmgrove.server.store import (
    Database,
    Operation,
    Statement,
    Store,
    StoreUnavailable,
    by_device,
)
from elmgrove.server.tally_metrics import TallyMetrics
from elmgrove.server.writes import Writes

T = TypeVar("T")

#: What Prometheus and its kin read.
TEXT = "text/plain; version=0.0.4; charset=utf-8"
#: Where a request is counted that no route takes.
NO_ROUTE = "none"
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_BY_DEVICE = by_device("")

# When a series began is one more series of each, which nobody asks for. (The function is untyped.)
_library: Any = prometheus_client
_library.disable_created_metrics()


class ServerMetrics:
    """All numbers of one server; those of single devices only where that is asked for."""

    def __init__(self, *, by_device: bool = False, is_open: bool = False) -> None:
        self.by_device, self.is_open = by_device, is_open
        registry = self._registry = CollectorRegistry()
        self.requests = Counter(
            "elmgrove_server_requests",
            "Requests that were answered, by the class of the answer's status.",
            ["route", "method", "status"],
            registry=registry,
        )
        self.seconds = Histogram(
            "elmgrove_server_request_seconds",
            "Seconds from a request's head to the end of its answer.",
            ["route"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.at_work = Gauge(
            "elmgrove_server_requests_at_work", "Requests at work now.", registry=registry
        )
        self.connections = Gauge(
            "elmgrove_server_connections", "Connections that are open now.", registry=registry
        )
        self.refused = Counter(
            "elmgrove_server_refused",
            "Requests that were refused, by the kind of problem.",
            ["kind"],
            registry=registry,
        )
        self.received = Counter(
            "elmgrove_server_received_bytes", "Bytes of requests' bodies.", registry=registry
        )
        self.sent = Counter(
            "elmgrove_server_sent_bytes", "Bytes of answers' bodies.", registry=registry
        )
        self.store_seconds = Histogram(
            "elmgrove_server_store_seconds",
            "Seconds that the data base took for an operation.",
            ["operation"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.store_errors = Counter(
            "elmgrove_server_store_errors",
            "Operations that the data base failed at.",
            ["operation"],
            registry=registry,
        )
        for operation in ("read", "write", "stream"):
            self.store_errors.labels(operation)
        self._held = TallyMetrics(by_device)
        self.writes = Writes()
        ProcessCollector(registry=registry)

    def watched(self, store: Store) -> Store:
        """Gives the store, with its data base timed and its failures counted."""
        return Store(WatchedDatabase(store.database, self))

    def see(self, chain: str, actor: str) -> None:
        """Takes note that somebody was let in: of a device, when."""
        if self.by_device and actor.startswith(_BY_DEVICE):
            self._held.seen[chain, actor.removeprefix(_BY_DEVICE)] = time.time()

    async def text(self, store: Store) -> bytes:
        """Writes all numbers down; without what the store holds, while it can't be asked."""
        held = await self._held.text(store)
        return generate_latest(self._registry) + held


async def show(request: Request) -> Response:
    """Gives the server's metrics as Prometheus reads them."""
    metrics: ServerMetrics = request.app.state.metrics
    if not metrics.is_open:
        await require_admin(request)
    return Response(await metrics.text(request.app.state.service.store), media_type=TEXT)


class Metered:
    """An application that counts what goes through to another one."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets the other application answer, and counts how it did."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        metrics, state = self._metrics, scope.setdefault("state", {})
        # What fails before an answer began is answered outside of this.
        status, began = 500, time.perf_counter()

        async def counted_receive() -> Message:
            message = await receive()
            metrics.received.inc(len(message.get("body", b"")))
            return message

        async def counted_send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            metrics.sent.inc(len(message.get("body", b"")))
            await send(message)

        try:
            with metrics.at_work.track_inprogress():
                await self._app(scope, counted_receive, counted_send)
        except Exception:
            state["refused"] = "internal"
            raise
        finally:
            route = state.get("route", NO_ROUTE)
            metrics.seconds.labels(route).observe(time.perf_counter() - began)
            # A method that HTTP does not know would be one more series for each caller's idea.
            method = scope["method"] if "route" in state else NO_ROUTE
            metrics.requests.labels(route, method, f"{status // 100}xx").inc()
            if "refused" in state:
                metrics.refused.labels(state["refused"]).inc()
            if "known" in state:
                metrics.see(*state["known"])


class WatchedDatabase:
    """A data base whose operations are timed, and whose failures are counted."""

    def __init__(self, database: Database, metrics: ServerMetrics) -> None:
        self._database, self._metrics = database, metrics

    async def read(self, operation: Operation[T]) -> T:
        """Runs an operation on one unchanging state; see ``Database``."""
        with self._watched("read"):
            return await self._database.read(operation)

    async def write(self, federation: str, operation: Operation[T]) -> T:
        """Runs an operation alone among the writes to a federation; see ``Database``."""
        with self._watched("write"), self._metrics.writes.noted():
            return await self._database.write(federation, operation)

    def stream(
        self, operation: Operation[T], statement: Statement
    ) -> AbstractAsyncContextManager[tuple[T, AsyncIterator[Any]]]:
        """Gives the rows of one unchanging state, few at a time; see ``Database``."""
        return self._streamed(operation, statement)

    @asynccontextmanager
    async def _streamed(
        self, operation: Operation[T], statement: Statement
    ) -> AsyncIterator[tuple[T, AsyncIterator[Any]]]:
        with self._watched("stream"):
            async with self._database.stream(operation, statement) as opened:
                yield opened

    async def close(self) -> None:
        """Lets every operation end that has begun."""
        await self._database.close()

    @contextmanager
    def _watched(self, operation: str) -> Iterator[None]:
        with self._metrics.store_seconds.labels(operation).time():
            try:
                yield
            except StoreUnavailable:
                self._metrics.store_errors.labels(operation).inc()
                raise
