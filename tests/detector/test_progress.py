"""Counting: the stated rate ends learning, a higher one does not, and an excess is one event."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from elmgrove import Detector, HiddenLayer
from elmgrove.detector.decision import CHANGING, LEARNING, WATCHING, Flagged, RateTest
from support.laws import law_seeds
from support.snapshots import held, restored


def counted(anomalous: Any, progress: RateTest | None = None, **options: Any) -> RateTest:
    progress = progress or RateTest(**{"rate": 0.01, "confidence": 0.95, "window": 1, **options})
    for one in anomalous:
        progress.count(bool(one))
        if progress.lasting:
            progress.begin(CHANGING)
    return progress


def rows_to_watching(share: float, seed: int, most: int, **options: Any) -> int | None:
    progress = RateTest(**{"rate": 0.01, "confidence": 0.95, "window": 1, **options})
    anomalous = np.random.default_rng(seed).random(most) < share
    for index, one in enumerate(anomalous.tolist()):
        progress.count(one)
        if progress.state == WATCHING:
            return index + 1
    return None


# Wald's test


@pytest.mark.parametrize("rate", [0.01, 0.05])
def test_the_stated_rate_ends_learning_soon(rate: float) -> None:
    took = [rows_to_watching(rate, seed, 20_000, rate=rate) for seed in range(200)]
    assert None not in took
    assert np.median([rows or 0 for rows in took]) < 6 / rate


@pytest.mark.parametrize("rate", [0.01, 0.05])
def test_five_times_the_rate_hardly_ever_ends_it_by_the_first_test(rate: float) -> None:
    """By confidence 95 % in one case of twenty at most, until the test begins again."""
    wrong = 0
    for seed in range(400):
        progress = RateTest(rate, 0.95, 1)
        for one in (np.random.default_rng(seed).random(5000) < 5 * rate).tolist():
            progress.count(one)
            if progress.state == WATCHING or progress.restarts:
                break
        assert progress.state == WATCHING or progress.restarts
        wrong += progress.state == WATCHING
    assert wrong / 400 < 0.06


def test_rows_known_to_be_normal_show_the_rate_at_once() -> None:
    progress = counted([False] * 20)
    assert progress.state == LEARNING
    progress.teach(1)
    assert (progress.state, progress.missing, progress.taught) == (WATCHING, 0, 1)


@pytest.mark.parametrize("window", [1, 10])
@pytest.mark.parametrize("rate", [0.001, 0.01, 0.1, 0.5, 0.9])
def test_missing_counts_the_rows_down(rate: float, window: int) -> None:
    progress = RateTest(rate, 0.95, window)
    first = last = progress.missing
    rows = 0
    while progress.state == LEARNING:
        progress.count(False)
        rows += 1
        if progress.state == LEARNING:
            assert progress.missing == max(last - 1, 1)
            last = progress.missing
    assert progress.missing == 0
    # The test is made at every eighth row.
    assert first <= rows < first + 8


# Bursts


def test_the_band_is_wilsons_interval() -> None:
    # Worked out by hand: 10 of 100 independent rows.
    low, high = Flagged(100, 10, 10, 1).band
    assert (low, high) == (pytest.approx(0.0552, abs=2e-4), pytest.approx(0.1744, abs=2e-4))
    assert Flagged(0, 0, 0, 1).band == (0.0, 1.0)
    assert Flagged(0, 0, 0, 1).share == 0.0


def test_the_band_holds_the_true_share_as_often_as_it_says() -> None:
    rng, held = np.random.default_rng(0), 0
    for _ in range(400):
        low, high = counted(rng.random(500) < 0.03, confidence=0.0, rate=None).seen.band
        held += low <= 0.03 <= high
    assert held / 400 > 0.92


# Changing


def watching(**options: Any) -> RateTest:
    """Long after the rate was shown."""
    progress = counted([False] * 3000, **options)
    assert progress.state == WATCHING
    return progress


@pytest.mark.parametrize("seed", law_seeds(20))
def test_the_stated_rate_hardly_ever_looks_like_a_change(seed: int) -> None:
    anomalous = np.random.default_rng(seed).random(20_000) < 0.01
    assert counted(anomalous, watching()).state == WATCHING


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
def test_a_lasting_excess_is_changing_and_ends_when_the_rate_is_shown(share: float) -> None:
    progress = watching()
    rng = np.random.default_rng(1)
    counted(rng.random(2000) < share, progress)
    assert progress.state == CHANGING
    assert progress.missing > 0
    counted([False] * 2000, progress)
    assert progress.state == WATCHING
    counted([True] * 100, progress)
    assert progress.state == CHANGING


@pytest.mark.parametrize(("share", "scattered"), [(0.1, True), (0.5, False), (1.0, False)])
def test_few_among_many_others_are_scattered(share: float, scattered: bool) -> None:
    progress, rng = watching(), np.random.default_rng(1)
    while not progress.lasting:
        progress.count(rng.random() < share)
    assert progress.scattered == scattered
    progress.begin(WATCHING)
    assert (progress.state, progress.excess, progress.excess_rows) == (WATCHING, 0.0, 0)


# Saved


@pytest.mark.parametrize("rows", [0, 50, 400, 3000])
def test_restored_it_goes_on_as_the_saved_one(rows: int) -> None:
    anomalous = np.random.default_rng(3).random(rows + 3000) < 0.02
    saved = counted(anomalous[:rows], window=3)
    again = restored(saved, RateTest(0.01, 0.95, 3))
    for one in anomalous[rows:].tolist():
        saved.count(one)
        again.count(one)
    assert held(again) == held(saved)


# A detector that counts


def normal(rng: np.random.Generator, rows: int) -> np.ndarray:
    return rng.normal(size=(rows, 2)) @ np.array([[1.0, 1, 1, 0], [0, 1, -1, 1]]) + (
        0.1 * rng.normal(size=(rows, 4))
    )


@pytest.mark.parametrize("seed", law_seeds(5))
def test_a_change_that_stays_is_one_alarm_and_then_one_that_tells_of_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    detector = Detector(HiddenLayer(4, 4))
    detector.learn_many(normal(rng, 3000))
    assert detector.state == WATCHING
    shifted = normal(rng, 2400) + 9.0 * np.eye(4)[1]
    verdicts = [detector.observe(row) for row in shifted]
    assert all(verdict.anomalous for verdict in verdicts)
    states = [verdict.state for verdict in verdicts]
    found = states.index(CHANGING)
    assert found < 30
    assert states[found:] == [CHANGING] * (2400 - found)
    # The third row opens an event, and when it is found out there is a question; then nothing.
    alarms = [place for place, verdict in enumerate(verdicts) if verdict.alarm]
    assert alarms == [2, found - 1]
    assert {verdict.event for verdict in verdicts[2:]} == {1}
    # Back to normal: no alarms, and after a while it watches.
    after = [detector.observe(row) for row in normal(rng, 1500)]
    assert np.mean([verdict.anomalous for verdict in after]) < 0.05
    assert detector.state == WATCHING
    assert detector.events.open is None
    event = detector.events.closed[0]
    assert event.changing
    assert (event.begin, 2400 <= event.end < 2520, 2400 <= event.rows < 2410) == (1, True, True)
    again = [detector.observe(np.array([0.0, 9.0, 0.0, 0.0])).alarm for _ in range(4)]
    assert again == [False, False, True, False]


def test_rows_missing_tells_how_many_more_and_the_state_when() -> None:
    rng = np.random.default_rng(1)
    detector = Detector(HiddenLayer(4, 4))
    calm = 0.5 * normal(rng, 2000)
    told = []
    for row in calm:
        if detector.state == WATCHING:
            break
        told.append(detector.rows_missing)
        detector.observe(row)
    assert detector.state == WATCHING
    assert detector.rows_missing == 0
    # Each anomalous row on the way makes it longer, nothing makes it shorter.
    assert all(later >= earlier - 1 for earlier, later in pairwise(told))
    assert told[-1] <= 8
