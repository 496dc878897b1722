"""Agents and a real server: what is told arrives, and what is asked there is done and answered."""

import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import Detector
from elmgrove.federation.charter import Charter
from elmgrove.storage.disk import save
from support.agents import append_rows, at_work, joined
from support.factories import member_in, normal_rows, write_rows
from support.serving import ADMIN, Federation, Server, wait_until

pytestmark = pytest.mark.usefixtures("own_folder")
#: Rows that a device has learned, so that it watches, and those that wait.
ROWS, ANOMALOUS = 400, 9


NUMBERS = count(1)
BASIS = Detector.for_data(normal_rows(0, 300, 4)).basis


@pytest.fixture
def pumps(running_server: Server) -> Federation:
    """A federation, and a device that watches, with anomalous rows in quarantine."""
    made = Charter(f"pumps-{next(NUMBERS)}", BASIS)
    member = made.start("pump")
    member.detector.learn_many(normal_rows(1, ROWS, 4), np.arange(float(ROWS)))
    for number, row in enumerate(normal_rows(2, ANOMALOUS, 4)):
        member.detector.observe(row + 30.0, time.time() + number)
    assert len(member.detector.quarantine) == ANOMALOUS
    save(Path("pump.elm"), member)
    write_rows(Path("pump.csv"), normal_rows(3, 30, 4))
    return running_server.found(made)


def shown(federation: Federation) -> dict[str, Any]:
    """What the server knows of the device; nothing before it told anything."""
    answer = federation.ask("GET", "/reports/pump", ADMIN)
    return answer.json() if answer.status_code == 200 else {}


def ask(federation: Federation, action: str = "accept", **words: Any) -> str:
    asked = {"action": action, "words": words}
    answer = federation.ask("POST", "/commands/pump", ADMIN, json=asked)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def result(federation: Federation, command: str) -> dict[str, Any]:
    """The command as the server shows it, with what came of it."""
    return next(one for one in shown(federation)["commands"] if one["id"] == command)


def test_what_an_agent_tells_is_what_the_server_shows(pumps: Federation) -> None:
    with at_work(**joined(pumps, "pump", follow=True, sync_seconds=0.05)):
        wait_until(lambda: counted(pumps) == 30)
        append_rows(Path("pump.csv"), normal_rows(4, 70, 4))
        wait_until(lambda: counted(pumps) == 100)
        # None of the 60 normal rows after which the event had ended is learned.
        wait_until(lambda: shown(pumps)["report"]["status"]["learned"] >= ROWS + 30)
    found = shown(pumps)
    assert found["report"]["status"]["state"] == "watching"
    assert found["report"]["quarantine"] is None
    (event,) = found["events"]
    assert event["rows"] == ANOMALOUS
    assert len(event["causes"]) == 4


def counted(federation: Federation) -> int:
    return sum(minute[1] for minute in shown(federation).get("minutes", []))


def test_what_a_person_accepts_is_done_and_seen_within_a_second_or_so(pumps: Federation) -> None:
    """Though the device syncs once an hour: the command comes with its first sync."""
    with at_work(**joined(pumps, "pump", follow=True)):
        wait_until(lambda: shown(pumps) != {})
    command = ask(pumps)
    # Under the guard a second sync would follow the first one anyway.
    with at_work(**joined(pumps, "pump", follow=True, sync_seconds=3600.0, guard=False)):
        wait_until(lambda: result(pumps, command)["done"] is not None)
        found = result(pumps, command)
        assert found["refused"] is False
        assert f"{ANOMALOUS} rows were learned as a new normal" in found["said"][0]
        assert shown(pumps)["report"]["status"]["quarantine"] == 0
    kept = member_in("pump.elm")
    # None of the 30 rows that came while the event was open.
    assert kept.detector.learned == ROWS + ANOMALOUS
