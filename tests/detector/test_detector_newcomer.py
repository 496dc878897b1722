"""What somebody expects who tries a detector on a pump: faults are found, whatever the order."""

from itertools import permutations

import numpy as np
import pytest

from elmgrove import Detector
from support.factories import detector_for, trained
from support.laws import law_seeds
from support.pumps import NAMES, load_rows


def residual(rows: np.ndarray) -> np.ndarray:
    """The deviation of each column from what the others say of it."""
    return np.diag(np.linalg.inv(np.cov(rows.T))) ** -0.5


RESIDUAL = residual(load_rows(20000, 0))


@pytest.mark.combinations
@pytest.mark.parametrize("seed", law_seeds(10))
@pytest.mark.parametrize("size", [-12.0, -6.0, 6.0, 12.0])
def test_a_sensor_that_is_off_is_flagged_and_named(seed: int, size: float) -> None:
    normal = load_rows(2000, seed)
    detector = detector_for(normal)
    assert detector.state == "watching"
    assert np.mean(detector.score_many(load_rows(2001, seed)) > detector.threshold) < 0.03
    for column, name in enumerate(NAMES):
        faulty = load_rows(200, seed + 100)
        faulty[:, column] += size * RESIDUAL[column]
        assert np.mean(detector.score_many(faulty) > detector.threshold) >= 0.95, name
        blamed = [detector.blame(row, 1)[0].feature == f"column {column}" for row in faulty]
        assert np.mean(blamed) >= 0.95, name


@pytest.mark.parametrize("seed", law_seeds(3))
def test_the_order_of_the_columns_makes_no_difference(seed: int) -> None:
    normal, later, faulty = (
        load_rows(2000, seed),
        load_rows(300, seed),
        load_rows(200, seed + 100),
    )
    faulty[:, 1] -= 6.0 * RESIDUAL[1]
    for order in permutations(range(4)):
        columns = list(order)
        detector = trained(Detector.for_data(normal[:, columns]), normal[:, columns])
        found = np.mean(detector.score_many(faulty[:, columns]) > detector.threshold)
        assert found >= 0.95, order
        scores = detector.score_many(later[:, columns])
        if order == (0, 1, 2, 3):
            expected, threshold = scores, detector.threshold
        np.testing.assert_allclose(scores, expected, rtol=1e-6)
        assert detector.threshold == pytest.approx(threshold, rel=1e-6)


@pytest.mark.parametrize("seed", law_seeds(5))
@pytest.mark.parametrize("constant", [7.0, 0.0, -1e6])
def test_a_column_that_never_moved_is_flagged_when_it_does_and_named(
    seed: int, constant: float
) -> None:
    rng = np.random.default_rng(seed)
    normal = np.hstack([rng.normal(size=(1500, 3)), np.full((1500, 1), constant)])
    detector = detector_for(normal)
    for moved in (-2.0, 2.0):
        verdict = detector.observe([*rng.normal(scale=0.5, size=3), constant + moved])
        assert verdict.anomalous
        cause = verdict.explain(1)[0]
        assert cause.feature == "column 3"
        assert cause.seen == pytest.approx(constant + moved)
        assert cause.expected == pytest.approx(constant, abs=0.1)


def test_two_normals_taught_one_after_the_other_leave_a_threshold_that_finds_faults() -> None:
    """Rows of the second scored as anomalous at first, but they are known to be normal."""

    def warmer(seed: int, degrees: float) -> np.ndarray:
        rng = np.random.default_rng(seed)
        load, noise = rng.normal(size=2000), rng.normal(size=(2000, 4))
        mean = np.array([1500.0, 60.0 + degrees, 230.0, 5.0])
        return np.asarray(
            mean + np.outer(load, [100.0, 5.0, 0.0, 0.5]) + noise * [5.0, 0.5, 1.0, 0.05]
        )

    first, second = warmer(0, 0.0), warmer(5, 3.0)
    detector = detector_for(first)
    detector.learn_many(second)
    assert detector.state == "watching"
    assert np.mean(detector.score_many(warmer(9, -6.0)) > detector.threshold) > 0.95
    assert np.mean(detector.score_many(warmer(11, 3.0)) > detector.threshold) < 0.05
