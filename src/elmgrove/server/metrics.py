"""Metrics of the server: what it did since it started, and what it holds, for Prometheus."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import prometheus_client
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmgrove.errors import StoreUnavailable
from elmgrove.server.auth import require_admin
from elmgrove.server.problems import ThrottledLog
from elmgrove.server.store.database import Database, Transaction
from elmgrove.server.store.fleet import FLEET_STATES, FederationStatistics
from elmgrove.server.store.store import Store

log = logging.getLogger("elmgrove.server")


class StoreMetrics(Collector):
    """Tells what the store holds, counted at most every few seconds, however many ask."""

    #: Seconds for which a count is told again.
    FRESH = 5.0

    def __init__(self) -> None:
        self._held: dict[str, FederationStatistics] | None = None
        self._text, self._until = b"", 0.0
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._lock = asyncio.Lock()

    async def text(self, store: Store) -> bytes:
        """Write down what is held, if that was not just done; one caller at a time."""
        async with self._lock:
            if time.monotonic() >= self._until:
                try:
                    self._held = await store.fleet.statistics()
                except StoreUnavailable:
                    self._held = None
                # With many federations that takes a while, in which others are answered.
                self._text = await asyncio.to_thread(generate_latest, self._registry)
                self._until = time.monotonic() + self.FRESH
            return self._text

    def describe(self) -> list[Metric]:
        """Name nothing beforehand: what there is, is known once it was counted."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "elmgrove_server_store_up",
            "Whether the data base could be asked.",
            value=float(self._held is not None),
        )
        if self._held is None:
            return
        federations = {name: one for name, one in self._held.items() if name}
        yield GaugeMetricFamily(
            "elmgrove_server_federations", "Federations.", value=len(federations)
        )
        for family, name, meaning, what in (
            (Gauge, "devices_drifting", "Devices whose normal has changed.", "drifts"),
            (Gauge, "commands_waiting", "Commands that devices have not done yet.", "commands"),
            (Gauge, "contributions", "Devices whose contribution is held.", "contributions"),
            (Gauge, "contributed_rows", "Rows behind the contributions held.", "rows"),
            (Gauge, "contributed_bytes", "Bytes of the contributions held.", "size"),
            (
                Gauge,
                "contributed_timestamp_seconds",
                "When the newest contribution held came, in seconds since 1970.",
                "received",
            ),
            (Counter, "entries", "Entries that were ever stored.", "stored"),
        ):
            values = {(one,): getattr(held, what) for one, held in federations.items()}
            yield _labelled(family, name, meaning, ("federation",), values)
        recorded = {(name,): one.recorded for name, one in self._held.items()}
        meaning = "Records of the audit that were ever written."
        yield _labelled(Counter, "audit_records", meaning, ("federation",), recorded)
        keys = {
            (name, key): getattr(one, key)
            for name, one in federations.items()
            for key in ("valid", "revoked")
        }
        yield _labelled(Gauge, "devices", "Devices that joined.", ("federation", "key"), keys)
        states = {
            (name, state): one.states.get(state, 0)
            for name, one in federations.items()
            for state in FLEET_STATES
        }
        meaning = "Devices by state, as they last reported."
        yield _labelled(Gauge, "devices_by_state", meaning, ("federation", "state"), states)


def _labelled(
    kind: type[Gauge | Counter],
    name: str,
    meaning: str,
    labels: tuple[str, ...],
    values: Mapping[Any, float | None],
) -> Metric:
    family = GaugeMetricFamily if kind is Gauge else CounterMetricFamily
    made = family(f"elmgrove_server_{name}", meaning, labels=labels)
    for which, value in values.items():
        if value is not None:
            made.add_metric(which, value)
    return made


#: What Prometheus and its kin read.
TEXT = "text/plain; version=0.0.4; charset=utf-8"

# When a series began is one more series of each, which nobody asks for. (The function is untyped.)
_library: Any = prometheus_client
_library.disable_created_metrics()


class ServerMetrics:
    def __init__(self, *, is_open: bool = False) -> None:
        self.is_open = is_open
        self._registry = CollectorRegistry()
        counter = partial(Counter, registry=self._registry)
        gauge = partial(Gauge, registry=self._registry)
        histogram = partial(
            Histogram,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
            registry=self._registry,
        )
        self.requests = counter(
            "elmgrove_server_requests",
            "Requests that were answered, by the class of the answer's status.",
            ["route", "method", "status"],
        )
        meaning = "Seconds from a request's head to the end of its answer."
        self.seconds = histogram("elmgrove_server_request_seconds", meaning, ["route"])
        self.at_work = gauge("elmgrove_server_requests_at_work", "Requests at work now.")
        meaning = "Requests that were refused, by the kind of problem."
        self.refused = counter("elmgrove_server_refused", meaning, ["kind"])
        self.received = counter("elmgrove_server_received_bytes", "Bytes of requests' bodies.")
        self.sent = counter("elmgrove_server_sent_bytes", "Bytes of answers' bodies.")
        meaning = "Seconds that the data base took for an operation."
        self.store_seconds = histogram("elmgrove_server_store_seconds", meaning, ["operation"])
        meaning = "Operations that the data base failed at."
        self.store_errors = counter("elmgrove_server_store_errors", meaning, ["operation"])
        for operation in ("read", "write", "snapshot"):
            self.store_errors.labels(operation)
        self._held = StoreMetrics()
        self.writes = Writes()
        ProcessCollector(registry=self._registry)

    def watched(self, store: Store) -> Store:
        return Store(WatchedDatabase(store.database, self))

    async def text(self, store: Store) -> bytes:
        """Write all numbers down; without what the store holds, while it can't be asked."""
        held = await self._held.text(store)
        return generate_latest(self._registry) + held


async def show(request: Request) -> Response:
    """Return the server's metrics as Prometheus reads them."""
    metrics: ServerMetrics = request.app.state.metrics
    if not metrics.is_open:
        await require_admin(request)
    return Response(await metrics.text(request.app.state.service.store), media_type=TEXT)


class Metered:
    """An application that counts what goes through to another one."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self._app, self._metrics = app, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        metrics, state = self._metrics, scope.setdefault("state", {})
        # What fails before an answer began is answered outside of this.
        status, began = 500, time.perf_counter()
        headers = Headers(scope=scope)
        is_unread = headers.get("content-length", "0") != "0" or "transfer-encoding" in headers

        async def counted_receive() -> Message:
            nonlocal is_unread
            message = await receive()
            is_unread = message.get("more_body", False)
            metrics.received.inc(len(message.get("body", b"")))
            return message

        async def counted_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                if is_unread:  # then the connection is of no more use: the caller must know
                    MutableHeaders(scope=message)["Connection"] = "close"
            metrics.sent.inc(len(message.get("body", b"")))
            await send(message)

        try:
            with metrics.at_work.track_inprogress():
                await self._app(scope, counted_receive, counted_send)
        except Exception:
            state["refused"] = "internal"
            raise
        finally:
            seconds, route = time.perf_counter() - began, state.get("route", "none")
            metrics.seconds.labels(route).observe(seconds)
            # A method that HTTP does not know would be one more series for each caller's idea.
            method = scope["method"] if "route" in state else "none"
            metrics.requests.labels(route, method, f"{status // 100}xx").inc()
            if "refused" in state:
                metrics.refused.labels(state["refused"]).inc()
            asked = (scope["client"], scope["method"], scope["path"], status, seconds)
            log.debug("%s %s %s: %s in %.3f s", *asked)


class WatchedDatabase:
    """A data base whose transactions are timed, and whose failures are counted."""

    def __init__(self, database: Database, metrics: ServerMetrics) -> None:
        self._database, self._metrics = database, metrics

    def read(self) -> AbstractAsyncContextManager[Transaction]:
        return self._watched("read", self._database.read())

    def snapshot(self) -> AbstractAsyncContextManager[Transaction]:
        return self._watched("snapshot", self._database.snapshot())

    def write(self, federation: str) -> AbstractAsyncContextManager[Transaction]:
        return self._watched("write", self._database.write(federation))

    async def close(self) -> None:
        await self._database.close()

    @asynccontextmanager
    async def _watched(
        self, operation: str, opened: AbstractAsyncContextManager[Transaction]
    ) -> AsyncIterator[Transaction]:
        is_write = operation == "write"
        try:
            with self._metrics.store_seconds.labels(operation).time():
                async with opened as tx:
                    yield tx
        except StoreUnavailable as error:
            self._metrics.store_errors.labels(operation).inc()
            if is_write:
                self._metrics.writes.note(error)
            raise
        if is_write:
            self._metrics.writes.note(None)


class Writes:
    """Whether the last write to the store worked, and why not."""

    def __init__(self) -> None:
        self._failure: StoreUnavailable | None = None
        self._tried_at = 0.0
        self._log = ThrottledLog()

    def note(self, failure: StoreUnavailable | None) -> None:
        """Take note of how a write went; one line a minute where they fail."""
        self._failure = failure
        if failure is not None:
            self._log.warn("Writes to the store fail", failure, logging.ERROR)

    async def require_working(self, store: Store) -> None:
        """Raise ``StoreUnavailable`` where the last write failed and another one fails as well."""
        if self._failure is None:
            return
        now = time.monotonic()
        if now - self._tried_at < 1.0:
            raise StoreUnavailable(str(self._failure), self._failure.reason)
        self._tried_at = now
        await store.try_write()
