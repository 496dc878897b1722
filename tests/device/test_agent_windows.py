"""The agent with windows: what is chosen, gaps, restarts, and what verdicts say."""

import logging
from pathlib import Path

import numpy as np
import pytest

from elmgrove import Detector
from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from support.agents import append_rows, verdicts
from support.factories import detector_in, trained, write_rows
from support.fans import NAMES, fan_rows, fan_series

pytestmark = pytest.mark.usefixtures("own_folder")
FAN = {"state": "fan.elm", "source": "fan.csv", "verdicts": "fan.jsonl"}
WIDE = 4


def run(**more: object) -> Detector:
    Agent(Settings(**{**FAN, **more})).run()
    return detector_in("fan.elm")


def told() -> list[dict]:
    return verdicts(Path("fan.jsonl"))


@pytest.mark.parametrize(
    ("made", "window", "reason"),
    [(fan_series, 10, "alike (correlation 0."), (fan_rows, 1, "hardly alike (correlation ")],
)
def test_the_first_rows_decide_the_window_and_the_log_says_why(
    caplog: pytest.LogCaptureFixture, made: object, window: int, reason: str
) -> None:
    caplog.set_level(logging.INFO)
    write_rows(Path("fan.csv"), made(1, 150), NAMES)
    detector = run()
    assert (detector.basis.window, detector.basis.score) == (window, "distance")
    assert detector.learned == 150 - window + 1
    assert f"window of {window}: neighbouring rows are {reason}" in caplog.text


def test_no_window_reaches_over_a_bad_row() -> None:
    X = fan_series(1, 60)
    write_rows(Path("fan.csv"), X[:30], NAMES)
    with Path("fan.csv").open("a") as file:
        file.write("1,2,three,4,5,6\n")
    append_rows(Path("fan.csv"), X[30:])
    detector = run(window=str(WIDE))
    apart = trained(Detector.for_basis(detector.basis), X[:30])
    apart.interrupt()
    apart.learn_many(X[30:])
    assert detector.learned == apart.learned == 2 * 27
    assert detector.score_many(X) == pytest.approx(apart.score_many(X), rel=1e-9)


def test_a_restart_goes_on_within_the_window() -> None:
    X = fan_series(1, 60)
    write_rows(Path("fan.csv"), X[:25], NAMES)
    run(window=str(WIDE), start_rows=20)
    append_rows(Path("fan.csv"), X[25:])
    detector = run()
    assert detector.learned == 60 - 3
    at_once = trained(Detector.for_basis(detector.basis), X)
    assert detector.score_many(X) == pytest.approx(at_once.score_many(X), rel=1e-9)


# What the log says about the state


def test_the_log_says_what_is_missing_and_when_it_watches(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    write_rows(Path("fan.csv"), fan_rows(1, 1200), NAMES)
    detector = run(save_rows=100, rate=0.02)
    assert detector.state == "watching"
    lines = [record.getMessage() for record in caplog.records]
    missing = [line for line in lines if line.startswith("learning: ")]
    assert len(missing) > 1
    assert all(line.endswith("until there are alarms (sooner with --watch-now)")
               for line in missing)  # fmt: skip
    [watching] = [line for line in lines if line.startswith("watching: scores above ")]
    assert watching.endswith(" are anomalous")
    assert lines.index(watching) > lines.index(missing[-1])
    states = [one["state"] for one in told()]
    assert states == ["learning"] * states.index("watching") + ["watching"] * states.count(
        "watching"
    )


def test_the_log_says_that_the_machine_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    X = np.vstack([fan_rows(1, 600), fan_rows(2, 60) + 9.0])
    write_rows(Path("fan.csv"), X, NAMES)
    detector = run(watch_now=True)
    assert detector.state == "changing"
    changed = next(n for n, one in enumerate(told()) if one["state"] == "changing")
    anomalous = sum(one["anomalous"] for one in told()[changed - 100 : changed])
    assert f"changing: {anomalous} of the last 100 rows were anomalous" in caplog.text
    assert caplog.text.count("a new normal or a fault? accept or reject") == 1
    caplog.clear()
    run()
    assert "changing: far more than stated is anomalous" in caplog.text
    assert "still open, event 1: since " in caplog.text
