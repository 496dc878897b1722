"""Columns that look like a label are noticed, and not learned unless somebody says so."""

import json
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from elmgrove import Detector
from elmgrove.exchange.folder import FolderExchange
from elmgrove.reading.columns import is_label
from support.commands import Elmgrove
from support.factories import detector_in

LEFT_OUT = "olumn 4 ('anomaly') looks like a label and is left out; --label anomaly"


@pytest.fixture(name="data")
def data_fixture(elmgrove: Elmgrove) -> pd.DataFrame:
    rows = np.random.default_rng(1).normal(size=(150, 2))
    times = pd.date_range("2026-03-01", periods=150, freq="min")
    made = pd.DataFrame({"time": times, "flow": rows[:, 0], "amp": rows[:, 1], "anomaly": 0})
    made.loc[140:, "anomaly"] = 1
    made.to_csv("pump.csv", index=False)
    return made


def features(state: str) -> tuple[str, ...] | None:
    return detector_in(state).basis.features


def test_learn_leaves_it_out_and_says_so(elmgrove: Elmgrove, data: pd.DataFrame) -> None:
    ran = elmgrove("learn", "pump.csv", "--state", "pump.elm")
    assert LEFT_OUT in ran.err
    assert features("pump.elm") == ("flow", "amp")
    # Rows of a state are found by name; nothing is to be said about others.
    assert "label" not in elmgrove("score", "pump.csv", "--state", "pump.elm").err


def test_create_leaves_it_out_and_says_so(elmgrove: Elmgrove, data: pd.DataFrame) -> None:
    ran = elmgrove("federation", "create", "pumps", "--data", "pump.csv", "--exchange", "shared")
    assert LEFT_OUT in ran.err
    assert FolderExchange(Path("shared")).charter.basis.features == ("flow", "amp")


def test_run_leaves_it_out_and_says_so(
    elmgrove: Elmgrove, data: pd.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    given = ("--state", "pump.elm", "--verdicts", "")
    assert elmgrove("device", "run", "--source", "pump.csv", *given).code == 0
    assert caplog.text.count(LEFT_OUT) == 1
    assert features("pump.elm") == ("flow", "amp")
    rows = [{"flow": 0.1, "amp": 0.2, "anomaly": label} for label in (0, 1, 7.5, None)]
    Path("more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert elmgrove("device", "run", "--source", "more.jsonl", *given).code == 0
    assert "read 4 rows" in caplog.text, "whatever the column holds later"


def test_for_data_leaves_it_out_and_says_so(
    data: pd.DataFrame, caplog: pytest.LogCaptureFixture
) -> None:
    detector = Detector.for_data(data)
    assert detector.basis.features == ("flow", "amp")
    assert "column 'anomaly' looks like a label and is left out" in caplog.text
    detector.learn_many(data)
    words = data.assign(fault=["no fault", "bearing"] * 75)
    assert Detector.for_data(words).basis.features == ("flow", "amp")
    kept = Detector.for_data(words, categories=["fault"]).basis.features
    assert kept == ("flow", "amp", "fault=bearing", "fault=no fault")


def test_it_is_learned_where_it_is_named(elmgrove: Elmgrove, data: pd.DataFrame) -> None:
    named = [option for name in ("flow", "anomaly") for option in ("--columns", name)]
    assert elmgrove("learn", "pump.csv", "--state", "pump.elm", *named).code == 0
    assert features("pump.elm") == ("flow", "anomaly")
    alone = data[["time", "anomaly"]]
    alone.to_csv("alone.csv", index=False)
    assert elmgrove("learn", "alone.csv", "--state", "alone.elm").code == 0
    assert features("alone.elm") == ("anomaly",), "there is nothing else to learn"


def test_evaluate_reads_it_as_the_label(elmgrove: Elmgrove, data: pd.DataFrame) -> None:
    ran = elmgrove("evaluate", "pump.csv", "--label", "anomaly", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["labelled"] == 10


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("anomaly", ["0", "0"]),
        ("is_anomaly", ["True", "False"]),
        ("isOutlier", [-1, 1]),
        ("Label", ["normal", "attack", "normal"]),
        ("Normal/Attack", ["Normal"]),
        ("ground truth", [0.0]),
        ("target", ["0", "1"]),
    ],
)
def test_what_looks_like_a_label(name: str, cells: list) -> None:
    assert is_label(name, cells)


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("target", ["21.5", "22"]),
        ("fault_current", ["0", "0"]),
        ("pump_on", ["0", "1"]),
        ("is_normal", ["0"]),
        ("y", ["0", "1"]),
        ("class", [str(i) for i in range(9)]),
        ("label", [f"word {i}" for i in range(9)]),
        ("classic", ["0"]),
    ],
)
def test_what_does_not(name: str, cells: list) -> None:
    assert not is_label(name, cells)
