"""A server under the load of a fleet: requests a second, their times, memory, errors."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.exchange.fleet import HAR, Fleet
from benchmarks.exchange.output import Output, progress
from benchmarks.exchange.server import Server, database, megabytes, postgres_database, serving
from benchmarks.exchange.traffic import Traffic, Uploads

_LEGEND = """
A sync is a PUT of a contribution and a GET of the sum over all others, on a connection of its own.
offered: syncs begin at random moments, whether or not earlier ones have ended. full speed: so many
connections, each with its next sync as soon as the last one ended. Contributions are sealed
beforehand. Client, servers and data base share this machine; what PostgreSQL's own processes use
is not counted."""


@dataclass(frozen=True)
class Plan:
    """How many devices, for how long, how often each, and at how many connections."""

    devices: int
    seconds: float
    interval: float
    connections: int


def measure_load(plan: Plan, postgres: str | None) -> None:
    """Measures SQLite with one server and, where it is available, PostgreSQL with two."""
    output = Output("load")
    with TemporaryDirectory(prefix="elmgrove-load-") as name:
        store = f"{name}/store.db"
        runs = _on_store(store, 1, plan, Path(name))
    if postgres:
        with (
            TemporaryDirectory(prefix="elmgrove-load-") as name,
            postgres_database(postgres) as url,
        ):
            runs += _on_store(url, 2, plan, Path(name))
    output.say(_LEGEND)
    for run in runs:
        _report(output, plan, run)
    if not postgres:
        output.say("PostgreSQL was not measured: ELMGROVE_TEST_POSTGRES names no server.")
    output.write({"size": HAR._asdict(), "plan": asdict(plan), "unit": "ms", "runs": runs})


def _on_store(store: str, replicas: int, plan: Plan, folder: Path) -> list[dict[str, Any]]:
    what = f"{database(store)}, {replicas} server{'s' * (replicas > 1)}"
    progress.print(f"{what}: {plan.devices} devices enter")
    fleet = Fleet(HAR)
    fleet.enter(store, plan.devices)
    with _servers(store, replicas, folder) as servers:
        site = Site(what, store, servers, fleet, folder)
        return [site.offered(plan), site.full_speed(plan)]


@contextmanager
def _servers(store: str, replicas: int, folder: Path) -> Iterator[list[Server]]:
    """Servers that have their sums ready."""
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(store, folder)) for _ in range(replicas)]
        for server in servers:
            server.wait()
            server.sum_up()
        yield servers


@dataclass
class Site:
    """Servers on one store, with the fleet that is in it."""

    what: str
    store: str
    servers: list[Server]
    fleet: Fleet
    folder: Path
    _etags: dict[int, str] = field(default_factory=dict)

    def offered(self, plan: Plan) -> dict[str, Any]:
        """Lets each device sync at the plan's rate, for the plan's time."""
        traffic = self._traffic(max(1, round(plan.devices * plan.seconds / plan.interval)))
        with self._counted(f"offered, a sync each {plan.interval:g} s", traffic) as record:
            asyncio.run(traffic.spread(plan.seconds))
        return record

    def full_speed(self, plan: Plan) -> dict[str, Any]:
        """Lets each device sync once, as fast as the servers can."""
        traffic = self._traffic(plan.devices)
        with self._counted(f"full speed, {plan.connections} connections", traffic) as record:
            asyncio.run(traffic.at_full_speed(plan.connections))
        return record

    def _traffic(self, syncs: int) -> Traffic:
        progress.print(f"  {syncs} contributions are sealed")
        devices = [number % self.fleet.devices for number in range(syncs)]
        uploads = Uploads(self.folder / "uploads", self.fleet, devices)
        return Traffic(uploads, [server.port for server in self.servers], self._etags)

    @contextmanager
    def _counted(self, load: str, traffic: Traffic) -> Iterator[dict[str, Any]]:
        """A record that is filled in at the end of the block."""
        progress.print(f"  they are sent: {load}")
        record: dict[str, Any] = {"store": self.what, "load": load}
        before = [server.running.cpu_seconds for server in self.servers]
        client = time.process_time()
        yield record
        record["processor seconds of the client"] = time.process_time() - client
        after = [server.running.cpu_seconds for server in self.servers]
        used = [now - then for now, then in zip(after, before, strict=True)]
        record["processor seconds of each server"] = used
        record["processor ms of the servers a sync"] = 1e3 * sum(used) / traffic.syncs
        record["peak MB of each server"] = [server.running.peak for server in self.servers]
        record["MB on disk"] = megabytes(self.store)
        record |= traffic.record()


def _report(output: Output, plan: Plan, run: dict[str, Any]) -> None:
    lines = [
        (kind, t["calls"], t["calls"] / run["seconds"], t["median"], t["p99"])
        for kind, t in run["timings"].items()
    ]
    output.say(f"{run['store']}, {plan.devices} devices ({HAR}), {run['load']}:")
    output.table("", ("", "requests", "a second", "p50 ms", "p99 ms"), lines)
    peaks = ", ".join(f"{mb:.0f}" for mb in run["peak MB of each server"])
    used = ", ".join(f"{seconds:.1f}" for seconds in run["processor seconds of each server"])
    output.say(
        f"{run['seconds']:.1f} s, {run['MB a second']:.0f} MB/s, errors: {run['errors'] or 'none'}."
        f" Memory of each server at most: {peaks} MB. Processor seconds: {used} of each server "
        f"({run['processor ms of the servers a sync']:.1f} ms a sync), "
        f"{run['processor seconds of the client']:.1f} of the client. "
        f"On disk: {run['MB on disk']:.0f} MB.\n"
    )
