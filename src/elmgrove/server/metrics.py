"""Metrics of the server: what it did since it started, and what it holds, for Prometheus."""

import asyncio
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
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmgrove.errors import StoreUnavailable
from elmgrove.server.auth import require_admin
from elmgrove.server.retention import Writes
from elmgrove.server.store.audit import by_device
from elmgrove.server.store.database import Database, Operation, Statement
from elmgrove.server.store.fleet import FLEET_STATES, Tally
from elmgrove.server.store.store import Store

#: Seconds for which what the store holds is not counted again, however often that is asked.
FRESH = 5.0
#: The values of a metric, by those of its labels: none, the federation, or a device of it too.
Labelled = dict[tuple[str, ...], float]
_LABELS = ("federation", "device")


class TallyMetrics(Collector):
    """Tells what the store holds, counted at most every few seconds, however many ask."""

    def __init__(self, by_device: bool) -> None:
        #: When each device was last let in by this server: in seconds since 1970.
        self.seen: dict[tuple[str, str], float] = {}
        self._by_device = by_device
        self._tallies: dict[str, Tally] | None = None
        self._text, self._at = b"", -FRESH
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._lock = asyncio.Lock()

    async def text(self, store: Store) -> bytes:
        """Writes down what is held, if that was not just done; one caller at a time."""
        async with self._lock:
            if time.monotonic() - self._at >= FRESH:
                try:
                    self._tallies = await store.tallies(by_device=self._by_device)
                except StoreUnavailable:
                    self._tallies = None
                # With many devices that takes a while, in which others are answered.
                self._text = await asyncio.to_thread(generate_latest, self._registry)
                self._at = time.monotonic()
            return self._text

    def describe(self) -> list[Metric]:
        """Names nothing beforehand: what there is, is known once it was counted."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Gives the numbers of the last count."""
        tallies = self._tallies
        yield _gauge(
            "store_up", "Whether the data base could be asked.", {(): float(tallies is not None)}
        )
        if tallies is None:
            return
        federations = {name: one for name, one in tallies.items() if name}
        yield _gauge("federations", "Federations.", {(): float(len(federations))})
        yield from _of_federations(federations)
        recorded: Labelled = {(name,): float(one.recorded) for name, one in tallies.items()}
        yield _counter("audit_records", "Records of the audit that were ever written.", recorded)
        if self._by_device:
            yield from _of_devices(federations, dict(self.seen))


def _of_federations(tallies: dict[str, Tally]) -> Iterator[Metric]:
    devices = GaugeMetricFamily(
        "elmgrove_server_devices", "Devices that joined.", labels=["federation", "key"]
    )
    for name, tally in tallies.items():
        devices.add_metric([name, "valid"], tally.valid)
        devices.add_metric([name, "revoked"], tally.revoked)
    yield devices
    states = GaugeMetricFamily(
        "elmgrove_server_devices_by_state",
        "Devices by state, as they last reported.",
        labels=["federation", "state"],
    )
    for name, tally in tallies.items():
        for state in FLEET_STATES:
            states.add_metric([name, state], tally.states.get(state, 0))
    yield states

    def each(what: str) -> Labelled:
        found = {name: getattr(tally, what) for name, tally in tallies.items()}
        return {(name,): float(value) for name, value in found.items() if value is not None}

    yield _gauge("devices_drifting", "Devices whose normal has changed.", each("drifts"))
    yield _gauge("commands_waiting", "Commands that devices have not done yet.", each("commands"))
    yield _gauge("contributions", "Devices whose contribution is held.", each("contributions"))
    yield _gauge("contributed_rows", "Rows behind the contributions held.", each("rows"))
    yield _gauge("contributed_bytes", "Bytes of the contributions held.", each("size"))
    yield _gauge(
        "contributed_timestamp_seconds",
        "When the newest contribution held came, in seconds since 1970.",
        each("received"),
    )
    yield _counter("entries", "Entries that were ever stored.", each("stored"))


def _of_devices(tallies: dict[str, Tally], seen: dict[tuple[str, str], float]) -> Iterator[Metric]:
    held = {
        (name, device): found
        for name, tally in tallies.items()
        for device, found in tally.by_device.items()
    }
    yield _gauge(
        "device_rows",
        "Rows behind a device's contribution.",
        {which: rows for which, (rows, _) in held.items()},
    )
    yield _gauge(
        "device_contributed_timestamp_seconds",
        "When a device's contribution came, in seconds since 1970.",
        {which: received for which, (_, received) in held.items()},
    )
    yield _gauge(
        "device_seen_timestamp_seconds",
        "When this server last let a device in, in seconds since 1970.",
        {which: at for which, at in seen.items() if which[0] in tallies},
    )


def _gauge(name: str, meaning: str, values: Labelled) -> Metric:
    return _filled(GaugeMetricFamily, name, meaning, values)


def _counter(name: str, meaning: str, values: Labelled) -> Metric:
    return _filled(CounterMetricFamily, name, meaning, values)


def _filled(
    family: type[GaugeMetricFamily | CounterMetricFamily], name: str, meaning: str, values: Labelled
) -> Metric:
    labels = _LABELS[: len(next(iter(values), ()))]
    made = family(f"elmgrove_server_{name}", meaning, labels=labels)
    for which, value in values.items():
        made.add_metric(which, value)
    return made


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
