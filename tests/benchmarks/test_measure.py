"""What the quality benchmark counts: windows, streams, spreads and targets."""

import numpy as np
import pytest
from benchmarks.quality import adapter
from benchmarks.quality.battery import ORACLE, Case, tried
from benchmarks.quality.measure import Quality, judged, measured
from benchmarks.quality.methods import DEFAULT, FIRST, FirstRelease
from benchmarks.quality.page import page
from benchmarks.quality.runs import Record, Results
from benchmarks.quality.summary import lines
from benchmarks.quality.targets import judged as targets
from benchmarks.quality.windows import stacked, stacked_each

from elmgrove import HiddenLayer, Scaling
from support.literal import elm, hidden

ROWS = np.arange(8.0).reshape(4, 2)


def quality(auc: float) -> Quality:
    return Quality(auc, 0.5, 0.5, 0.01, 1.0, 1.0)


def test_windows_hold_the_rows_before_the_last_one() -> None:
    assert stacked(ROWS, 3).tolist() == [[0, 1, 2, 3, 4, 5], [2, 3, 4, 5, 6, 7]]
    each = stacked_each(ROWS, 3)
    assert len(each) == len(ROWS)
    assert np.array_equal(each[2:], stacked(ROWS, 3))
    assert each[0].tolist() == [0, 1, 0, 1, 0, 1]
    assert stacked(ROWS, 1) is ROWS


@pytest.mark.parametrize("window", [1, 10])
def test_a_detector_answers_for_every_row(window: int) -> None:
    rows = np.random.default_rng(0).normal(size=(600, 3)) @ np.ones((3, 3))
    watcher = adapter.made(rows, window, None, seed=0)
    assert watcher.window == window
    watcher.learn(rows)
    assert watcher.score(rows[:50]).shape == (50,)
    seen = watcher.observe(rows[:50])
    assert len(seen.score) == len(seen.anomalous) == len(seen.state) == 50


def test_a_stream_is_judged_while_it_watches() -> None:
    states = ["learning"] * 3 + ["watching"] * 5
    flagged = np.array([1, 1, 1, 0, 1, 0, 1, 1], bool)
    labels = np.array([0, 0, 0, 1], bool)
    found = judged(states, flagged, 4, labels)
    assert found.watching_from == 3
    assert found.flagged_in_training == 0.0
    assert found.false_alarms == pytest.approx(2 / 3)
    assert found.recall == 1.0
    assert judged(["learning"] * 8, flagged, 4, labels).false_alarms is None


def test_a_method_that_knows_nothing_is_measured_as_such() -> None:
    class Dummy:
        threshold = 0.5

        def fit(self, train: np.ndarray) -> None: ...

        def score(self, test: np.ndarray) -> np.ndarray:
            return np.zeros(len(test))

    found = measured(Dummy(), ROWS, ROWS, np.array([0, 0, 0, 1], bool))
    assert (found.auc, found.recall, found.false_alarms) == (0.5, 0.0, 0.0)


def test_the_first_release_is_its_equations() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 6)) * [1, 2, 3, 4, 5, 6]
    method = FirstRelease(seed=3)
    method.fit(rows)
    X = Scaling.fitted("standard", rows)(rows)
    layer = HiddenLayer(6, 3, seed=3)
    H = hidden(X, layer.alpha, layer.b, "identity")
    errors = np.square(X - H @ elm(H, X)).mean(axis=1)
    # The equations have no ridge, 0.1 has 0.001.
    assert method.score(rows) == pytest.approx(errors, rel=1e-3)


def test_spreads_are_over_seeds_and_over_devices() -> None:
    found = [
        Record("SMD", device, DEFAULT, seed, quality(auc))
        for device, seed, auc in (("a", 0, 0.8), ("a", 1, 0.7), ("b", 0, 0.8), ("b", 1, 0.9))
    ]
    [line] = lines(found)
    assert line.auc == pytest.approx(0.8)
    assert line.seeds_spread == pytest.approx(0.0)
    assert line.worst_spread == pytest.approx(0.1)
    assert line.devices_spread == pytest.approx(0.05)


def test_peers_are_compared_on_the_devices_that_they_have() -> None:
    aucs = {DEFAULT: {"a": 0.9, "b": 0.5}, FIRST: {"a": 0.8, "b": 0.8}, "ECOD": {"a": 0.9}}
    found = [
        Record("HAR pairs", device, method, 0, quality(auc))
        for method, known in aucs.items()
        for device, auc in known.items()
    ]
    met = {one.target: one.met for one in targets(Results(found))}
    assert met == {
        "AUC ≥ that of the best peer that streams or merges − 0.01": True,
        "AUC no worse than 0.1's": False,
    }


def test_a_small_run_makes_a_page() -> None:
    found = tried(Case("independent columns", 2, 0, orders=2, peers=False, windows=False))
    results = Results(battery=found)
    best = next(one for one in found if one.method == ORACLE)
    assert best.share("block") > 0.95
    assert {one.order for one in found if one.method == DEFAULT} == {0, 1}
    about = {
        **{"date": "today", "processor": "one", "cores": 1, "python": "3", "packages": {}},
        **{"quick": True, "not there": ["SMD"]},
    }
    text = page(results, targets(results), about)
    assert "2 sensors, block: ≥ 95% of rows" in text
    assert "Not in the data folder, so not measured: SMD." in text
