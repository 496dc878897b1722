"""``learn`` and ``device run`` choose the same window for the same machine."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

from elmgrove.detector.inputs import choose_window, rows_to_decide
from support.commands import Elmgrove
from support.factories import detector_in

DATA = Path(os.environ.get("ELMGROVE_DATA", "nowhere"))


def slow(rows: int, columns: int = 3, keeps: float = 0.95, seed: int = 1) -> np.ndarray:
    """An AR(1) series in each column."""
    noise = np.random.default_rng(seed).normal(size=(rows, columns))
    for before, row in itertools.pairwise(noise):
        row += keeps * before
    return noise


def table(rows: int, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(rows, columns))


def windows(elmgrove: Elmgrove, rows: np.ndarray, name: str = "rows") -> tuple[int, int]:
    """The windows that a file gets by ``learn`` and by ``device run``."""
    path = Path(f"{name}.csv")
    names = ",".join(f"x{i}" for i in range(rows.shape[1]))
    np.savetxt(path, rows, delimiter=",", header=names, comments="", fmt="%.9g")
    learned, ran = Path(f"{name}-learned.elm"), Path(f"{name}-ran.elm")
    assert elmgrove("learn", path, "--state", learned).code == 0
    said = elmgrove("device", "run", "--source", path, "--state", ran, "--verdicts", "")
    assert said.code == 0, said.err
    one, other = (detector_in(state) for state in (learned, ran))
    return one.window, other.window


@pytest.mark.parametrize(
    "rows",
    [
        table(800),
        slow(800),
        slow(200),
        # At first a table, then a series; and a series that becomes a table too late to decide.
        np.vstack([table(100), slow(900)]),
        np.vstack([slow(400), table(900)]),
        # A fault of one of these sensors shows alone, and among ten rows it does not.
        slow(1000, 20, 0.5) @ np.random.default_rng(3).normal(size=(20, 20)),
    ],
    ids=["table", "series", "short", "late series", "late table", "drowned"],
)
def test_a_file_gets_the_same_window_however_it_comes(elmgrove: Elmgrove, rows: np.ndarray) -> None:
    learned, ran = windows(elmgrove, rows)
    assert learned == ran == choose_window(rows).window


def test_rows_after_those_that_decide_change_nothing() -> None:
    rows = np.vstack([slow(2000), table(5000)])
    assert rows_to_decide(3) == (300, 2000)
    assert choose_window(rows) == choose_window(rows[:2000])
    assert rows_to_decide(52) == (520, 2000), "of many columns, as many rows as a window has inputs"


def test_the_log_says_once_that_the_window_was_decided_again(
    elmgrove: Elmgrove, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    rows = np.vstack([table(100), slow(220)])
    np.savetxt("fan.csv", rows, delimiter=",", header="a,b,c", comments="")
    elmgrove("device", "run", "--source", "fan.csv", "--state", "fan.elm", "--verdicts", "")
    assert caplog.text.count("window of 10 instead of 1: the 300 rows so far decided again") == 1
    learned = detector_in("fan.elm").learned
    assert learned == 320 - 9, "no row is lost"


@pytest.mark.skipif(not DATA.exists(), reason="ELMGROVE_DATA names no folder with the data sets")
@pytest.mark.parametrize("name", ["tep", "fleets_nab"])
def test_real_machines_get_the_same_window(elmgrove: Elmgrove, name: str) -> None:
    with np.load(DATA / f"{name}.npz") as data:
        found = [
            windows(elmgrove, data[f"{device}_train"][:1500], f"machine-{number}")
            for number, device in enumerate(data["NAMES"][:8])
        ]
    assert all(learned == ran for learned, ran in found), found
