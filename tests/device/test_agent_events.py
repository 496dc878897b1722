"""What a person is told of a machine that goes wrong: an event, a question, an end, and no more."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmgrove.device.agent import Agent
from elmgrove.device.settings import Settings
from support.agents import Start, append_rows, state, verdicts
from support.commands import Elmgrove
from support.factories import write_rows
from support.laws import law_seeds

pytestmark = pytest.mark.usefixtures("own_folder")

PUMP = ["rpm", "temp", "volt", "amp"]
#: Rows of a day, one a minute.
DAY = 1440


def pump(rows: int, seed: int) -> np.ndarray:
    """One load is behind all but the voltage."""
    rng = np.random.default_rng([seed, rows])
    load = rng.uniform(0.2, 1.0, size=rows)
    levels = [1000.0 + 400.0 * load, 40.0 + 30.0 * load, np.full(rows, 230.0), 2.0 + 8.0 * load]
    return np.stack(levels, axis=1) + [10.0, 1.0, 1.0, 0.4] * rng.normal(size=(rows, 4))


def hotter(X: np.ndarray) -> np.ndarray:
    return X + np.array([0.0, 15.0, 0.0, 0.0])


def kinds(told: Sequence[dict[str, Any]]) -> list[tuple[int | None, str]]:
    return [(one.get("number"), one["kind"]) for one in told]


def learn(elmgrove: Elmgrove, X: np.ndarray) -> None:
    write_rows(Path("normal.csv"), X, PUMP)
    elmgrove("learn", "normal.csv", "--state", "pump.elm")


def test_a_fault_that_ends_is_one_event_that_ends(device: Start, elmgrove: Elmgrove) -> None:
    learn(elmgrove, pump(600, 1))
    X = np.vstack([pump(100, 2), hotter(pump(200, 3)), pump(500, 4)])
    write_rows(Path("pump.csv"), X, PUMP)
    started = device("pump", command="tee -a told.jsonl", webhook_format="json")
    assert started.end() == 0, started.log
    told, rows = verdicts(Path("told.jsonl")), verdicts(Path("pump.jsonl"))
    assert kinds(told) == [(1, "opened"), (None, "change"), (1, "ended")]
    assert told[0]["causes"][0]["feature"] == told[1]["sensors"][0]["sensor"] == "temp"
    begun, ended = (datetime.fromisoformat(told[2][name]) for name in ("begin", "end"))
    times = [datetime.fromisoformat(one["time"]) for one in rows]
    assert begun == times[100]
    assert times[299] <= ended <= times[360]
    assert 200 <= told[2]["rows"] <= 205
    assert started.log.count("event 1 ended: ") == 1
    assert state(Path(), "pump").detector.events.open is None


# Through crashes


def test_killed_with_an_open_event_it_goes_on_with_it(device: Start, elmgrove: Elmgrove) -> None:
    learn(elmgrove, pump(600, 1))
    write_rows(Path("pump.csv"), np.vstack([pump(50, 2), hotter(pump(6, 3))]), PUMP)
    given = {"follow": True, "save_rows": 1, "command": "tee -a told.jsonl"}
    first = device("pump", **given)
    first.until(lambda: len(verdicts(Path("pump.jsonl"))) == 56)
    first.until(
        lambda: (known := state(Path(), "pump")) is not None and known.detector.events.row == 56
    )
    first.until(lambda: len(verdicts(Path("told.jsonl"))) == 1)
    first.kill()
    opened = state(Path(), "pump").detector.events.open
    assert (opened.number, opened.rows) == (1, 6)

    append_rows(Path("pump.csv"), np.vstack([hotter(pump(2, 4)), pump(80, 5)]))
    again = device("pump", **given | {"follow": False})
    assert again.end() == 0, again.log
    assert "still open, event 1: since " in again.log
    assert kinds(verdicts(Path("told.jsonl"))) == [(1, "opened"), (1, "ended")]
    [event] = state(Path(), "pump").detector.events.closed
    assert (event.begin, event.rows) == (opened.begin, 8)


# A day


def day(name: str, X: np.ndarray, normal: np.ndarray, elmgrove: Elmgrove) -> list[dict[str, Any]]:
    """What an agent at its defaults tells of rows, after it learned normal ones."""
    names = [f"m{column}" for column in range(X.shape[1])]
    write_rows(Path(f"{name}-normal.csv"), normal, names)
    write_rows(Path(f"{name}.csv"), X, names)
    elmgrove("learn", f"{name}-normal.csv", "--state", f"{name}.elm")
    given = {"state": f"{name}.elm", "source": f"{name}.csv"}
    Agent(Settings(**given, verdicts=f"{name}.jsonl", only="events")).run()
    return verdicts(Path(f"{name}.jsonl"))


@pytest.mark.parametrize("seed", law_seeds(3))
def test_a_simulated_day_with_three_faults_is_three_events(seed: int, elmgrove: Elmgrove) -> None:
    X = pump(DAY, seed)
    faults = {200: 1, 600: 3, 1100: 0}
    size = {0: -150.0, 1: 15.0, 3: 6.0}
    for begin, column in faults.items():
        X[begin : begin + 30, column] += size[column]
    told = day("pump", X, pump(3 * DAY, 10 + seed), elmgrove)
    opened = [one for one in told if one["kind"] == "opened"]
    lines = [int(one["where"].rpartition(" ")[2]) - 2 for one in opened]
    assert [min(faults, key=lambda begin: abs(begin - row)) for row in lines] == list(faults)
    assert all(0 <= row - begin <= 4 for row, begin in zip(lines, faults, strict=True))
    assert [one["causes"][0]["feature"] for one in opened] == ["m1", "m3", "m0"]
    # A fault of half an hour may be asked about, if it ends too late for a spike.
    assert len(told) <= 3 * len(faults)
    assert Counter(one["kind"] for one in told)["opened"] == len(faults)
