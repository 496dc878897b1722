"""What the store holds as metrics: of each federation, and if asked for of each device."""

import asyncio
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from elmgrove.server.store import FLEET_STATES, Store, StoreUnavailable, Tally

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
        "Devices by how they are doing, as far as they told.",
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
    yield _gauge("errands_waiting", "Errands that devices have not done yet.", each("errands"))
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
