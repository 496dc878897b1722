"""``elmgrove score`` says in a line what is different in rows that are anomalous for good."""

import numpy as np
import pytest

from support.commands import Elmgrove, made_once
from support.fans import write_fan_rows
from support.pumps import NAMES, START, TEMP, pump_rows


@pytest.fixture(name="pump_1")
def pump_1_fixture(elmgrove: Elmgrove) -> str:
    def make() -> None:
        write_fan_rows("normal.csv", pump_rows(2000, 0), NAMES)
        assert elmgrove("learn", "normal.csv", "--state", "pump-1.elm").code == 0

    made_once("pump that may drift", make)
    return "pump-1.elm"


def drift_said(elmgrove: Elmgrove, rows: np.ndarray, state: str) -> str:
    """What is said beyond the count; nothing if nothing is."""
    write_fan_rows("new.csv", rows, NAMES)
    ran = elmgrove("score", "new.csv", "--state", state)
    assert ran.code == 0
    return " ".join(ran.err.split("are anomalous.")[1].split())


def test_another_regime_is_said_with_its_sensors(elmgrove: Elmgrove, pump_1: str) -> None:
    """All of 1,147 rows are anomalous: another operating point, and no word why."""
    X = pump_rows(1147, 1)
    X[:, [0, TEMP, 3]] -= [600, 30, 5]
    said = drift_said(elmgrove, X, pump_1)
    assert said.startswith("Drift: a fault, or another regime, from the first row on: ")
    assert "rpm is 4" in said
    assert "% lower (1" in said
    assert said.endswith(
        "100 % of rows are anomalous: if it is no fault, relearn, or accept it as a new normal."
    )


def test_a_change_is_said_with_its_line(elmgrove: Elmgrove, pump_1: str) -> None:
    X = pump_rows(1147, 1)
    X[600:, TEMP] += 15.0
    said = drift_said(elmgrove, X, pump_1)
    # The header is line 1.
    assert said.startswith("Drift: from line 602 on temp is 3")
    assert "a new normal or a fault? accept or reject" in said


def test_a_time_is_said_where_there_is_one(elmgrove: Elmgrove, pump_1: str) -> None:
    X = pump_rows(1147, 1)
    X[600:, TEMP] += 15.0
    times = START + 60.0 * np.arange(len(X))
    write_fan_rows("new.csv", np.column_stack([times, X]), ["time", *NAMES])
    ran = elmgrove("score", "new.csv", "--state", pump_1)
    assert "Drift: since 10:00 temp is" in ran.err


def test_rows_like_those_learned_are_not(elmgrove: Elmgrove, pump_1: str) -> None:
    assert drift_said(elmgrove, pump_rows(3000, 1), pump_1) == ""
