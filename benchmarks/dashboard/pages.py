"""How long each page takes with very many devices, over real HTTP, in both stores."""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.dashboard.reader import PageReader, Seen
from benchmarks.dashboard.told_fleet import BUSIEST, DAY_EACH, fill
from benchmarks.exchange.fleet import FEDERATION, name_of
from benchmarks.exchange.output import Output, progress
from benchmarks.exchange.server import Server, database, megabytes, postgres_database, serving

#: Milliseconds within which 95 of 100 pages are to be there.
TARGET = 300.0
#: The range of time that an address says, so that it leads to no other.
TODAY = "from=now-24h&to=now"
_ROOT = f"/ui/{FEDERATION}/"
_LEGEND = """
A user who has logged in asks for one page after another on one connection, in a random order,
of a real `elmgrove serve`; the data base is on the same machine. first: the page's first time after
the server started, which is not among the others."""


def addresses(devices: int) -> dict[str, str]:
    """Gives the pages that are asked for, by what they are called."""
    last = -(-devices // 100)
    fleet = {
        "fleet": "",
        "fleet by name": "sort=name",
        "fleet by name, down": "sort=name&order=down",
        "fleet by events": "sort=event&order=down",
        "fleet by last seen": "sort=seen&order=down",
        "fleet by rows learned": "sort=learned&order=down",
        "fleet by drift": "sort=drift&order=down",
        "fleet, searched": "search=DEVICE-0",
        "fleet, one found": f"search={name_of(devices - 1)}",
        "fleet, anomalous now": "state=anomalous",
        "fleet, watching by name": "state=watching&sort=name",
        "fleet, middle page": f"page={max(last // 2, 1)}",
        "fleet, last page": f"sort=name&page={last}",
    }
    device = {
        "device": f"{name_of(devices // 2 + 1)}?{TODAY}",
        "device, a day of minutes": f"{name_of(min(DAY_EACH, devices - 1))}?{TODAY}",
        "device, 50 events": f"{name_of(BUSIEST)}?from=now-7d&to=now",
    }
    return {
        "home": "/ui/",
        **{name: f"{_ROOT}?{TODAY}&{query}" for name, query in fleet.items()},
        "fleet of 7 days": f"{_ROOT}?from=now-7d&to=now",
        **{name: f"{_ROOT}devices/{query}" for name, query in device.items()},
        "federation": f"{_ROOT}federation",
        "audit": f"{_ROOT}audit?{TODAY}",
        "audit of 7 days": f"{_ROOT}audit?from=now-7d&to=now",
        "audit, older": f"{_ROOT}audit?before={devices}&from=now-7d&to=now",
        "audit, an hour of it": f"{_ROOT}audit?from=now-20h&to=now-19h",
    }


def measure_pages(devices: int, records: int, requests: int, postgres: str | None) -> None:
    """Measures SQLite and, where it is available, PostgreSQL."""
    output = Output("dashboard-pages")
    with TemporaryDirectory(prefix="elmgrove-pages-") as name:
        runs = [_on_store(f"{name}/store.db", devices, records, requests, Path(name))]
    if postgres:
        with (
            TemporaryDirectory(prefix="elmgrove-pages-") as name,
            postgres_database(postgres) as url,
        ):
            runs.append(_on_store(url, devices, records, requests, Path(name)))
    output.say(_LEGEND)
    for run in runs:
        _report(output, f"{devices} devices, {records} records", run)
    if not postgres:
        output.say("PostgreSQL was not measured: ELMGROVE_TEST_POSTGRES names no server.")
    counts = {"devices": devices, "records": records, "requests": requests}
    output.write({**counts, "unit": "ms", "runs": runs})


def _on_store(
    store: str, devices: int, records: int, requests: int, folder: Path
) -> dict[str, Any]:
    what = database(store)
    progress.print(f"{what}: {devices} devices tell of themselves, after {records} records")
    fill(store, devices, records)
    with serving(store, folder) as server:
        server.wait()
        progress.print("  pages are asked for")
        found = _read(server, (folder / "admin").read_text().strip(), devices, requests)
        server_used = {"peak MB": server.running.peak, "MB on disk": megabytes(store)}
    return {"store": what, "pages": found, **server_used}


def _read(server: Server, token: str, devices: int, requests: int) -> dict[str, dict[str, Any]]:
    asked, reader = addresses(devices), PageReader(server.port, token)
    first = {name: _required(name, reader.read(path)) for name, path in asked.items()}
    order = [name for name in asked for _ in range(requests)]
    Random(1).shuffle(order)
    times: dict[str, list[float]] = {name: [] for name in asked}
    for name in order:
        times[name].append(_required(name, reader.read(asked[name])).milliseconds)
    reader.close()
    return {
        name: {
            "first": first[name].milliseconds,
            "kB": first[name].size / 1e3,
            **percentiles(times[name]),
        }
        for name in asked
    }


def percentiles(milliseconds: list[float]) -> dict[str, float]:
    """Gives the median, and what 95 and 99 of 100 stay below."""
    p50, p95, p99 = map(float, np.percentile(milliseconds, [50, 95, 99]))
    return {"p50": p50, "p95": p95, "p99": p99}


def _required(name: str, seen: Seen) -> Seen:
    if seen.status != 200:
        raise RuntimeError(f"{name} was answered with {seen.status}: there is nothing to measure")
    return seen


def _report(output: Output, of_what: str, run: dict[str, Any]) -> None:
    columns = ("p50", "p95", "p99", "first", "kB")
    lines = [
        (name, *(page[column] for column in columns), verdict(page["p95"]))
        for name, page in run["pages"].items()
    ]
    title = f"{run['store']}, {of_what}, ms"
    output.table(title, ("", *columns, f"p95 ≤ {TARGET:g} ms"), lines)
    output.say(f"server: at most {run['peak MB']:.0f} MB; store: {run['MB on disk']:.0f} MB")


def verdict(p95: float) -> str:
    """Says whether a page is there in time."""
    return "met" if p95 <= TARGET else "not met"
