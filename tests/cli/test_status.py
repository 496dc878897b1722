"""``elmgrove status``: how a device is doing, and what others are to it."""

import json
from pathlib import Path

from support.commands import Elmgrove, one_clear_line
from support.fans import rows, write


def facts(elmgrove: Elmgrove, state: object) -> dict[str, str]:
    ran = elmgrove("status", state, "--json")
    assert ran.code == 0, ran.err
    found: dict[str, str] = json.loads(ran.out)
    return found


def test_a_device_that_watches_says_so_and_that_it_is_alone(
    elmgrove: Elmgrove, fan_1: Path
) -> None:
    known = facts(elmgrove, fan_1)
    assert known["name"] == "fan-1"
    assert known["learned"] == "300 rows"
    assert known["state"].startswith("watching: scores above ")
    assert known["strange"].split()[1:2] == ["of"]
    assert (known["others"], known["borrows"]) == ("none: its own rows alone", "nothing")
    shown = elmgrove("status", fan_1)
    assert all(text in shown.out for text in known.values())


def test_a_young_device_says_what_it_lacks_borrows_and_what_that_changes(
    elmgrove: Elmgrove, fan_1: Path
) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    write("few.csv", rows(2, 4))
    elmgrove("learn", "few.csv", "--state", "few.elm", "--like", fan_1)
    assert facts(elmgrove, "few.elm")["borrows"] == "nothing"
    elmgrove("merge", "--state", "few.elm", "fan-1.evidence")
    known = facts(elmgrove, "few.elm")
    assert known["state"].startswith("learning: ")
    assert known["others"] == "asks 1 other; strange rows that they know are excused"
    assert known["borrows"].startswith("4 rows' worth from 1 device; its normal is 0.")
    assert known["shared"] == "nothing yet"


def test_a_device_that_has_seen_enough_borrows_nothing(elmgrove: Elmgrove, fan_1: Path) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    write("many.csv", rows(2, 100))
    elmgrove("learn", "many.csv", "--state", "many.elm", "--like", fan_1, "--alarm", "strange")
    elmgrove("merge", "--state", "many.elm", "fan-1.evidence")
    known = facts(elmgrove, "many.elm")
    assert known["borrows"] == "nothing: it has seen enough itself"
    assert known["others"].endswith("they know are not excused")


def test_one_model_of_everybody_is_called_that(elmgrove: Elmgrove, fan_1: Path) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    write("many.csv", rows(2, 100))
    elmgrove("learn", "many.csv", "--state", "many.elm", "--like", fan_1, "--alarm", "merged")
    elmgrove("merge", "--state", "many.elm", "fan-1.evidence")
    known = facts(elmgrove, "many.elm")
    assert known["others"] == "one model of its own rows and those of 1 other"
    assert known["borrows"] == "nothing"


def test_what_is_no_state_is_said(elmgrove: Elmgrove, fan_1: Path) -> None:
    elmgrove("share", "--state", fan_1, "-o", "fan-1.evidence")
    assert "elmgrove.state" in one_clear_line(elmgrove("status", "fan-1.evidence"))
