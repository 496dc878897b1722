"""One question for a state file, and for the agent that has it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from elmgrove.cli import feedback as running
from elmgrove.cli.feedback import Device
from elmgrove.detector.thresholds import FalseAlarmRate
from elmgrove.device import control
from elmgrove.device.control import socket_beside
from elmgrove.errors import InUse, Refused
from elmgrove.storage.disk import locked
from support.agents import Running, Start
from support.commands import Elmgrove, one_clear_line
from support.factories import detector_in
from support.fans import fan_rows, write_fan_rows


@contextmanager
def agent_of(start: Start, state: Path, **settings: Any) -> Iterator[Running]:
    """The agent of a device, with rows that wait for more."""
    write_fan_rows("more.csv", fan_rows(7, 30))
    flags = [word for name, value in settings.items() for word in (f"--{name}", value)]
    words = ("device", "run", "--state", state, "--source", "more.csv", "--follow")
    running = start(*words, "--verdicts", "", *flags)
    running.until(lambda: _rows_of(state) == 30)
    yield running
    assert running.stop() == 0, running.log


def _rows_of(state: Path) -> int | None:
    """How many rows its agent has read; None before there is one."""
    found: int | None = Device(state).ask("status")[0].get("agent", {}).get("rows")
    return found


def rate(state: Path) -> float | None:
    return detector_in(state).progress.rate


def test_of_a_state_file_it_is_done_and_saved(fan_1: Path) -> None:
    said, live = Device(fan_1).ask("tune", rate=0.02)
    assert (live, said["said"][0], rate(fan_1)) == (False, "rate: 0.02, before 0.01", 0.02)
    said, live = Device(fan_1).ask("tune", rate=0.03, dry_run=True)
    assert (said["said"][0], rate(fan_1)) == ("rate: 0.03, before 0.02", 0.02)
    assert Device(fan_1).ask("status")[0]["rate"] == 0.02


def test_of_a_running_agent_it_is_asked_of_the_agent(fan_1: Path, start: Start) -> None:
    before = detector_in(fan_1).learned
    with agent_of(start, fan_1):
        found, live = Device(fan_1).ask("status")
        assert live
        assert found["learned"] > before, "what it learned since it was saved"
        assert Device(fan_1).ask("tune", rate=0.02)[1]
        assert rate(fan_1) == 0.02
        with pytest.raises(Refused, match="rate"):
            Device(fan_1).ask("tune", rate=7)
    assert rate(fan_1) == 0.02
    assert Device(fan_1).ask("status")[1] is False


def test_what_is_not_there_is_named(elmgrove: Elmgrove) -> None:
    for command in ("status", "quarantine", "accept", "reject"):
        assert "gone.elm: No such file" in one_clear_line(elmgrove(command, "gone.elm"))


def test_a_state_that_another_command_has_is_waited_for(
    fan_1: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with locked(fan_1):
            held.set()
            release.wait(60)

    other = threading.Thread(target=hold)
    other.start()
    held.wait(60)
    try:
        assert Device(fan_1).ask("status")[1] is False, "to look at it needs no lock"
        monkeypatch.setattr(running, "PATIENCE", 0.2)
        with pytest.raises(InUse, match="in use by another process"):
            Device(fan_1).ask("tune", rate=0.02)
        monkeypatch.setattr(running, "PATIENCE", 60.0)
        threading.Timer(0.3, release.set).start()
        assert Device(fan_1).ask("tune", rate=0.02)[0]["status"]["rate"] == 0.02
    finally:
        release.set()
        other.join()


@pytest.mark.parametrize("alive", [False, True])
def test_two_commands_at_once_are_done_one_after_another(
    fan_1: Path, start: Start, alive: bool
) -> None:
    def tell() -> list[Running]:
        words = [("--rate", 0.02), ("--alarm", "2/6"), ("--watch-now",)]
        return [start("tune", fan_1, *one) for one in words]

    if alive:
        with agent_of(start, fan_1):
            commands = tell()
            assert [command.end() for command in commands] == [0, 0, 0]
    else:
        commands = tell()
        assert [command.end() for command in commands] == [0, 0, 0]
    detector = detector_in(fan_1)
    policy, rule = detector.gate.policy, detector.events.rule
    assert isinstance(policy, FalseAlarmRate)
    assert (policy.rate, policy.confidence) == (0.02, 0.0)
    assert (rule.k, rule.n) == (2, 6), "none undid another"


def test_a_socket_that_a_killed_agent_left_is_nobody(fan_1: Path, start: Start) -> None:
    write_fan_rows("more.csv", fan_rows(7, 30))
    killed = start("device", "run", "--state", fan_1, "--source", "more.csv", "--follow")
    killed.until(lambda: _rows_of(fan_1) == 30)
    killed.kill()
    assert Path(f".{fan_1}.sock").is_socket()
    assert Device(fan_1).ask("status")[1] is False
    Device(fan_1).ask("tune", rate=0.02)
    assert rate(fan_1) == 0.02
    with agent_of(start, fan_1):
        assert Device(fan_1).ask("status")[1] is True


def test_a_socket_of_somebody_else_is_not_spoken_to(
    fan_1: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent_of(start, fan_1):
        monkeypatch.setattr(control, "_is_of", lambda state, place: False)
        assert Device(fan_1).ask("status")[1] is False


def test_a_link_leads_to_no_other_agent(fan_1: Path, fan_2: Path, start: Start) -> None:
    with agent_of(start, fan_1):
        socket_beside(fan_2).symlink_to(socket_beside(fan_1))
        Device(fan_2).ask("tune", rate=0.02)
        assert rate(fan_2) == 0.02
    assert rate(fan_1) != 0.02


def test_what_is_asked_of_a_file_and_of_its_agent_has_the_same_form(
    elmgrove: Elmgrove, fan_1: Path, start: Start
) -> None:
    def forms() -> list[set[str]]:
        asked = (("status",), ("quarantine",))
        return [set(json.loads(elmgrove(*one, fan_1, "--json").out)) for one in asked]

    saved = forms()
    with agent_of(start, fan_1):
        assert [form - {"agent"} for form in forms()] == saved
