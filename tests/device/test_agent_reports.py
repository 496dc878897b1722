"""An agent tells its server how it is doing, does what is asked there, and needs no such server."""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from elmgrove import Detector
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from elmgrove.federation.charter import Charter
from elmgrove.federation.commands import Command
from elmgrove.storage.disk import save
from support.agents import append_rows, at_work
from support.exchanges import Asked, HonestExchange, Reply, saying
from support.factories import detector_in, member_in, normal_rows, trained_member, write_rows
from support.serving import wait_until

#: Rows that a device has learned, so that it watches; those that wait; those that it reads first.
ROWS, ANOMALOUS, NEW = 400, 9, 30


CHARTER = Charter("fans", Detector.for_data(normal_rows(0, 300, 4)).basis)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("elmgrove.device.sources.text.POLL", 0.01)
    member = trained_member(CHARTER.start("fan"), normal_rows(1, ROWS, 4))
    for row in normal_rows(2, ANOMALOUS, 4):
        member.detector.observe(row + 30.0, 1.7e9)
    assert len(member.detector.quarantine) == ANOMALOUS
    save(Path("fan.elm"), member)
    write_rows(Path("fan.csv"), normal_rows(3, NEW, 4))


def settings(url: str, **more: Any) -> dict[str, Any]:
    usual = {"name": "fan", "state": "fan.elm", "source": "fan.csv", "verdicts": ""}
    here = {"exchange": f"{url}/fans", "token": "join", "follow": True}
    return usual | here | more


@contextmanager
def told_of(
    answer: Callable[[Asked], Any], seconds: float = 3600.0, **more: Any
) -> Iterator[Agent]:
    """An agent at work with a server that answers so."""
    with saying(answer) as url, at_work(**settings(url, sync_seconds=seconds, **more)) as agent:
        yield agent


def synced(caplog: pytest.LogCaptureFixture) -> int:
    return sum(r.getMessage().startswith("sync: ") for r in caplog.records)


def command(number: int, action: str = "accept", **words: Any) -> Command:
    return Command(f"command-{number}", action, words, "anna", 1.7e9)


def counted(server: HonestExchange) -> int:
    """Rows of all minutes that were told: the later of one minute counts."""
    return sum({m.minute: m.rows for one in server.heard for m in one.minutes}.values())


def test_an_command_is_done_and_told_at_once_however_seldom_it_syncs() -> None:
    server = HonestExchange(CHARTER, [], asks=[command(1)])
    # Under the guard a second sync would follow the first one anyway.
    with told_of(server, guard=False):
        wait_until(lambda: len(server.results) == 1)
        (result,) = server.results
        assert not result.refused
        assert "9 rows were learned as a new normal" in result.said[0]
        kept = member_in("fan.elm")
        assert kept.detector.learned >= ROWS + ANOMALOUS
        assert kept.notes["commands"][0]["command"] == "command-1"
    first, *_, last = server.heard
    assert last.time - first.time < 100.0, "soon, not with the next sync"
    assert (first.status["quarantine"], last.status["quarantine"]) == (ANOMALOUS, 0)


def test_what_is_asked_before_a_restart_is_done_after_it() -> None:
    server = HonestExchange(CHARTER, [])
    with told_of(server):
        wait_until(lambda: server.heard != [])
    server.asks = [command(1, "reject"), command(2)]
    with told_of(server):
        wait_until(lambda: len(server.results) == 2)
    assert "9 rows were dropped" in server.results[0].said[0]
    assert "No row waited" in server.results[1].said[0]


def test_an_agent_whose_rows_end_does_what_is_asked_with_its_last_sync() -> None:
    """As one that is run now and then: its rows may end before the first sync does."""
    server = HonestExchange(CHARTER, [], asks=[command(1)])
    with saying(server) as url:
        Agent(Settings(**settings(url, follow=False))).run()
    (result,) = server.results
    assert "9 rows were learned" in result.said[0]
    # None of the new rows: they came while the event was open.
    assert detector_in("fan.elm").learned == ROWS + ANOMALOUS


def test_a_device_that_does_no_commands_refuses_them() -> None:
    server = HonestExchange(CHARTER, [], asks=[command(1)])
    with told_of(server, server_commands="none"):
        wait_until(lambda: len(server.results) == 1)
    assert server.results[0].refused
    assert len(detector_in("fan.elm").quarantine) == ANOMALOUS


# Servers that take no reports


class Deaf:
    """A server that is honest, but for what it answers to reports."""

    def __init__(self, status: int, problem: str = "not-found") -> None:
        self.honest, self.asked = HonestExchange(CHARTER, []), list[Asked]()
        self.answer = Reply.json(
            {"type": f"urn:elmgrove:problem:{problem}", "title": "No", "detail": "it is not there"},
            status,
        )

    def __call__(self, asked: Asked) -> Reply:
        if asked.route != "PUT /reports":
            return self.honest(asked)
        self.asked.append(asked)
        return self.answer


@pytest.mark.parametrize("status", [500, 404, 200])
def test_a_server_that_does_not_hear_is_told_again_and_the_sync_goes_well(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault, a page of somebody else's, an answer that is none."""
    caplog.set_level(logging.INFO)
    server = Deaf(status)
    server.answer = Reply(status, b"<html>")
    with told_of(server, 0.01):
        wait_until(lambda: synced(caplog) >= 5)
        server.asked.clear()
        wait_until(lambda: len(server.asked) >= 2)
        server.answer = Reply.json({"commands": []})
        server.asked.clear()
        wait_until(lambda: len(server.asked) >= 3)
    untold = [r for r in caplog.records if "could not be reported" in r.getMessage()]
    assert len(untold) == 1, "once, not with each sync"
    assert "sync failed" not in caplog.text
    first, *_, last = (json.loads(asked.body)["minutes"] for asked in server.asked)
    assert sum(minute[1] for minute in first) == NEW, "until they were heard"
    assert last == []


# What is asked by somebody who wants no good


def test_a_server_that_asks_and_asks_does_not_hold_up_the_rows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Thousands of commands with each answer, and each time others."""
    honest, given = HonestExchange(CHARTER, []), [0]

    def greedy(asked: Asked) -> Reply:
        if asked.route == "PUT /reports":
            given[0] += 1
            asks = [command(2000 * given[0] + n, "reject").fields for n in range(1500)]
            return Reply.json({"commands": asks})
        return honest(asked)

    with told_of(greedy, 3600.0):
        wait_until(lambda: given[0] >= 3)
        append_rows(Path("fan.csv"), normal_rows(4, 500, 4))
        wait_until(lambda: learned() >= ROWS + 400)
        assert given[0] < 100
    member = member_in("fan.elm")
    assert len(member.notes["commands"]) <= 200


def learned() -> int:
    path = Path("fan.elm")
    return detector_in(path).learned if path.exists() else 0


def test_a_row_that_cant_be_read_is_counted_and_not_quoted() -> None:
    with Path("fan.csv").open("a") as file:
        file.write("987654321x,1,2,3\n")
    bodies, honest = list[bytes](), HonestExchange(CHARTER, [])

    def listening(asked: Asked) -> Reply:
        if asked.route == "PUT /reports":
            bodies.append(asked.body)
        return honest(asked)

    append_rows(Path("fan.csv"), normal_rows(5, 20, 4))
    with saying(listening) as url:
        Agent(Settings(**settings(url, follow=False))).run()
    assert counted(honest) == NEW + 20
    texts = b"".join(bodies).decode()
    assert all(json.loads(body)["quarantine"] is None for body in bodies)
    assert "987654321" not in texts
    assert '"left_out":1' in texts
