"""``elmgrove status``: how a device is doing, and what others are to it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove import Basis, Detector
from elmgrove.federation.member import Member
from elmgrove.storage.disk import save
from support.agents import Start
from support.commands import Elmgrove, one_clear_line
from support.fans import NAMES, fan_rows, write_fan_rows


def facts(elmgrove: Elmgrove, state: object) -> dict[str, Any]:
    ran = elmgrove("status", state, "--json")
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    return found


def shown(elmgrove: Elmgrove, state: object) -> str:
    ran = elmgrove("status", state)
    assert ran.code == 0, ran.err
    return ran.out


def test_a_device_that_watches_says_so_and_that_it_is_alone(
    elmgrove: Elmgrove, fan_1: Path
) -> None:
    elmgrove(
        "device",
        "run",
        "--source",
        write_fan_rows("more.csv", np.zeros((40, 6))),
        "--state",
        fan_1,
        "--verdicts",
        "",
    )
    known = facts(elmgrove, fan_1)
    assert (known["name"], known["learned"], known["state"]) == ("fan-1", 340, "watching")
    assert known["flagged"]["rows"] > 0
    assert known["since"] is not None
    assert (known["live"], known["event"], known["drift"], known["sync"]) == (False,) + (None,) * 3
    low, high = known["flagged"]["band"]
    assert low <= known["flagged"]["share"] <= high
    assert (known["others"], known["borrows"]["rows"], known["shared"]) == (0, 0.0, 300)
    texts = ("340 rows", "watching since ", ": scores above ", "; stated: 1 %")
    texts += ("none: its own rows alone", "nothing")
    assert all(text in shown(elmgrove, fan_1) for text in texts)


def test_a_young_device_says_what_it_lacks_borrows_and_what_that_changes(
    elmgrove: Elmgrove, fan_1: Path
) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    write_fan_rows("few.csv", fan_rows(2, 4))
    elmgrove("learn", "few.csv", "--state", "few.elm", "--like", fan_1)
    assert facts(elmgrove, "few.elm")["borrows"]["rows"] == 0.0
    elmgrove("merge", "--state", "few.elm", "fan-1.evidence")
    known = facts(elmgrove, "few.elm")
    assert (known["state"], known["threshold"], known["others"]) == ("learning", None, 1)
    assert known["borrows"]["lenders"] == 1
    assert 0.0 < known["borrows"]["width"] < 1.0
    assert known["rows_missing"] > 0
    text = shown(elmgrove, "few.elm")
    assert "learning since " in text
    assert "asks 1 other; events say who knows their like" in text
    assert "4 rows' worth from 1 device; its normal is 0." in text


def test_one_model_of_everybody_is_called_that(elmgrove: Elmgrove, fan_1: Path) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    write_fan_rows("many.csv", fan_rows(2, 100))
    elmgrove("learn", "many.csv", "--state", "many.elm", "--like", fan_1, "--merged")
    elmgrove("merge", "--state", "many.elm", "fan-1.evidence")
    assert "one model of its own rows and those of 1 other" in shown(elmgrove, "many.elm")
    assert facts(elmgrove, "many.elm")["merged"] is True


def test_what_is_no_state_is_said(elmgrove: Elmgrove, fan_1: Path) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    assert "elmgrove.state" in one_clear_line(elmgrove("status", "fan-1.evidence"))


def busy_state(path: str) -> None:
    """A device that has seen events, and drifts, with much to tell."""
    X = fan_rows(3, 3000)
    detector = Detector.for_basis(Basis.fitted(X[:1000], NAMES, scaling="standard"))
    detector.learn_many(X[:1000], np.arange(1000.0))
    shift = np.zeros(6)
    shift[0] = 5.0
    for number, row in enumerate(X[1000:2500]):
        fault = number % 300 < 8 or number >= 1300
        detector.observe(row + shift * fault, 2000.0 + number)
    member = Member("fan", detector)
    said = "sums of 1,000 rows sent, uses 3 other devices (updated)"
    member.notes["sync"] = {"time": 0.0, "said": said, "failed": False, "next": 60.0}
    member.notes["input"] = {"used": 2500, "left_out": 3, "reason": "line 7: no number"}
    save(Path(path), member)


def test_it_fits_on_a_screen_and_tells_of_events_and_drift(
    elmgrove: Elmgrove, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    busy_state("fan.elm")
    text = shown(elmgrove, "fan.elm")
    lines = text.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "4. 1970-01-01 00:48:20 to 00:48:27, 8 rows, " in text
    assert "5. 1970-01-01 00:53:20, still open, " in text
    assert "× threshold: heat" in text
    assert " 1. " not in text, "the last three, and the open one"
    for told in ("changing: scores", "2,500 used, 3 left out", "1,000 rows sent", "heat is 5.0 h"):
        assert told in text
    known = facts(elmgrove, "fan.elm")
    assert known["drift"]["kind"] == "change"
    assert known["event"]["number"] == 5


def test_of_an_agent_that_has_no_state_yet_it_says_what_it_waits_for(
    elmgrove: Elmgrove, start: Start
) -> None:
    write_fan_rows("few.csv", fan_rows(2, 7))
    words = ("--state", "new.elm", "--source", "few.csv", "--follow", "--verdicts", "")
    agent = start("device", "run", *words)
    agent.until(lambda: "its first rows: 7 of 100" in elmgrove("status", "new.elm").out)
    text = shown(elmgrove, "new.elm")
    assert "new.elm: its agent is running" in text
    assert f"process {agent.process.pid} since " in text
    assert facts(elmgrove, "new.elm")["live"] is True
    refused = one_clear_line(elmgrove("accept", "new.elm"))
    assert "the agent has not begun: it waits for its first rows" in refused
    agent.stop()


def test_rows_that_were_taken_out_are_told_beside_those_learned(
    elmgrove: Elmgrove, fan_1: Path
) -> None:
    known = facts(elmgrove, fan_1)
    assert (known["learned"], known["kept"]) == (300, 300.0)
    assert "in the model" not in shown(elmgrove, fan_1)
    write_fan_rows("new.csv", fan_rows(3, 80))
    assert elmgrove("accept", fan_1, "--rows", "new.csv", "--instead").code == 0
    known = facts(elmgrove, fan_1)
    assert (known["learned"], known["kept"]) == (380, 80.0)
    assert "380 rows; 80 of them are in the model" in shown(elmgrove, fan_1)
