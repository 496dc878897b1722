"""Commands: each is done once, and what came of it is told until it was heard."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from elmgrove import Detector
from elmgrove.detector.feedback import accept, reject
from elmgrove.detector.history import Span
from elmgrove.device import actions, commands
from elmgrove.device.commands import COMMANDS, Commands
from elmgrove.errors import InconsistentState
from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.member import Member
from elmgrove.federation.report import MOST_BYTES_RESULTS
from elmgrove.federation.schemas import MOST_RESULTS, json_size
from support.factories import trained

WAITING = 60


def command(number: int | str, action: str = "accept", **words: Any) -> Command:
    return Command(f"command-{number}", action, words, "anna", 1.7e9)


class Disk:
    """Where a member is saved; full if a test wants it."""

    def __init__(self) -> None:
        self.saved: list[bytes] = []
        self.full = False

    @contextmanager
    def __call__(self, member: Member) -> Iterator[None]:
        if self.full:
            raise OSError(28, "No space left on device", "pump.elm")
        blob = member.to_bytes()
        yield
        self.saved.append(blob)


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def member() -> Member:
    """A device with anomalous rows in quarantine."""
    X = np.random.default_rng(4).normal(size=(400, 3))
    detector = trained(Detector.for_data(X), X, np.arange(400.0))
    for number, row in enumerate(X[:WAITING]):
        detector.observe(row + 30.0, 400.0 + number)
    assert len(detector.quarantine) == WAITING
    return Member("pump", detector)


@pytest.fixture(autouse=True)
def _hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "REST", 0.0)


def test_it_is_done_once_however_often_it_is_told(member: Member, disk: Disk) -> None:
    made = Commands(member, disk)
    assert not made.step()
    made.take([command(1), command(1), command(1)])
    assert made.step()
    assert not made.step()
    made.take([command(1)])
    assert not made.step()
    assert member.detector.learned == 400 + WAITING
    (result,) = made.results()
    assert (result.command, result.refused) == ("command-1", False)
    assert f"{WAITING} rows were learned as a new normal" in result.said[0]
    assert len(disk.saved) == 1


def test_what_it_changed_and_that_it_was_done_are_saved_in_one_file(
    member: Member, disk: Disk
) -> None:
    made = Commands(member, disk)
    made.take([command(1), command(2, "reject")])
    for rows in (WAITING, WAITING):
        assert made.step()
        again = Member.from_bytes(disk.saved[-1])
        assert again.detector.learned == 400 + rows
        # One that was killed now goes on from that file: it does nothing, and says the same.
        restarted = Commands(again, Disk())
        restarted.take([command(1), command(2, "reject")][: len(disk.saved)])
        assert not restarted.step()
        assert restarted.results() == made.results()
    assert len(made.results()) == 2


def test_an_outcome_is_told_until_it_was_heard(member: Member, disk: Disk) -> None:
    made = Commands(member, disk)
    made.take([command(1), command(2, "reject")])
    made.step()
    first = made.results()
    made.step()
    made.arrived()
    assert [one.command for one in made.results()] == ["command-2"], (
        "it was not told with the first"
    )
    made.arrived()
    assert made.results() == ()
    # A server that was restored asks again, and is told again, but nothing is done.
    made.take([command(1)])
    assert not made.step()
    (again,) = made.results()
    assert (again.command, again.time, again.refused) == (first[0].command, first[0].time, False)


def test_what_cant_be_saved_is_not_done(
    member: Member, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    made, disk.full = Commands(member, disk), True
    made.take([command(1)])
    assert not made.step()
    assert (member.detector.learned, made.results()) == (400, ())
    assert "No space left" in caplog.text
    assert not made.step(), "it is asked again with the next sync"
    disk.full = False
    made.take([command(1)])
    assert made.step()
    assert member.detector.learned == 400 + WAITING


def test_a_server_may_take_out_a_tenth_of_a_day_and_no_more(
    member: Member, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    made, before = Commands(member, disk), member.detector.evidence
    # All of it, in one request, as anybody could ask who has a token that manages.
    for number, words in enumerate([{"from": 0.0}, {"to": 1e10}, {"from": 300.0, "to": 341.0}]):
        made.take([command(number, "reject", **words)])
        assert made.step()
        refused = made.results()[-1]
        assert refused.refused
        assert "a server may ask for 40 a day" in refused.said[0]
        assert "ask at the device" in refused.said[0]
        assert member.detector.evidence == before
    # Nor by little and little.
    caplog.set_level(logging.WARNING)
    caplog.clear()
    made.take([command(4, "reject", **{"from": 300.0, "to": 330.0})])
    made.step()
    assert not made.results()[-1].refused
    assert member.detector.evidence.count == 370
    assert "reject, asked by anna on the server: " in caplog.text
    assert "30 rows learned were taken out" in caplog.text
    made.take([command(5, "reject", **{"from": 330.0, "to": 341.0})])
    made.step()
    assert "11 learned rows, after 30 in the last day" in made.results()[-1].said[0]
    # What it undoes is given back, and may be asked for again.
    made.take([command(6, "undo")])
    made.step()
    assert not made.results()[-1].refused
    assert member.detector.evidence.close_to(before, 1e-9)
    made.take([command(7, "reject", **{"from": 330.0, "to": 370.0})])
    made.step()
    assert member.detector.evidence.count == 360


def test_a_server_may_not_take_all_out_by_instead_unless_the_device_allows_any(
    member: Member, disk: Disk
) -> None:
    made = Commands(member, disk)
    made.take([command(1, instead=True)])
    made.step()
    assert made.results()[-1].refused
    assert member.detector.learned == 400
    made = Commands(member, disk, allowed="any")
    made.take([command(2, instead=True)])
    made.step()
    assert not made.results()[-1].refused
    assert member.detector.evidence.count == WAITING


def test_rows_of_more_than_a_day_are_not_a_servers_to_take_out(disk: Disk) -> None:
    X = np.random.default_rng(4).normal(size=(4000, 3))
    detector = trained(Detector.for_data(X, window=1), X, np.arange(4000.0) * 3600.0)
    member = Member("pump", detector)
    made = Commands(member, disk)
    made.take([command(1, "reject", **{"from": 3600.0 * 3900, "to": 3600.0 * 3950})])
    made.step()
    assert "more than a day" in made.results()[-1].said[0]
    made.take([command(2, "reject", **{"from": 3600.0 * 3900, "to": 3600.0 * 3920})])
    made.step()
    assert not made.results()[-1].refused
    assert detector.evidence.count == 3980


def test_what_the_owner_answered_is_not_undone_beyond_the_bound(member: Member, disk: Disk) -> None:
    made = Commands(member, disk)
    accept(member.detector, by="command line")
    made.take([command(1, "undo")])
    made.step()
    assert made.results()[-1].refused, f"{WAITING} rows are more than a tenth of 400"
    assert member.detector.learned - member.detector.taken == 400 + WAITING


def test_what_the_owner_took_out_is_not_put_back_beyond_the_bound(
    member: Member, disk: Disk
) -> None:
    made = Commands(member, disk)
    reject(member.detector, Span(0.0, 1e12), by="command line")
    assert member.detector.evidence.count == 0
    made.take([command(1, "undo")])
    made.step()
    assert made.results()[-1].refused
    assert member.detector.evidence.count == 0


def test_what_is_refused_or_a_fault_is_told_and_changes_nothing(
    member: Member, disk: Disk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, before = Commands(member, disk), member.to_bytes()
    made.take([command(1, **{"from": "2024-05-01T00:00:00Z", "to": "2023-01-01T00:00:00Z"})])
    made.step()
    monkeypatch.setattr(actions, "accept", lambda *_, **__: 1 / 0)
    made.take([command(2)])
    made.step()
    results = made.results()
    assert [one.refused for one in results] == [True, True]
    assert "ZeroDivisionError" in results[1].said[0]
    assert [bool(r.exc_info) for r in caplog.records if r.levelno == logging.WARNING] == [
        False,
        True,
    ]
    del member.notes[COMMANDS]
    assert (member.to_bytes(), disk.saved) == (before, [])


def test_what_fails_half_way_ends_the_agent_and_is_not_saved(
    member: Member, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = iter([actions.accept])
    monkeypatch.setattr(actions, "accept", lambda *a, **k: next(tries)(*a, **k))
    made = Commands(member, disk)
    made.take([command(1)])
    with pytest.raises(InconsistentState):
        made.step()
    assert disk.saved == []


def test_outcomes_are_within_their_bytes(member: Member, disk: Disk) -> None:
    long = [CommandResult(f"{n}", 1.0, False, ("温" * 900,)).fields for n in range(MOST_RESULTS)]
    member.notes[COMMANDS] = long
    made, told = Commands(member, disk), list[str]()
    while results := made.results():
        assert json_size([one.fields for one in results]) <= MOST_BYTES_RESULTS
        told += [one.command for one in results]
        made.arrived()
    assert told == [f"{n}" for n in range(MOST_RESULTS)]


def test_rows_come_first_however_many_commands_there_are(
    member: Member, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "REST", 3.0)
    now = [0.0]
    monkeypatch.setattr(commands.time, "monotonic", lambda: now[0])
    do = Commands._do

    def slow(self: Commands, one: Command) -> bool:
        now[0] += 2.0
        return do(self, one)

    monkeypatch.setattr(Commands, "_do", slow)
    made = Commands(member, disk)
    made.take([command(1), command(2, "reject")])
    assert made.step()
    now[0] += 5.9
    assert not made.step()
    now[0] += 0.2
    assert made.step()
    # At the end of all rows nobody waits.
    made.take([command(3), command(4)])
    assert made.finish()
    assert not made.finish()
    assert len(made.results()) == 4
