"""What the agent uses on a device: memory and processor at rest, and for each row."""

import csv
import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.clock import Case, Timing, batch
from benchmarks.exchange.fleet import FEDERATION, TOKEN, Fleet, Size
from benchmarks.exchange.output import Output, progress
from benchmarks.exchange.process import Running, started
from benchmarks.exchange.server import serving
from benchmarks.rows import Matrix, rows
from elmgrove.federation.member import Member
from elmgrove.storage.disk import load, save

_PATIENCE = 600.0
_OTHERS = 10
_SYNC_SECONDS = 5
# Past the first rows, which only warm the detector up.
_FIRST_ROWS = 1000
_SAVING_SECONDS = 1.0
_LEGEND = f"""
elmgrove device run follows a file: {_FIRST_ROWS} rows, then nothing for a while (at rest), then
many rows at once. Each row is scored, learned and written out as a verdict, and the state is saved
each 1,000 rows, as by default. With an exchange it syncs each {_SYNC_SECONDS} s with a server on
this machine; at rest neither side has anything new."""


def measure_agent(runs: list[tuple[Size, int]], rest_seconds: float) -> None:
    """Measures the agent for each layer, alone and with an exchange."""
    output = Output("agent")
    measured = []
    for size, count in runs:
        for exchange in (False, True):
            with TemporaryDirectory(prefix="elmgrove-agent-") as name:
                measured.append(_run(Path(name), size, count, rest_seconds, exchange))
    _report(output, measured)
    output.write({"seconds at rest": rest_seconds, "runs": measured})


def _run(folder: Path, size: Size, count: int, rest: float, exchange: bool) -> dict[str, Any]:
    progress.print(f"{size}, {'with' if exchange else 'without'} an exchange")
    X = rows(_FIRST_ROWS + count)[:, : size.inputs]
    source, verdicts, state = folder / "rows.csv", folder / "verdicts", folder / "device.elm"
    log = folder / "agent.log"
    _append(source, X[:_FIRST_ROWS])
    options = {"name": "bench", "source": source, "state": state, "verdicts": verdicts}
    options |= {"units": size.units, "sync-seconds": _SYNC_SECONDS}
    with _exchange(folder, size, exchange) as joining:
        flags = [f"--{name}={value}" for name, value in (options | joining).items()]
        with started(["device", "run", "--follow", *flags], log) as agent:
            _wait_for(agent, verdicts, _FIRST_ROWS)
            found = _at_rest(agent, rest) | _at_work(agent, source, verdicts, X[_FIRST_ROWS:])
    found["syncs"] = _syncs(log)
    return {"size": size._asdict(), "exchange": exchange, **found, **_saving(state)}


def _at_rest(agent: Running, seconds: float) -> dict[str, float]:
    # The first rows may still be being saved and sent.
    time.sleep(2.0)
    progress.print(f"  at rest for {seconds:g} s")
    before, begin = agent.cpu_seconds, time.perf_counter()
    time.sleep(seconds)
    used = (agent.cpu_seconds - before) / (time.perf_counter() - begin)
    return {"MB at rest": agent.resident, "% of a core at rest": 100 * used}


def _at_work(agent: Running, source: Path, verdicts: Path, X: Matrix) -> dict[str, float]:
    progress.print(f"  {len(X)} rows")
    before = agent.cpu_seconds
    begin = _append(source, X)
    _wait_for(agent, verdicts, _FIRST_ROWS + len(X))
    seconds = time.perf_counter() - begin
    return {
        "rows": len(X),
        "µs of a core a row": 1e6 * (agent.cpu_seconds - before) / len(X),
        "rows a second": len(X) / seconds,
        "peak MB": agent.peak,
    }


def _saving(state: Path) -> dict[str, Any]:
    member = load(state, Member.from_bytes)
    case = Case(lambda: member, partial(save, state))
    milliseconds = [time / 1e3 for time in batch(case, _SAVING_SECONDS)]
    return {"state kB": state.stat().st_size / 1e3, "ms a save": asdict(Timing.of(milliseconds))}


def _syncs(log: Path) -> int:
    """How many there were; one that failed, or a bad row, is a reason to measure nothing."""
    said = log.read_text(encoding="utf-8")
    if "WARNING" in said or "ERROR" in said:
        raise RuntimeError(f"the agent was not content:\n{said[-2000:]}")
    return said.count(" sync: ")


@contextmanager
def _exchange(folder: Path, size: Size, wanted: bool) -> Iterator[dict[str, str]]:
    """The flags with which an agent joins a federation of a few devices."""
    if not wanted:
        yield {}
        return
    store = str(folder / "store.db")
    Fleet(size).enter(store, _OTHERS)
    with serving(store, folder) as server:
        server.wait()
        yield {"exchange": f"http://127.0.0.1:{server.port}/{FEDERATION}", "token": TOKEN}


def _append(path: Path, X: Matrix) -> float:
    """Writes all rows at once, so that the agent never waits; says when that began."""
    text = io.StringIO()
    csv.writer(text).writerows(X.tolist())
    data = text.getvalue()
    with path.open("a", newline="", encoding="utf-8") as file:
        begin = time.perf_counter()
        file.write(data)
    return begin


def _wait_for(agent: Running, verdicts: Path, count: int) -> None:
    end, seen = time.monotonic() + _PATIENCE, 0
    while not verdicts.exists():
        _nap(agent, end)
    with verdicts.open("rb") as file:
        while seen < count:
            seen += file.read().count(b"\n")
            _nap(agent, end)


def _nap(agent: Running, end: float) -> None:
    agent.require_alive()
    if time.monotonic() > end:
        raise TimeoutError(f"the agent did not get through its rows in {_PATIENCE:g} s")
    time.sleep(0.02)


def _report(output: Output, measured: list[dict[str, Any]]) -> None:
    output.say(_LEGEND)
    columns = {
        "at rest MB": "MB at rest",
        "% of a core": "% of a core at rest",
        "at most MB": "peak MB",
        "µs a row": "µs of a core a row",
        "rows/s": "rows a second",
        "syncs": "syncs",
        "state kB": "state kB",
    }
    lines = [
        (
            f"{Size(**run['size'])}{', exchange' if run['exchange'] else ''}",
            *(run[name] for name in columns.values()),
            run["ms a save"]["median"],
        )
        for run in measured
    ]
    output.table("elmgrove device run", ("", *columns, "ms a save"), lines)
