"""Killed in the middle of a command: the device has done it and knows that it has, or neither."""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import Detector
from elmgrove.device.actions import perform
from elmgrove.device.commands import COMMANDS
from elmgrove.federation.charter import Charter
from elmgrove.federation.commands import Command
from elmgrove.federation.member import Member
from elmgrove.storage.disk import save
from support.exchanges import HonestExchange, saying
from support.factories import member_in, normal_rows, trained_member
from support.faults import CONTEXT, run_agent
from support.serving import wait_until

#: How often each is killed; more where there is time.
KILLS = int(os.environ.get("ELMGROVE_TEST_CONTROL_KILLS", "3"))
STATE = Path("pump.elm")
COMMAND = [
    Command("accept-1", "accept", {}, "anna", 1.7e9),
    Command("reject-1", "reject", {"from": 100.0, "to": 130.5}, "anna", 1.7e9),
]


CHARTER = Charter("pumps", Detector.for_data(normal_rows(0, 400, 4)).basis)


@pytest.fixture(autouse=True)
def pump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """The state of a device that watches, with anomalous rows in quarantine."""
    monkeypatch.chdir(tmp_path)
    member = trained_member(CHARTER.start("pump"), normal_rows(1, 400, 4), np.arange(400.0))
    for number, row in enumerate(normal_rows(2, 100, 4)):
        member.detector.observe(row + 30.0, 400.0 + number)
    assert len(member.detector.quarantine) == 100
    save(STATE, member)
    Path("pump.csv").touch()
    Path("pump.key").write_text("key")
    return STATE.read_bytes()


def facts(member: Member) -> tuple[Any, ...]:
    """All that a command can change."""
    detector = member.detector
    return (
        detector.learned,
        detector.quarantine.rows().tobytes(),
        detector.evidence.C.tobytes(),
        detector.evidence.count,
    )


def done(member: Member) -> list[str]:
    return [one["command"] for one in member.notes.get(COMMANDS, [])]


def wait_for_another_state(before: int) -> None:
    """Waits until there is another file in the place of the state, without a pause."""
    until = time.monotonic() + 180.0
    while STATE.stat().st_ino == before:
        assert time.monotonic() < until, "waited in vain"


@contextmanager
def working(url: str) -> Iterator[ForkServerProcess]:
    """An agent as a process of its own; killed at the end if it was not before."""
    usual = {"state": str(STATE), "source": "pump.csv", "follow": True, "verdicts": ""}
    process = CONTEXT.Process(target=run_agent, args=(usual | {"exchange": f"{url}/pumps"},))
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


@pytest.mark.parametrize("command", COMMAND, ids=lambda one: one.action)
def test_an_agent_that_is_killed_has_done_it_once_or_not_at_all(
    pump: bytes, command: Command
) -> None:
    member = Member.from_bytes(pump)
    before = facts(member)
    said = perform(member, command.action, command.words)["said"]
    after = facts(member)
    assert before != after
    chance, whole = random.Random(command.action), 0.0
    for number in range(KILLS + 1):
        STATE.write_bytes(pump)
        place = STATE.stat().st_ino
        server = HonestExchange(CHARTER, [], asks=[command])
        with saying(server) as url:
            with working(url) as process:
                wait_until(lambda server=server: server.heard != [])
                began = time.monotonic()
                if number % 2 == 0:
                    # In the moment in which it is saved, so that nothing else is.
                    wait_for_another_state(place)
                    whole = time.monotonic() - began
                else:
                    time.sleep(chance.uniform(0.0, 2.0 * whole))
                process.kill()
                process.join()
            found = member_in(STATE)
            # What it changed and that it was done are in one file.
            assert (facts(found), done(found)) in ((before, []), (after, [command.id]))
            with working(url):
                wait_until(lambda server=server: server.results != [])
            # Once more it would have said that no row waited, and nothing was learned.
            assert [list(one.said) for one in server.results] == [said]
            found = member_in(STATE)
            assert (facts(found), done(found)) == (after, [command.id])
