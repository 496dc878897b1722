"""The dashboard while a thousand agents sync: pages, what is live, commands, the server."""

import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from benchmarks.dashboard.live_agents import ANOMALOUS_EACH, TROUBLES, AgentPlan, run_agents
from benchmarks.dashboard.onlookers import Onlookers, looking_on
from benchmarks.dashboard.pages import TODAY, percentiles, verdict
from benchmarks.dashboard.reader import PageReader
from benchmarks.dashboard.told_fleet import LAYER
from benchmarks.exchange.fleet import FEDERATION, Fleet, name_of
from benchmarks.exchange.output import FOLDER, Output, progress
from benchmarks.exchange.server import Server, database, postgres_database, serving
from elmgrove.errors import Unreachable
from elmgrove.exchange.http import HttpExchange

_COMMANDS = 4
# Seconds between two pages that are asked for beside Chromium's.
_PAUSE = 0.25
_PATIENCE = 600.0
_ROOT = f"/ui/{FEDERATION}/"
_LEGEND = """
Real agents (each follows a file, learns, saves, syncs, tells of itself, does commands), many in one
process (each for itself would need 80 MB) and calmer: they look for rows each 2 s. Chromium has the
live page of the fleet open, a line of it and a device; beside it a user asks for pages. shown
after: from the moment when the server had a report until a live page shows it; pages are told of
news once a second. Agents, server, Chromium and data base share this machine."""


@dataclass(frozen=True)
class LivePlan:
    """How many agents in how many processes, how often each syncs, and how long one looks on."""

    agents: int
    processes: int
    interval: float
    seconds: float


def measure_live(plans: list[LivePlan], postgres: str | None) -> None:
    """Measures each plan on SQLite and, where it is available, the first on PostgreSQL."""
    output = Output("dashboard-live")
    runs = []
    for plan in plans:
        with TemporaryDirectory(prefix="elmgrove-live-") as name:
            runs.append(_on_store(f"{name}/store.db", plan, Path(name)))
    if postgres:
        with (
            TemporaryDirectory(prefix="elmgrove-live-") as name,
            postgres_database(postgres) as url,
        ):
            runs.append(_on_store(url, plans[0], Path(name)))
    output.say(_LEGEND)
    for run in runs:
        _report(output, run)
    output.write({"runs": runs})


def _on_store(store: str, plan: LivePlan, folder: Path) -> dict[str, Any]:
    what = database(store)
    progress.print(f"{what}: {plan.agents} agents join, a sync each {plan.interval:g} s")
    Fleet(LAYER).enter(store, 0)
    with serving(store, folder) as server:
        server.wait()
        base, token = f"http://127.0.0.1:{server.port}", (folder / "admin").read_text().strip()
        with _agents(plan, f"{base}/{FEDERATION}", folder) as told:
            progress.print("  all were started; their first syncs")
            _wait_for_all(f"{base}/{FEDERATION}", token, plan)
            with looking_on(base, token, folder) as onlookers:
                found = _looked(onlookers, server, token, plan)
        log = (folder / f"server-{server.port}.log").read_text().splitlines()
    found["server's warnings"] = [line for line in log if "WARNING" in line or "ERROR" in line]
    return {"store": what, "plan": asdict(plan), **found, "agents": _gathered(told)}


@contextmanager
def _agents(plan: LivePlan, url: str, folder: Path) -> Iterator[list[dict[str, Any]]]:
    """Runs all agents; what they say at their end is in the list, after the block."""
    context = multiprocessing.get_context("spawn")
    told, end = context.Queue(), context.Event()
    share = -(-plan.agents // plan.processes)
    starts = range(0, plan.agents, share)
    processes = []
    for start in starts:
        numbers = range(start, min(start + share, plan.agents))
        part = AgentPlan(numbers, url, folder, plan.interval)
        process = context.Process(target=run_agents, args=(part, told, end))
        process.start()
        processes.append(process)
    said = list[dict[str, Any]]()
    try:
        for _ in processes:
            told.get(timeout=_PATIENCE)
        yield said
        end.set()
        said += [told.get(timeout=_PATIENCE) for _ in processes]
    finally:
        end.set()
        for process in processes:
            process.join(60.0)
            if process.is_alive():
                process.kill()
                process.join()


def _wait_for_all(url: str, token: str, plan: LivePlan) -> None:
    """Waits until each agent has published something."""
    exchange, end = HttpExchange(url, "benchmark", key=token), time.monotonic() + _PATIENCE
    published = 0
    while published < plan.agents:
        if time.monotonic() > end:
            raise TimeoutError(f"{published} of the agents synced within {_PATIENCE:g} s")
        time.sleep(1.0)
        # While all learn at once the machine is busy: it is asked again.
        with suppress(Unreachable):
            published = len(exchange.entries())
    exchange.close()


def _looked(onlookers: Onlookers, server: Server, token: str, plan: LivePlan) -> dict[str, Any]:
    """Looks on for the plan's time, and until all that was asked is done."""
    progress.print(f"  Chromium looks on for {plan.seconds:g} s")
    for number in range(_COMMANDS):
        if number * ANOMALOUS_EACH < plan.agents:
            onlookers.ask(number * ANOMALOUS_EACH)
    after: dict[str, list[float]] = {"fleet": [], "device": []}
    used, begin = server.running.cpu_seconds, time.monotonic()
    with _reading(server.port, token) as read:
        while (passed := time.monotonic() - begin) < plan.seconds or (
            not onlookers.look() and passed < plan.seconds + plan.interval + 30.0
        ):
            for where, seconds in after.items():
                seconds.append(onlookers.shown_after(where))
            onlookers.look()
    took = time.monotonic() - begin
    FOLDER.mkdir(exist_ok=True)
    onlookers.picture(FOLDER / "dashboard-live.png")
    return {
        "seconds": took,
        "pages": {name: percentiles(times) for name, times in read["times"].items()},
        "requests": read["statuses"],
        "reloads": {"count": len(onlookers.reloads), **percentiles(onlookers.reloads)},
        "shown after": {
            where: {"count": len(s), **percentiles([1e3 * one for one in s])}
            for where, s in after.items()
        },
        "commands s": onlookers.commands,
        "commands asked": onlookers.asked,
        "faults": onlookers.faults,
        "% of a core of the server": 100 * (server.running.cpu_seconds - used) / took,
        "MB of the server": server.running.resident,
        "peak MB of the server": server.running.peak,
    }


@contextmanager
def _reading(port: int, token: str) -> Iterator[dict[str, Any]]:
    """Asks for one page after another meanwhile, in a thread."""
    pages = {
        "home": "/ui/",
        "fleet": f"{_ROOT}?{TODAY}",
        "fleet by rows learned": f"{_ROOT}?sort=learned&order=down&{TODAY}",
        "fleet, searched": f"{_ROOT}?search=DEVICE-0&{TODAY}",
        "device": f"{_ROOT}devices/{name_of(1)}?{TODAY}",
        "audit": f"{_ROOT}audit?{TODAY}",
        "federation": f"{_ROOT}federation",
    }
    read: dict[str, Any] = {"times": {name: [] for name in pages}, "statuses": Counter()}
    ending = Event()

    def ask() -> None:
        reader = PageReader(port, token)
        while not ending.is_set():
            for name, path in pages.items():
                seen = reader.read(path)
                read["statuses"][str(seen.status)] += 1
                read["times"][name].append(seen.milliseconds)
                ending.wait(_PAUSE)
        reader.close()

    thread = Thread(target=ask)
    thread.start()
    try:
        yield read
    finally:
        ending.set()
        thread.join()


def _gathered(told: list[dict[str, Any]]) -> dict[str, Any]:
    warnings, examples = Counter[str](), dict[str, str]()
    for one in told:
        warnings.update(one["warnings"])
        examples |= one["examples"]
    troubles = {said: n for said, n in warnings.items() if said.startswith(TROUBLES)}
    return {
        "syncs": sum(one["syncs"] for one in told),
        "troubles": troubles,
        "warnings": dict(warnings),
        "examples": examples,
        "ended": sum(one["ended"] for one in told),
        "processor s": sum(one["processor s"] for one in told),
    }


def _report(output: Output, run: dict[str, Any]) -> None:
    plan = LivePlan(**run["plan"])
    columns = ("p50", "p95", "p99")
    lines = [
        (name, *(page[column] for column in columns), verdict(page["p95"]))
        for name, page in run["pages"].items()
    ]
    live = run["reloads"]
    lines.append(("fleet in Chromium, live", *(live[c] for c in columns), verdict(live["p95"])))
    title = f"{run['store']}, {plan.agents} agents, a sync each {plan.interval:g} s, ms"
    output.table(title, ("", *columns, "p95 ≤ 300 ms"), lines)
    shown = [(name, s["count"], *(s[c] for c in columns)) for name, s in run["shown after"].items()]
    output.table("shown after, ms", ("", "times", *columns), shown)
    done = sorted(run["commands s"].values())
    agents = run["agents"]
    output.say(
        f"commands done: {len(done)} of {run['commands asked']}, after "
        f"{', '.join(f'{one:.1f}' for one in done)} s. "
        f"server: {run['% of a core of the server']:.0f} % of a core, "
        f"{run['MB of the server']:.0f} MB, at most {run['peak MB of the server']:.0f} MB. "
        f"{agents['syncs']} syncs; agents that ended by themselves: {agents['ended']}."
    )
    bad = {status: n for status, n in run["requests"].items() if status != "200"}
    errors = [*bad.items(), *agents["troubles"].items(), *run["faults"], *run["server's warnings"]]
    output.say(f"errors: {errors or 'none'}. Agents also said: {agents['warnings'] or 'nothing'}")
