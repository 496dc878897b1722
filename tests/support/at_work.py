"""Agents that work in a thread of this process, on files in the test's folder."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.federation.merged import Merged
from elmgrove.storage.disk import save
from support.agents import address, verdicts
from support.factories import detector_in, member_in
from support.serving import ADMIN, Federation, fan_evidence, seeded_contribution

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
