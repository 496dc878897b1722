"""Device agents for tests: the real command as a process, which ends with its test."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove.device.agent import Agent
from elmgrove.device.control import socket_beside
from elmgrove.device.settings import Settings
from elmgrove.federation.member import Member
from elmgrove.federation.merged import Merged
from elmgrove.storage.disk import save
from support.factories import detector_in, member_in
from support.fork_server import Command, ForkServer, the_fork_server
from support.serving import (
    ADMIN,
    LAYER,
    Federation,
    Server,
    charter,
    fan_evidence,
    seeded_contribution,
    serving,
    wait_until,
)

COMMAND = Path(sys.executable).parent / "elmgrove"
NAMES = [f"sensor {number}" for number in range(LAYER.inputs)]


def append_rows(path: Path, X: np.ndarray) -> None:
    with path.open("a") as file:
        file.writelines(",".join(map(repr, row)) + "\n" for row in X.tolist())


@dataclass
class Running:
    """A command that was started, and where it writes."""

    process: Command
    folder: Path
    label: str

    @property
    def log(self) -> str:
        return (self.folder / f"{self.label}.log").read_text()

    @property
    def out(self) -> str:
        return (self.folder / f"{self.label}.out").read_text()

    def logs(self, text: str, times: int = 1) -> None:
        """Waits until it has said this."""
        self.until(lambda: self.log.count(text) >= times)

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits for something that can only happen while it runs."""
        try:
            wait_until(lambda: condition() or self.process.poll() is not None)
        except AssertionError:
            raise AssertionError(f"waited in vain, it said:\n{self.log}") from None
        assert condition(), f"it ended with {self.process.returncode}:\n{self.log}"

    def told(self, text: bytes) -> int:
        """Its exit code, once it has read this and no more from its standard input."""
        assert self.process.stdin is not None
        with self.process.stdin:
            self.process.stdin.write(text)
        return self.end()

    def end(self) -> int:
        """Its exit code, once it has ended by itself."""
        return self.process.wait(180)

    def stop(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def kill(self) -> None:
        self.process.kill()
        self.end()


Start = Callable[..., Running]


def flags(settings: dict[str, Any]) -> list[str]:
    """Settings as the command line has them."""
    given = []
    for name, value in settings.items():
        flag = f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            given.append(flag if value else f"--no-{flag[2:]}")
        else:
            for one in value if isinstance(value, list) else [value]:
                given += [flag, str(one)]
    return given


@pytest.fixture(name="forks", scope="session")
def fork_server_fixture() -> ForkServer:
    """One for all tests."""
    return the_fork_server()


@pytest.fixture(name="start")
def start_fixture(tmp_path: Path, forks: ForkServer) -> Iterator[Start]:
    """Starts ``elmgrove`` with these words, in the test's folder."""
    running: list[Running] = []

    def start(
        *words: object,
        label: str | None = None,
        stdin: int = subprocess.DEVNULL,
        **environment: str,
    ) -> Running:
        name = label or f"command-{len(running)}"
        with (
            (tmp_path / f"{name}.log").open("wb") as log,
            (tmp_path / f"{name}.out").open("wb") as out,
        ):
            process = forks.begin(
                [str(word) for word in words],
                tmp_path,
                {**os.environ, "COLUMNS": "200", **environment},
                stdin,
                out,
                log,
            )
        running.append(Running(process, tmp_path, name))
        return running[-1]

    yield start
    for one in running:
        if one.process.poll() is None:
            one.process.kill()
        one.process.wait()
        if one.process.stdin is not None:
            one.process.stdin.close()


@pytest.fixture(name="device")
def device_fixture(start: Start) -> Start:
    """Starts ``elmgrove device run`` for a device of this name; its files bear that name."""

    def device(name: str, *, stdin: int = subprocess.DEVNULL, **settings: Any) -> Running:
        usual = {
            "name": name,
            "state": f"{name}.elm",
            "source": f"{name}.csv",
            "verdicts": f"{name}.jsonl",
        }
        return start("device", "run", *flags(usual | settings), label=name, stdin=stdin)

    return device


@pytest.fixture(name="running_server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One for all tests of a module: each founds a federation of its own."""
    with serving(f"sqlite:///{tmp_path_factory.mktemp('server')}/store.db") as server:
        yield server


@pytest.fixture(name="federation")
def federation_fixture(running_server: Server) -> Federation:
    return running_server.found(charter())


def address(federation: Federation) -> str:
    """Where devices find it."""
    return f"{federation.server.base}/{federation.charter.name}"


def verdicts(path: Path) -> list[dict[str, Any]]:
    """The lines that are complete."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def state(folder: Path, name: str) -> Member | None:
    """What a device last saved; None before it did."""
    path = folder / f"{name}.elm"
    return member_in(path) if path.exists() else None


def sessions() -> set[int]:
    """The sessions of all processes that are alive."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            found.add(int(fields[3]))
    return found


# Requests to a running agent through its local socket.


def socket_of(state: Path) -> Path | None:
    """Where the agent that has this state listens; None if there is no socket."""
    place = socket_beside(state)
    return place if place.is_socket() else None


def said(state: Path, line: bytes) -> dict[str, Any]:
    """What the agent that has this state answers to a line, once it listens."""
    wait_until(lambda: socket_of(state) is not None)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.connect(str(socket_of(state)))
        agent.settimeout(120)
        agent.sendall(line)
        agent.shutdown(socket.SHUT_WR)
        with agent.makefile("rb") as file:
            found: dict[str, Any] = json.loads(file.readline())
    return found


def asked(state: Path, action: str, **words: Any) -> dict[str, Any]:
    """What the agent answers to an action."""
    return said(state, json.dumps({"action": action, **words}).encode() + b"\n")


# Agents that work in a thread of this process, on files in the test's folder.


#: The settings of a device that is alone, with the layer of the file that ``own_folder`` makes.
LIKE = {"like": "like.evidence", "state": "fan.elm", "verdicts": "fan.jsonl", "name": "fan"}
#: Longer than an agent takes to end on a machine that is busy with other tests.
PATIENCE = 300.0


@pytest.fixture(name="own_folder")
def own_folder_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test works in a folder of its own, with a file that fixes the layer."""
    monkeypatch.chdir(tmp_path)
    save(Path("like.evidence"), seeded_contribution("x", 99))
    return tmp_path


@contextmanager
def at_work(**settings: Any) -> Iterator[Agent]:
    """An agent in a thread of its own; stopped at the end, if its rows have not ended by then."""
    agent, failures = Agent(Settings(**settings)), list[BaseException]()

    def run() -> None:
        try:
            agent.run()
        except BaseException as error:  # for the test's own thread to raise
            failures.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield agent
    finally:
        agent.stop()
        thread.join(PATIENCE)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


def learned(path: Path) -> int:
    """How many rows a state has learned; 0 before there is one."""
    return detector_in(path).learned if path.exists() else 0


def expect_learned(X: np.ndarray) -> None:
    """Rows that were all learned in their order, one verdict each."""
    member = member_in("fan.elm")
    assert member.detector.learned == len(X)
    assert member.detector.evidence.close_to(fan_evidence(X), 1e-12)
    assert [one["learned"] for one in verdicts(Path("fan.jsonl"))] == [True] * len(X)


def joined(federation: Federation, name: str, **more: Any) -> dict[str, Any]:
    """The settings of a device in a federation."""
    usual = {"name": name, "state": f"{name}.elm", "source": f"{name}.csv", "verdicts": ""}
    return usual | {"exchange": address(federation), "token": federation.token} | more


def counts(federation: Federation) -> dict[str, float]:
    """How many rows each device has sent; those that left are not there."""
    entries = federation.entries().items()
    return {name: entry["count"] for name, entry in entries if not entry["left"]}


def sum_without(federation: Federation, name: str) -> Merged:
    """The sum over all devices but one."""
    answer = federation.ask("GET", "/merged", ADMIN, params={"without": name})
    return Merged.from_bytes(answer.content)
