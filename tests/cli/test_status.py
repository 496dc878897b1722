"""``elmgrove status``: how a device is doing, and what others are to it."""

import json
from pathlib import Path
from typing import Any

from support.commands import Elmgrove, one_clear_line
from support.fans import rows, write


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
    known = facts(elmgrove, fan_1)
    assert (known["name"], known["learned"], known["state"]) == ("fan-1", 300, "watching")
    assert known["flagged"]["rows"] > 0
    low, high = known["flagged"]["band"]
    assert low <= known["flagged"]["share"] <= high
    assert (known["others"], known["borrows"]["rows"], known["shared"]) == (0, 0.0, 300)
    texts = ("300 rows", "watching: scores above ", "none: its own rows alone", "nothing")
    assert all(text in shown(elmgrove, fan_1) for text in texts)


def test_a_young_device_says_what_it_lacks_borrows_and_what_that_changes(
    elmgrove: Elmgrove, fan_1: Path
) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    write("few.csv", rows(2, 4))
    elmgrove("learn", "few.csv", "--state", "few.elm", "--like", fan_1)
    assert facts(elmgrove, "few.elm")["borrows"]["rows"] == 0.0
    elmgrove("merge", "--state", "few.elm", "fan-1.evidence")
    known = facts(elmgrove, "few.elm")
    assert (known["state"], known["threshold"], known["others"]) == ("learning", None, 1)
    assert known["borrows"]["lenders"] == 1
    assert 0.0 < known["borrows"]["width"] < 1.0
    assert known["rows_missing"] > 0
    text = shown(elmgrove, "few.elm")
    assert "learning: " in text
    assert "asks 1 other; strange rows that they know are excused" in text
    assert "4 rows' worth from 1 device; its normal is 0." in text


def test_a_device_that_has_seen_enough_borrows_nothing(elmgrove: Elmgrove, fan_1: Path) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    write("many.csv", rows(2, 100))
    elmgrove("learn", "many.csv", "--state", "many.elm", "--like", fan_1, "--alarm", "strange")
    elmgrove("merge", "--state", "many.elm", "fan-1.evidence")
    text = shown(elmgrove, "many.elm")
    assert "nothing: it has seen enough itself" in text
    assert "they know are not excused" in text


def test_one_model_of_everybody_is_called_that(elmgrove: Elmgrove, fan_1: Path) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    write("many.csv", rows(2, 100))
    elmgrove("learn", "many.csv", "--state", "many.elm", "--like", fan_1, "--alarm", "merged")
    elmgrove("merge", "--state", "many.elm", "fan-1.evidence")
    assert "one model of its own rows and those of 1 other" in shown(elmgrove, "many.elm")
    assert facts(elmgrove, "many.elm")["alarm"] == "merged"


def test_what_is_no_state_is_said(elmgrove: Elmgrove, fan_1: Path) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    assert "elmgrove.state" in one_clear_line(elmgrove("status", "fan-1.evidence"))
