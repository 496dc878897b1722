"""Metrics of an agent: rows, scores, events, syncs and outages, for Prometheus."""

import logging
import math
import socket
import socketserver
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from elmgrove.detector.decision import CHANGING, LEARNING, WATCHING
from elmgrove.detector.events import OPENED
from elmgrove.device.background_sync import BackgroundSync
from elmgrove.device.input_health import InputHealth
from elmgrove.device.output import Observation
from elmgrove.errors import BadInput, require_extra
from elmgrove.federation.member import Member
from elmgrove.federation.report import QUANTILES

if TYPE_CHECKING:
    from elmgrove.device.agent import Saving

log = logging.getLogger("elmgrove.device")

#: The last rows whose scores the quantiles are of.
SCORES = 1000
_PREFIX = "elmgrove_agent_"
_COUNTED = {
    "rows_read": "Rows that were judged since the agent started.",
    "rows_left_out": "Rows that could not be used since the agent started.",
    "rows_anomalous": "Rows above the threshold since the agent started.",
    "events": "Events that opened since the agent started.",
    "syncs": "Syncs that went well since the agent started.",
    "sync_failures": "Syncs that failed since the agent started.",
}
_MEASURED = {
    "rows_learned": "Rows that were learned since the device was made.",
    "rows_missing": "Rows that are missing until there are alarms.",
    "rows_quarantined": "Anomalous rows that wait in quarantine.",
    "threshold": "The score above which a row is anomalous.",
    "event_open": "Whether an event is open.",
    "drift": "Whether rows have changed for good, and nobody has answered.",
    "unreadable": "Whether less than half of the last rows could be used.",
    "others": "Other devices that this one knows of.",
    "synced_timestamp_seconds": "When the last sync that went well ended, in seconds since 1970.",
    "saved_timestamp_seconds": "When the state was last saved, in seconds since 1970.",
    "disk_trouble": "Whether what is learned can't be saved now.",
}


class AgentMetrics:
    """Shows how an agent is doing, at an address of its own, to all who reach that.

    Rows are counted one by one. What else there is, the agent's own thread looks at once a second,
    between two rows: who asks never waits for the agent, nor the agent for them.
    """

    def __init__(self, address: str, timeout: float = 10.0) -> None:
        self._lock = Lock()
        self._counts = Counter(dict.fromkeys(_COUNTED, 0))
        self._measured: dict[str, float] = {}
        # Before the agent has its first rows, it is in no state of a detector.
        self._state = "waiting"
        self._scores = deque[float](maxlen=SCORES)
        self._sum = 0.0
        self._looked = -math.inf
        # Only here: an extra, which a device without metrics need not have.
        library: Any = require_extra("prometheus_client", "metrics")
        self._families: Any = require_extra("prometheus_client.core", "metrics")
        registry = library.CollectorRegistry()
        registry.register(self)
        handler = library.MetricsHandler.factory(registry)
        # Seconds of silence after which a client is hung up on.
        handler.timeout = timeout
        host, _, port = address.rpartition(":")
        try:
            self._server = _Server((host.strip("[]"), int(port)), handler)
        except OSError as error:
            raise BadInput(
                f"metrics: {address}: {error.strerror}; choose another address"
            ) from error
        Thread(target=self._server.serve_forever, name="elmgrove-metrics", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def observe(self, seen: Observation) -> None:
        verdict = seen.verdict
        if verdict is None:
            return
        with self._lock:
            self._counts["rows_read"] += 1
            self._counts["rows_anomalous"] += verdict.anomalous
            self._counts["events"] += sum(one.kind == OPENED for one in seen.updates)
            if math.isfinite(verdict.score):
                self._scores.append(verdict.score)
                self._sum += verdict.score

    def look(
        self, member: Member, health: InputHealth, saving: "Saving", sync: BackgroundSync | None
    ) -> None:
        now = time.monotonic()
        if now - self._looked < 1.0:
            return
        self._looked = now
        measured = _measured(member, health, saving)
        with self._lock:
            self._counts["rows_left_out"] = health.left_out
            if sync is not None:
                self._counts["syncs"], self._counts["sync_failures"] = sync.succeeded, sync.failed
                measured["synced_timestamp_seconds"] = sync.succeeded_at
            self._state, self._measured = member.detector.state, measured

    def collect(self) -> Iterator[Any]:
        with self._lock:
            counts, measured, state = dict(self._counts), dict(self._measured), self._state
            scores, total = list(self._scores), self._sum
        made = self._families
        for name, meaning in _COUNTED.items():
            yield made.CounterMetricFamily(_PREFIX + name, meaning, value=counts[name])
        for name, value in measured.items():
            if math.isfinite(value):
                yield made.GaugeMetricFamily(_PREFIX + name, _MEASURED[name], value=value)
        meaning = "1 for the state that the agent is in."
        states = made.GaugeMetricFamily(f"{_PREFIX}state", meaning, labels=["state"])
        for one in ("waiting", LEARNING, WATCHING, CHANGING):
            states.add_metric([one], float(one == state))
        yield states
        meaning = f"Scores: quantiles of the last {SCORES} rows, number and sum of all."
        summary = made.Metric(f"{_PREFIX}score", meaning, "summary")
        for quantile in QUANTILES if scores else ():
            value = float(np.quantile(scores, quantile))
            summary.add_sample(summary.name, {"quantile": f"{quantile:g}"}, value)
        summary.add_sample(f"{summary.name}_count", {}, counts["rows_read"])
        summary.add_sample(f"{summary.name}_sum", {}, total)
        yield summary


class _Server(socketserver.ThreadingTCPServer):
    """Answers each request in a thread of its own, of which there are few."""

    daemon_threads = allow_reuse_address = True
    #: Connections at once; for one more, the first of them is closed.
    most = 32

    def __init__(self, address: tuple[str, int], handler: Any) -> None:
        self._open = dict[Any, None]()
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, handler)

    def get_request(self) -> Any:
        try:
            return super().get_request()
        except OSError:
            # No more descriptors: trying again at once would take all the time there is.
            time.sleep(0.1)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._open) >= self.most:
            first = next(iter(list(self._open)))
            self._open.pop(first, None)
            with suppress(OSError):  # it hung up itself
                first.shutdown(socket.SHUT_RDWR)
        self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # Clients may hang up at any time.
        log.debug("a connection was lost", exc_info=True)


def _measured(member: Member, health: InputHealth, saving: "Saving") -> dict[str, float]:
    detector, merged = member.detector, member.merged
    return {
        "rows_learned": detector.learned,
        "rows_missing": detector.rows_missing,
        "rows_quarantined": len(detector.quarantine),
        "threshold": detector.threshold,
        "event_open": detector.events.open is not None,
        "drift": detector.drift.report is not None,
        "unreadable": health.unreadable,
        "others": len(member.ledger) if merged is None else merged.devices,
        "saved_timestamp_seconds": saving.saved_at,
        "disk_trouble": saving.fails,
    }
