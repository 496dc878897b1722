"""What it costs a whole fleet of devices with two patterns each to sync, as it grows."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import numpy as np
from rich.progress import track

from benchmarks.exchange.output import Output, progress
from benchmarks.exchange.server import Server, serving
from elmgrove import Basis, FalseAlarmRate, HiddenLayer, PatternRule
from elmgrove.algebra.rows import Array
from elmgrove.exchange.session import Session, open_exchange
from elmgrove.federation.charter import Charter

COLUMNS, ROWS, KINDS = 16, 300, 4
CHARTER = Charter("fleet", Basis(HiddenLayer(COLUMNS, COLUMNS), COLUMNS, score="distance"))
_LEGEND = f"""
Every device has learned two of {KINDS} patterns ({COLUMNS} columns, {ROWS} rows of each), joins and
syncs twice with a real server on SQLite, one after the other: a PUT of its two patterns, and what
it needs to know of the others in order to ask them and borrow from them. Processor time of all
devices and of the server together, without learning. Linear: the same for each device."""


def measure_patterns(fleets: Sequence[int]) -> None:
    """Measures two syncs of all devices, from the smallest fleet to the largest."""
    output = Output("patterns")
    stages = [_stage(devices) for devices in sorted(fleets)]
    output.say(_LEGEND)
    columns = ("devices", "first sync s", "second s", "ms a device and sync", "groups", "kB told")
    output.table("Devices with two patterns", columns, [tuple(one.values()) for one in stages])
    output.write({"unit": "processor seconds", "stages": stages})


def _stage(devices: int) -> dict[str, Any]:
    with TemporaryDirectory(prefix="elmgrove-patterns-") as name, ExitStack() as stack:
        server = stack.enter_context(serving(str(Path(name) / "store.db"), Path(name)))
        server.wait()
        token = _made(server, (Path(name) / "admin").read_text(encoding="utf-8").strip())
        url = f"http://127.0.0.1:{server.port}/{CHARTER.name}"
        sessions = [
            stack.enter_context(_device(number, url, token))
            for number in track(range(devices), f"{devices} devices learn", console=progress)
        ]
        times = [_synced(sessions, server) for _ in range(2)]
        told = sessions[-1].member.merged
    return {
        "devices": str(devices),
        "first": times[0],
        "second": times[1],
        "each": 1e3 * sum(times) / (2 * devices),
        "groups": "by name" if told is None else str(len(told.labels)),
        "told": 0.0 if told is None else len(told.to_bytes()) / 1e3,
    }


def _made(server: Server, admin: str) -> str:
    answer = httpx.post(
        f"http://127.0.0.1:{server.port}/v1/federations",
        json=CHARTER.fields,
        headers={"Authorization": f"Bearer {admin}"},
    )
    answer.raise_for_status()
    return str(answer.json()["token"])


def _device(number: int, url: str, token: str) -> Session:
    name = f"device-{number:04}"
    member = CHARTER.start(name, patterns=PatternRule(), threshold=FalseAlarmRate(confidence=0.0))
    rng = np.random.default_rng(number)
    both = [_rows(kind % KINDS, rng) for kind in (number, number + 1)]
    member.detector.learn_many(rng.permutation(np.vstack(both)))
    return Session(member, open_exchange(url, name, token=token))


def _rows(kind: int, rng: np.random.Generator) -> Array:
    """Rows of one kind, which all devices see alike."""
    shape = np.random.default_rng(1000 + kind)
    middle, mixing = 8.0 * shape.normal(size=COLUMNS), shape.normal(size=(3, COLUMNS))
    own = 0.3 * rng.normal(size=(ROWS, COLUMNS))
    rows: Array = middle + rng.normal(size=(ROWS, 3)) @ mixing + own
    return rows


def _synced(sessions: Sequence[Session], server: Server) -> float:
    """Lets each device sync once, in turn; gives processor seconds of all, and the server's."""
    begin, served = time.process_time(), server.running.cpu_seconds
    for session in track(sessions, "  they sync", console=progress):
        report = session.sync()
        if report.refusal:
            raise RuntimeError(f"{session.member.name}: {report.refusal}")
    # So that what the server still does for the last of them counts.
    time.sleep(1.0)
    return time.process_time() - begin + server.running.cpu_seconds - served
