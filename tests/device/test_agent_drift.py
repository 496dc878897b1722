"""An agent says once what changed and since when, or what drifts, through restarts as well."""

from pathlib import Path

import numpy as np
import pytest

from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from support.agents import Start, state, verdicts
from support.commands import Elmgrove
from support.factories import write_rows
from support.pumps import NAMES, TEMP, pump_rows

pytestmark = pytest.mark.usefixtures("own_folder")


def learn(elmgrove: Elmgrove, X: np.ndarray, *options: object) -> None:
    write_rows(Path("normal.csv"), X, NAMES)
    assert elmgrove("learn", "normal.csv", "--state", "pump.elm", *options).code == 0


def test_a_change_that_stays_is_told_once(device: Start, elmgrove: Elmgrove) -> None:
    """+15 °C from row 600 on: one question in 2,400 rows, with an answer to what and since when."""
    learn(elmgrove, pump_rows(2000, 0))
    X = pump_rows(3000, 50)
    X[600:, TEMP] += 15.0
    write_rows(Path("pump.csv"), X, NAMES)
    started = device("pump", command="tee -a told.jsonl", save_rows=100)
    assert started.end() == 0, started.log
    [told] = [one for one in verdicts(Path("told.jsonl")) if one["kind"] in ("change", "drift")]
    assert told["kind"] == "change"
    assert told["device"] == "pump"
    [temp] = told["sensors"]
    assert temp["sensor"] == "temp"
    assert temp["after"] - temp["before"] == pytest.approx(15.0, abs=0.5)
    assert told["text"].endswith("a new normal or a fault? accept or reject")
    assert started.log.count("accept or reject") == 1
    # The next day it is still there: said at the start, and not asked again.
    again = device("pump", command="tee -a told.jsonl")
    assert again.end() == 0, again.log
    assert "still: since " in again.log
    report = state(Path(), "pump").detector.drift.report
    assert report.rows == pytest.approx(2400, abs=10)


def test_learning_again_is_done_by_the_agent(elmgrove: Elmgrove) -> None:
    learn(elmgrove, pump_rows(2000, 0))
    X = pump_rows(2000, 50)
    X[300:, TEMP] += 15.0
    write_rows(Path("pump.csv"), X, NAMES)
    given = {"state": "pump.elm", "source": "pump.csv", "verdicts": "pump.jsonl"}
    Agent(Settings(**given, on_change="relearn")).run()
    anomalous = [one["anomalous"] for one in verdicts(Path("pump.jsonl"))]
    assert np.mean(anomalous[305:340]) > 0.9
    assert np.mean(anomalous[1000:]) < 0.05
