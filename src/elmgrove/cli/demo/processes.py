"""The demo's server and agents: real processes, their files, and what the server holds."""

import json
import math
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any, Self

import httpx

from elmgrove.cli.app import app
from elmgrove.cli.demo.pumps import SENSORS, PumpRow
from elmgrove.device.status import status_of
from elmgrove.errors import ElmgroveError
from elmgrove.exchange.http import HttpExchange
from elmgrove.exchange.memory import MemoryExchange
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.member import Member
from elmgrove.storage.disk import load


class DemoProcesses:
    """Start ``elmgrove`` commands in a folder, each with a log, and stops all at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._starting = False
        self._signal = 0

    def start(self, name: str, *arguments: str, **environment: str) -> None:
        """Start ``elmgrove`` with these arguments; its output goes to NAME.log."""
        with (self._folder / f"{name}.log").open("wb") as log, self._undisturbed():
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "elmgrove", *arguments],
                cwd=self._folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def stop(self, name: str) -> None:
        process = self._running.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(120.0)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        if code not in (0, -signal.SIGTERM):
            raise ElmgroveError(f"{name} ended with {code}: {self._log(name)}")

    def wait(self, what: str, done: Callable[[], bool]) -> None:
        """Wait until ``done``; raise ``ElmgroveError`` if that takes two minutes."""
        until = time.monotonic() + 120.0
        while not done():
            self.require_running()
            if time.monotonic() > until:
                raise ElmgroveError(f"gave up after 120 s of waiting until {what}")
            time.sleep(0.05)

    def require_running(self) -> None:
        """Raise ``ElmgroveError`` with the end of its log if a process has ended by itself."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise ElmgroveError(f"{name} ended early: {self._log(name)}")

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        """Delay a signal: a process that is not on the list yet would outlive the demo."""
        self._starting = True
        yield
        self._starting = False
        if self._signal:
            sys.exit(128 + self._signal)

    def _ended_by(self, number: int, _: object) -> None:
        self._signal = number
        if not self._starting:
            sys.exit(128 + number)

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-2000:]

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._ended_by)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            try:
                process.wait(10.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class DemoServer:
    """``elmgrove serve`` on a free port of this machine; ``wait`` until it answers."""

    def __init__(self, processes: DemoProcesses) -> None:
        self._processes = processes
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.dashboard = f"{self.url}/ui/"
        self.admin_token = secrets.token_urlsafe(32)
        processes.start(
            "server",
            *("serve", "--store", "fleet.db", "--port", str(port), "--log-level", "warning"),
            ELMGROVE_ADMIN_TOKEN=self.admin_token,
        )

    def wait(self) -> Self:
        def ready() -> bool:
            try:
                return opened.get(f"{self.url}/ready").status_code == 200
            except httpx.TransportError:
                return False

        with httpx.Client(trust_env=False, verify=False, timeout=5.0) as opened:
            self._processes.wait("the server answers", ready)
        return self


class DemoFleet:
    """Agents that each follow the CSV file of a pump, in a federation on a server.

    What a person would type beside them (``learn``, ``accept``) runs in this process, by the same
    code, since to start each takes a second. ``begin`` is the time of the pumps' minute 0.
    """

    def __init__(
        self, folder: Path, processes: DemoProcesses, server: DemoServer, begin: float
    ) -> None:
        self._folder, self._processes, self._begin = folder, processes, begin
        self.server = server
        # The rows that an agent was given, and those of them that were read before it started.
        self._given, self._before = dict[str, int](), dict[str, int]()
        self._members = dict[str, tuple[int, Member]]()
        self._token = ""
        self.address = f"{server.url}/pumps"

    def learn(self, name: str, rows: Sequence[PumpRow], like: str | None = None) -> Member:
        path = self._folder / f"{name}-learned.csv"
        self._write(path, rows)
        alike = () if like is None else ("--like", str(self._state(like)))
        typed("learn", str(path), "--state", str(self._state(name)), "--name", name, *alike)
        return self.member(name)

    def found(self, like: str) -> None:
        """Make the federation, with the layer and the scaling of a pump."""
        self.server.wait()
        token = self._folder / "admin"
        token.write_text(self.server.admin_token)
        printed = typed(
            *("federation", "--server", self.server.url, "--admin-token-file", str(token)),
            *("create", "pumps", "--like", str(self._state(like))),
        )
        self._token = printed.split()[-1]

    def start(self, name: str) -> None:
        """Start a pump's agent, which joins the federation and waits for rows."""
        self._before[name] = self._given.setdefault(name, 0)
        self._processes.start(
            name,
            *("device", "run", "--name", name, "--state", f"{name}.elm"),
            *("--source", f"{name}.csv", "--follow", "--verdicts", f"{name}.jsonl"),
            # So that nobody has to wait for what takes a minute by default.
            *("--exchange", self.address, "--sync-seconds", "1", "--save-seconds", "0.3"),
            ELMGROVE_DEVICE_TOKEN=self._token,
        )

    def give(self, name: str, rows: Sequence[PumpRow], now: float | None = None) -> None:
        """Add rows to the file that a pump's agent follows, with their own time or ``now``."""
        self._write(self._folder / f"{name}.csv", rows, now)
        self._given[name] += len(rows)

    def catch_up(self, *names: str) -> None:
        """Wait until agents have read all rows, and saved what they learned."""
        self._processes.wait(
            f"{', '.join(names)} have read all", lambda: all(map(self._has_read, names))
        )

    def settle(self, readers: Collection[str], senders: Collection[str]) -> None:
        """Wait until each of the readers knows all that the senders have given away."""
        self._processes.wait(
            f"{', '.join(readers)} know of {', '.join(senders)}",
            lambda: self._settled(readers, senders),
        )

    def leave(self, name: str) -> None:
        self._processes.stop(name)
        typed("device", "leave", self.address, "--state", str(self._state(name)))

    def accept(self, name: str) -> str:
        return typed("accept", str(self._state(name)))

    def member(self, name: str) -> Member:
        """Load a pump's member from its agent's state file, if that has changed."""
        changed = self._state(name).stat().st_mtime_ns
        if self._members.get(name, (0,))[0] != changed:
            self._members[name] = changed, load(self._state(name), Member.from_bytes)
        return self._members[name][1]

    def verdicts(self, name: str, begin: int = 0) -> list[dict[str, Any]]:
        """Read an agent's verdicts, from the one of this number on."""
        path = self._folder / f"{name}.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        # The last line may still be being written.
        return [json.loads(line) for line in lines[begin:] if line.endswith("\n")]

    @cached_property
    def _exchange(self) -> HttpExchange:
        return HttpExchange(self.address, "demo", key=self.server.admin_token)

    def held(self) -> dict[str, Contribution]:
        entries = self._exchange.entries()
        return {one.origin: one for one in entries if isinstance(one, Contribution)}

    def in_memory(self) -> MemoryExchange:
        """Make a fleet of what the server holds now, which never had anybody else."""
        made = MemoryExchange(self._exchange.charter)
        for contribution in self.held().values():
            made.publish(contribution)
        return made

    def time_of(self, minute: int) -> float:
        return self._begin + 60.0 * minute

    def _has_read(self, name: str) -> bool:
        verdicts = self._folder / f"{name}.jsonl"
        # To look into the state takes longer.
        if not verdicts.exists() or verdicts.read_bytes().count(b"\n") < self._given[name]:
            return False
        rows = status_of(self.member(name))["rows"]
        return rows is not None and rows["used"] + self._before[name] == self._given[name]

    def _settled(self, readers: Collection[str], senders: Collection[str]) -> bool:
        held = self.held()
        return held.keys() == set(senders) and all(self._knows(one, held) for one in readers)

    def _knows(self, name: str, held: dict[str, Contribution]) -> bool:
        merged = self.member(name).merged if self._state(name).exists() else None
        others = [had for one, had in held.items() if one != name]
        # Who states no threshold, as while a question is open, is in no group.
        parts = [part for had in others if had.threshold is not None for part in had.parts]
        return (
            merged is not None
            and merged.devices == len(others)
            and math.isclose(merged.evidence.count, sum(part.count for part in parts))
        )

    def _state(self, name: str) -> Path:
        return self._folder / f"{name}.elm"

    def _write(self, path: Path, rows: Sequence[PumpRow], now: float | None = None) -> None:
        lines = [] if path.exists() else [",".join(["time", *SENSORS])]
        for row in rows:
            when = datetime.fromtimestamp(self.time_of(row.minute) if now is None else now, UTC)
            stamp = when.isoformat().replace("+00:00", "Z")
            lines.append(",".join([stamp, *(f"{value:.3f}" for value in row.values)]))
        with path.open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))


def typed(*arguments: str) -> str:
    """Run ``elmgrove`` with these arguments in this process; return what it printed."""
    printed = StringIO()
    with redirect_stdout(printed), redirect_stderr(printed):
        code = app(list(arguments), standalone_mode=False)
    if code:
        raise ElmgroveError(f"elmgrove {' '.join(arguments[:2])}: {printed.getvalue()}")
    return printed.getvalue()
