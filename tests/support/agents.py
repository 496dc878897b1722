"""Device agents for tests: the real command as a process, which ends with its test."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove.federation.member import Member
from support.factories import member_in
from support.nursery import Command, Nursery, the_nursery
from support.serving import LAYER, Federation, Server, charter, serving, wait_until

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


@pytest.fixture(name="nursery", scope="session")
def nursery_fixture() -> Nursery:
    """One for all tests."""
    return the_nursery()


@pytest.fixture(name="start")
def start_fixture(tmp_path: Path, nursery: Nursery) -> Iterator[Start]:
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
            process = nursery.begin(
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
