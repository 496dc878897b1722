"""A spike, a lasting change and a slow drift are told apart, once, with sensor and onset."""

import numpy as np
import pytest
from scipy.signal import lfilter

from elmgrove import Detector, PatternRule
from elmgrove.detector.drift import CHANGE, SCATTERED, SLOW, Drift
from elmgrove.detector.peers import Other
from elmgrove.detector.state import pack_detector, unpack_detector
from support.factories import DISTANT, cloud, trained
from support.laws import law_seeds
from support.moments import moments_of
from support.pumps import START, STEP, TEMP, drifts_in, pump_detector, pump_rows

SEEDS = law_seeds(5)
WINDOWS = (1, 10)
ONSET = 600


def changed(seed: int, by: np.ndarray | float, column: int = TEMP) -> np.ndarray:
    """Rows of a pump of which one column is off from row 600 on."""
    X = pump_rows(3000, seed + 50)
    X[ONSET:, column] += by
    return X


def lasting(found: list[tuple[int, Drift]]) -> list[tuple[int, Drift]]:
    return [(row, drift) for row, drift in found if drift.kind in (CHANGE, SLOW)]


@pytest.mark.combinations
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_lasting_change_is_told_once_with_its_sensor_and_its_onset(
    seed: int, window: int
) -> None:
    """Not 2,400 times."""
    detector = pump_detector(seed, window=window)
    [(row, drift)] = lasting(drifts_in(detector, changed(seed, 15.0)))
    assert drift.kind == CHANGE
    assert drift.since is not None
    assert abs((drift.since - START) / STEP - ONSET) <= 3
    assert row < ONSET + 150
    [temp] = drift.sensors
    assert temp.sensor == "temp"
    assert temp.percent is not None
    # The pump's load moves: it is off from what the others say, not from the mean.
    assert abs(temp.after - temp.before - 15.0) < 0.5
    assert drift.anomalous > 0.95
    assert not drift.relations
    watch = detector.drift
    assert watch.found
    assert watch.report is not None
    assert watch.report.rows > 2000


@pytest.mark.combinations
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_drift_is_told_with_its_pace(seed: int, window: int) -> None:
    found = drifts_in(pump_detector(seed, window=window), changed(seed, 0.01 * np.arange(2400)))
    [(_, drift)] = lasting(found)
    assert drift.kind == SLOW
    assert drift.since is not None
    assert abs((drift.since - START) / STEP - ONSET) <= 100
    temp = drift.sensors[0]
    assert temp.sensor == "temp"
    assert temp.per_hour is not None
    # 0.01 a minute.
    assert 0.3 < temp.per_hour < 0.9
    assert "temp has been rising since" in str(drift)


@pytest.mark.combinations
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("length", [3, 8, 25])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_spike_is_no_change(seed: int, length: int, window: int) -> None:
    by = np.where(np.arange(2400) < length, 15.0, 0.0)
    found = drifts_in(pump_detector(seed, window=window), changed(seed, by))
    assert not lasting(found)
    # Told when it is over, the first after it began; few others come with it.
    row, spike = next(one for one in found if one[0] > ONSET)
    anomalous = round(spike.anomalous * spike.rows)
    assert length <= anomalous <= 2 * length + window + 5
    assert row > ONSET + length
    assert "then normal again" in str(spike)


@pytest.mark.parametrize("size", [1e3, 1e9])
def test_one_huge_row_is_nothing(size: float) -> None:
    found = drifts_in(
        pump_detector(0, window=1), changed(0, np.where(np.arange(2400) < 1, size, 0.0))
    )
    assert not [one for one in found if ONSET <= one[0] < ONSET + 100]


@pytest.mark.parametrize(
    ("memory", "window"), [(0.0, 1), (0.0, 10), (0.9, 1), (0.9, 10), (0.98, 10)]
)
def test_rows_that_remember_the_last_one_are_no_drift(memory: float, window: int) -> None:
    """All that is learned of such rows is less than it seems; neighbours say one thing."""
    rng = np.random.default_rng(7)
    root = np.sqrt(1 - memory**2)
    states = lfilter([root], [1, -memory], rng.normal(size=(24_000, 4)), axis=0)
    X = states @ rng.normal(size=(4, 4)) + 10
    detector = trained(Detector.for_data(X[:4000], window=window), X[:4000])
    found = drifts_in(detector, X[4000:])
    assert not lasting(found)
    assert sum(drift.kind == SCATTERED for _, drift in found) <= 2


def test_a_second_change_is_told_when_the_first_is_over() -> None:
    by = np.where((np.arange(2400) < 400) | (np.arange(2400) >= 1600), 15.0, 0.0)
    first, second = lasting(drifts_in(pump_detector(0, window=1), changed(0, by)))
    assert second[1].since is not None
    assert abs((second[1].since - START) / STEP - (ONSET + 1600)) <= 3
    assert first[0] < second[0]


@pytest.mark.parametrize("cut", [ONSET + 20, ONSET + 500])
def test_a_restart_keeps_what_the_watch_knows(cut: int) -> None:
    """In the middle of a change that is not told yet, and of one that is."""
    X, whole = changed(0, 15.0), pump_detector(0, window=10)
    expected = drifts_in(whole, X)
    detector = pump_detector(0, window=10)
    before = drifts_in(detector, X[:cut])
    again = unpack_detector(*pack_detector(detector))
    found = before + drifts_in(again, X[cut:], cut)
    assert [(row, drift.kind, drift.since) for row, drift in found] == [
        (row, drift.kind, drift.since) for row, drift in expected
    ]
    assert again.drift.report is not None
    [mine], [its] = (one.drift.report.sensors for one in (again, whole))  # type: ignore[union-attr]
    assert mine.after == pytest.approx(its.after, rel=1e-9)


def test_the_question_names_at_whom_the_rows_are_normal() -> None:
    detector = trained(Detector.for_basis(DISTANT), cloud(0, 1))
    detector.learn_many(cloud(0, 2))
    detector.set_peers([Other("fan-2", (moments_of(DISTANT, cloud(1, 1)),), 3.0)])
    middle = cloud(1, 1).mean(axis=0)
    asked = [drift for _ in range(200) if (drift := detector.observe(middle).drift)]
    assert [drift.known for drift in asked] == [("fan-2",)]
    assert str(asked[0]).endswith("a new normal or a fault? (normal at fan-2) accept or reject")
    assert asked[0].fields["known"] == ["fan-2"]


def test_patterns_are_watched_as_well() -> None:
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(2, 6))
    idle, busy = (rng.normal(size=(900, 2)) @ mixing + 12 * k for k in (0, 1))
    X = np.vstack([idle, busy]) + 0.2 * rng.normal(size=(1800, 6))
    detector = trained(Detector.for_data(X, window=1, patterns=PatternRule()), rng.permutation(X))
    later = rng.permutation(X)
    later[300:, 3] += 4.0
    [(row, drift)] = lasting(drifts_in(detector, later))
    assert 300 < row < 400
    assert drift.sensors[0].sensor == "column 3"
