"""Rows that were learned already, by their times, are skipped, and that is said."""

import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from elmgrove import Detector
from support.agents import Start
from support.commands import Elmgrove
from support.factories import detector_in

NEW_STATE = ("--state", "pump.elm", "--verdicts", "")


def write(path: str, begin: str, rows: int, **more: object) -> pd.DataFrame:
    values = np.random.default_rng(rows).normal(size=(rows, 3))
    made = pd.DataFrame(values, columns=["flow", "amp", "rpm"])
    made.insert(0, "time", pd.date_range(begin, periods=rows, freq="min"))
    made.to_csv(path, index=False, **more)
    return made


def detector() -> Detector:
    return detector_in("pump.elm")


def test_a_file_is_learned_once(elmgrove: Elmgrove) -> None:
    write("pump.csv", "2026-03-02", 1200)
    assert elmgrove("learn", "pump.csv", "--state", "pump.elm").code == 0
    before = Path("pump.elm").read_bytes()
    ran = elmgrove("learn", "pump.csv", "--state", "pump.elm")
    assert ran.code == 0
    assert "Skipped 1,200 rows that were learned already (up to 2026-03-02T19:59:00Z)" in ran.err
    assert "There is nothing new to learn. pump.elm stays as it is." in ran.err
    assert Path("pump.elm").read_bytes() == before


def test_only_what_is_new_in_a_file_that_has_grown_is_learned(elmgrove: Elmgrove) -> None:
    write("pump.csv", "2026-03-02", 1200)
    elmgrove("learn", "pump.csv", "--state", "pump.elm")
    write("pump.csv", "2026-03-02 10:00", 900)
    ran = elmgrove("learn", "pump.csv", "--state", "pump.elm")
    assert "Skipped 600 rows that were learned already" in ran.err
    assert "pump: learned 300 rows, 1500 in all." in ran.err


@pytest.mark.parametrize("begin", ["2026-02-01", "2026-03-06", "2026-05-01"])
def test_other_times_are_learned_in_whatever_order(elmgrove: Elmgrove, begin: str) -> None:
    """Also between what was learned, and where that is so long that hours are folded together."""
    for place, learned in enumerate(("2026-03-02", "2026-03-09")):
        write("pump.csv", learned, 3 * 1440 + place)
        elmgrove("learn", "pump.csv", "--state", "pump.elm")
    write("other.csv", begin, 500)
    ran = elmgrove("learn", "other.csv", "--state", "pump.elm")
    assert "already" not in ran.err
    assert detector().learned == 2 * 3 * 1440 + 1 + 500


def test_what_was_taken_out_can_be_learned_again(elmgrove: Elmgrove) -> None:
    write("pump.csv", "2026-03-02", 1200)
    elmgrove("learn", "pump.csv", "--state", "pump.elm")
    span = ("--from", "2026-03-02T08:00", "--to", "2026-03-02T10:00")
    assert elmgrove("reject", "pump.elm", *span).code == 0
    ran = elmgrove("learn", "pump.csv", "--state", "pump.elm")
    assert "Skipped 1,080 rows that were learned already" in ran.err
    assert "pump: learned 120 rows, " in ran.err


def test_rows_without_times_can_not_be_recognised(elmgrove: Elmgrove) -> None:
    write("pump.csv", "2026-03-02", 300, columns=["flow", "amp", "rpm"])
    for _ in range(2):
        assert "already" not in elmgrove("learn", "pump.csv", "--state", "pump.elm").err
    assert detector().learned == 600


def test_an_agent_skips_what_was_learned(
    elmgrove: Elmgrove, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    write("pump.csv", "2026-03-02", 1200)
    elmgrove("learn", "pump.csv", "--state", "pump.elm")
    limit = detector().threshold
    ran = elmgrove("device", "run", "--source", "pump.csv", *NEW_STATE)
    assert ran.code == 0
    assert caplog.text.count("skipped 1200 rows that were learned already (up to 2026-03-02") == 1
    assert (detector().learned, detector().threshold) == (1200, limit)
    write("pump.csv", "2026-03-02", 1300)
    caplog.clear()
    elmgrove("device", "run", "--source", "pump.csv", *NEW_STATE)
    assert "skipped 1200 rows" in caplog.text
    assert "read 100 rows" in caplog.text
    # From now on it knows its place, and nothing is skipped by time.
    caplog.clear()
    elmgrove("device", "run", "--source", "pump.csv", *NEW_STATE)
    assert "skipped" not in caplog.text


def test_an_agent_that_follows_says_at_once_what_it_skipped(
    device: Start, elmgrove: Elmgrove
) -> None:
    write("pump.csv", "2026-03-02", 1200)
    elmgrove("learn", "pump.csv", "--state", "pump.elm")
    pump = device("pump", follow=True)
    pump.logs("skipped 1200 rows that were learned already (up to 2026-03-02")
