"""What one sync costs as the fleet grows, and how long a server takes to start."""

import asyncio
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.clock import Timing
from benchmarks.exchange.client import DeviceConnection
from benchmarks.exchange.fleet import Fleet, Size
from benchmarks.exchange.output import Output, progress
from benchmarks.exchange.server import Server, megabytes, serving
from elmgrove.errors import BadInput

# A data base with its journal, and what others need meanwhile.
_ROOM = 1.5
_LEGEND = """
One device at a time syncs with a server on SQLite that nobody else uses: a PUT, then a GET of the
sum over all others, which holds what was put. start: until the server answers at all; first sum:
from then until the first merged answer, for which every contribution is read once. Processor time
suffers less than the others from what else the machine does."""


def measure_growth(size: Size, fleets: list[int], syncs: int) -> None:
    """Measures syncs at each number of devices, from the smallest fleet to the largest."""
    output = Output("growth")
    fleet = Fleet(size)
    with TemporaryDirectory(prefix="elmgrove-growth-") as name:
        _require_room(name, max(fleets) * len(Fleet(size).contribution(0)))
        stages = [_stage(fleet, Path(name), devices, syncs) for devices in sorted(fleets)]
    _report(output, size, stages)
    output.write({"size": size._asdict(), "unit": "ms", "stages": stages})


def _stage(fleet: Fleet, folder: Path, devices: int, syncs: int) -> dict[str, Any]:
    progress.print(f"{devices} devices: they enter")
    store = str(folder / "store.db")
    fleet.enter(store, devices)
    progress.print("  a server starts")
    begin = time.perf_counter()
    with serving(store, folder) as server:
        server.wait()
        started = time.perf_counter()
        server.sum_up()
        summed = time.perf_counter()
        progress.print(f"  {syncs} syncs")
        before = server.running.cpu_seconds
        times = asyncio.run(_syncs(fleet, server, syncs))
        used, peak = server.running.cpu_seconds - before, server.running.peak
    return {
        "devices": devices,
        "seconds to start": started - begin,
        "seconds to the first sum": summed - started,
        "timings": {kind: asdict(Timing.of(values)) for kind, values in times.items()},
        "processor ms a sync": 1e3 * used / syncs,
        "peak MB": peak,
        "MB on disk": megabytes(store),
    }


async def _syncs(fleet: Fleet, server: Server, syncs: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {"PUT": [], "GET merged": [], "sync": []}
    for number in range(syncs):
        device = number % fleet.devices
        blob = fleet.contribution(device)
        async with DeviceConnection(device, server.port) as connection:
            put, merged = await connection.put(blob), await connection.merged()
        _require_ok(put.status, merged.status)
        times["PUT"].append(1e3 * put.seconds)
        times["GET merged"].append(1e3 * merged.seconds)
        times["sync"].append(1e3 * (put.seconds + merged.seconds))
    return times


def _require_ok(*statuses: int) -> None:
    if set(statuses) != {200}:
        raise RuntimeError(f"the server answered {statuses}, so there is nothing to measure")


def _require_room(folder: str, needed: float) -> None:
    free = shutil.disk_usage(folder).free
    if free < _ROOM * needed:
        raise BadInput(
            f"{_ROOM * needed / 1e9:.1f} GB are needed in {folder} and {free / 1e9:.1f} GB are "
            "free: set TMPDIR to a larger disk, or ask for fewer --devices or for --quick"
        )


def _report(output: Output, size: Size, stages: list[dict[str, Any]]) -> None:
    output.say(_LEGEND)
    first = stages[0]["timings"]
    for kind in first:
        lines = []
        for stage in stages:
            timing = stage["timings"][kind]
            ratio = timing["median"] / first[kind]["median"]
            lines.append((str(stage["devices"]), timing["median"], timing["p99"], ratio))
        title = f"{kind}, {size}"
        output.table(title, ("devices", "p50 ms", "p99 ms", "× the smallest fleet"), lines)
    fields = {
        "start s": "seconds to start",
        "first sum s": "seconds to the first sum",
        "processor ms a sync": "processor ms a sync",
        "peak MB": "peak MB",
        "disk MB": "MB on disk",
    }
    lines = [
        (str(stage["devices"]), *(stage[field] for field in fields.values())) for stage in stages
    ]
    output.table("The server", ("devices", *fields), lines)
