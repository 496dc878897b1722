"""``elmgrove fleet show``: each device of a fleet, and how much it rests on the others."""

import json
from pathlib import Path

import pytest

from support.commands import Elmgrove, one_clear_line
from support.fans import fan_rows, write_fan_rows


@pytest.fixture
def fleet(elmgrove: Elmgrove, fan_1: Path) -> list[str]:
    """One device that has seen enough, and one that has just begun."""
    write_fan_rows("few.csv", fan_rows(2, 4))
    elmgrove("learn", "few.csv", "--state", "few.elm", "--like", fan_1)
    for state, file in ((fan_1, "fan-1.evidence"), ("few.elm", "few.evidence")):
        assert elmgrove("share", "--no-guard", "--state", state, "-o", file).code == 0
    return ["fan-1.evidence", "few.evidence"]


def test_it_shows_rows_thresholds_and_what_is_borrowed(
    elmgrove: Elmgrove, fleet: list[str]
) -> None:
    ran = elmgrove("fleet", "show", *fleet, "--json")
    old, young = json.loads(ran.out)
    assert (old["device"], old["rows"], old["patterns"]) == ("fan-1", 300, 1)
    assert old["threshold"] > 0.0
    assert old["borrows"] == {"rows": 0.0, "lenders": 1, "width": 1.0}
    assert (young["rows"], young["threshold"], young["borrows"]["lenders"]) == (4, None, 1)
    assert young["borrows"]["rows"] == pytest.approx(6 * 2.718281828 ** -((4 / 6) ** 2))
    assert 0.0 < young["borrows"]["width"] < 1.0
    shown = elmgrove("fleet", "show", *fleet).out
    for text in ("2 devices", "still learning", "4 rows' worth from 1 device", "seen enough"):
        assert text in shown


def test_one_device_alone_borrows_nothing(elmgrove: Elmgrove, fleet: list[str]) -> None:
    (alone,) = json.loads(elmgrove("fleet", "show", fleet[1], "--json").out)
    assert alone["borrows"]["rows"] == 0.0


def test_an_exchange_that_nobody_used_is_said(elmgrove: Elmgrove, fan_1: Path) -> None:
    elmgrove("federation", "create", "fans", "--like", fan_1, "--folder", "shared")
    assert "no device contributed" in one_clear_line(elmgrove("fleet", "show", "shared"))
