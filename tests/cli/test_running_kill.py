"""Killed in the middle of accept, reject and tune: the state is the one before or the one after."""

import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import Detector
from elmgrove.cli.feedback import Device
from elmgrove.device.actions import perform
from elmgrove.federation.member import Member
from elmgrove.storage.disk import save
from support.agents import asked
from support.factories import detector_in, trained
from support.faults import CONTEXT, ask, run_agent
from support.serving import wait_until

#: How often each is killed; more where there is time.
KILLS = int(os.environ.get("ELMGROVE_TEST_CONTROL_KILLS", "3"))
STATE = Path("pump.elm")
CHANGES = [
    ("accept", {}),
    ("reject", {"from": 100.0, "to": 150.5}),
    ("tune", {"rate": 0.002}),
]


@pytest.fixture(autouse=True)
def pump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The state of a device that watches, with anomalous rows in quarantine."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    load_ = rng.normal(size=(400, 1))
    X = load_ @ [[3.0, 2.0, 1.0, 0.5]] + 0.1 * rng.normal(size=(400, 4))
    detector = trained(Detector.for_data(X), X[:300], np.arange(300.0))
    shift = np.array([0.0, 15.0, 0.0, 0.0])
    for number, row in enumerate(X[300:]):
        detector.observe(row + shift, 300.0 + number)
    assert len(detector.quarantine) > 50
    save(STATE, Member("pump", detector))
    Path("pump.csv").touch()
    return STATE.read_bytes()


def facts(blob: bytes) -> tuple[Any, ...]:
    """All that a change can change."""
    detector = Member.from_bytes(blob).detector
    return (
        detector.learned,
        detector.state,
        detector.threshold,
        detector.progress.rate,
        detector.quarantine.rows().tobytes(),
        detector.evidence.C.tobytes(),
        detector.evidence.count,
    )


def changed(blob: bytes, action: str, words: dict[str, Any]) -> tuple[Any, ...]:
    """What the state is after it."""
    member = Member.from_bytes(blob)
    perform(member, action, words)
    return facts(member.to_bytes())


@pytest.mark.parametrize(("action", "words"), CHANGES)
def test_a_command_that_is_killed_has_done_it_or_not(
    pump: bytes, action: str, words: dict[str, Any]
) -> None:
    before, after = facts(pump), changed(pump, action, words)
    assert before != after
    chance, whole = random.Random(action), 0.0
    for number in range(KILLS + 1):
        STATE.write_bytes(pump)
        here, there = CONTEXT.Pipe(duplex=False)
        process = CONTEXT.Process(target=ask, args=(str(STATE), action, words, there))
        process.start()
        assert here.recv() == "begins"
        began = time.monotonic()
        if number == 0:
            # One that is left alone, to know how long it takes.
            assert here.recv() == "done"
            whole = time.monotonic() - began
        else:
            time.sleep(chance.uniform(0.0, 2.0 * whole))
        process.kill()
        process.join()
        found = facts(STATE.read_bytes())
        assert found == after if number == 0 or here.poll() else found in (before, after)
        here.close()
        there.close()


def has_begun() -> bool:
    said, live = Device(STATE).ask("status")
    return live and "waits_for" not in said["agent"]


@contextmanager
def working(**settings: Any) -> Iterator[ForkServerProcess]:
    """An agent as a process of its own; killed at the end if it was not before."""
    usual = {"state": str(STATE), "source": "pump.csv", "follow": True, "verdicts": ""}
    process = CONTEXT.Process(target=run_agent, args=(usual | settings,))
    process.start()
    try:
        wait_until(has_begun)
        yield process
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize(("action", "words"), CHANGES)
def test_an_agent_that_is_killed_has_done_it_or_not_and_what_it_said_it_has(
    pump: bytes, action: str, words: dict[str, Any]
) -> None:
    before, after = facts(pump), changed(pump, action, words)
    chance, whole, acknowledged = random.Random(action), 0.0, 0
    for number in range(KILLS + 1):
        STATE.write_bytes(pump)
        answers = list[Any]()
        with working() as process:

            def tell(answers: list[Any] = answers) -> None:
                # One that hung up has not answered.
                with suppress(OSError, ValueError):
                    answers.append(asked(STATE, action, **words))

            thread, began = threading.Thread(target=tell), time.monotonic()
            thread.start()
            if number == 0:
                thread.join()
                whole = time.monotonic() - began
            else:
                time.sleep(chance.uniform(0.0, 2.0 * whole))
            process.kill()
            process.join()
            thread.join()
        found = facts(STATE.read_bytes())
        assert not any("problem" in answer for answer in answers)
        assert found == after if answers else found in (before, after)
        acknowledged += len(answers)
    assert acknowledged, "the first one was left alone"


def test_a_state_that_was_changed_by_a_killed_agent_is_free_again(pump: bytes) -> None:
    """Lock and socket are left behind, and hold nobody up."""
    with working() as process:
        process.kill()
        process.join()
        assert Path(".pump.elm.sock").exists()
        here, there = CONTEXT.Pipe(duplex=False)
        ask(str(STATE), "accept", {}, there)
        assert [here.recv(), here.recv()] == ["begins", "done"]
    assert facts(STATE.read_bytes()) == changed(pump, "accept", {})
    assert detector_in(STATE).quarantine.rows().size == 0
