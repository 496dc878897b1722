"""A verdict explains itself: which features are to blame, and by how much."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from elmgrove import Detector, HiddenLayer


def low_rank(rows: int, inputs: int, seed: int = 0) -> np.ndarray:
    """Rows that three hidden numbers explain, up to a little noise."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(3, inputs))
    return rng.normal(size=(rows, 3)) @ mixing + 0.1 * rng.normal(size=(rows, inputs))


# explain


@pytest.mark.parametrize("score", ["distance", "loss"])
@given(arrays(np.float64, 4, elements=st.floats(-1e3, 1e3)), st.integers(0, 6))
def test_shares_are_sorted_and_at_most_the_whole(score: str, row: np.ndarray, k: int) -> None:
    detector = Detector(HiddenLayer(4, 2), score=score)
    detector.learn_many(low_rank(30, 4))
    shares = [cause.share for cause in detector.observe(row).explain(k)]
    assert len(shares) == min(k, 4)
    assert shares == sorted(shares, reverse=True)
    assert all(0.0 <= share <= 1.0 + 1e-9 for share in shares)


@pytest.mark.parametrize("score", ["distance", "loss"])
def test_explain_names_the_feature_that_was_tampered_with(score: str) -> None:
    inputs = 40
    X = low_rank(1000 + inputs, inputs)
    names = [f"s{i}" for i in range(inputs)]
    detector = Detector(HiddenLayer(inputs, 12, seed=1), score=score, features=names)
    detector.learn_many(X[:1000])
    for column, row in enumerate(X[1000:]):
        tampered = row.copy()
        tampered[column] += 10.0
        verdict = detector.observe(tampered)
        cause = verdict.explain(1)[0]
        assert verdict.anomalous
        assert cause.feature == f"s{column}"
        assert cause.seen == tampered[column]


# blame


def test_blame_finds_the_culprit_where_the_error_shows_in_its_neighbours() -> None:
    inputs = 12
    X = low_rank(600 + inputs, inputs)
    detector = Detector(HiddenLayer(inputs, 4, seed=1), score="loss")
    detector.learn_many(X[:600])
    elsewhere = 0
    for column, row in enumerate(X[600:]):
        tampered = row.copy()
        tampered[column] += 10.0
        culprit = detector.blame(tampered, 1)[0]
        assert culprit.feature == f"column {column}"
        assert 0.9 < culprit.share <= 1.0 + 1e-6
        assert culprit.expected == pytest.approx(row[column], abs=2.0)
        assert detector.observe(tampered).explain(1) == [culprit]
        error = np.abs(tampered - detector.model.predict_one(tampered))  # type: ignore[attr-defined]
        elsewhere += int(error.argmax()) != column
    # Otherwise the error itself would show as much.
    assert elsewhere > 0


@pytest.mark.parametrize("units", [4, 12])
def test_by_distance_explain_and_blame_find_the_culprit_and_its_value(units: int) -> None:
    inputs = 12
    X = low_rank(1000 + inputs, inputs)
    detector = Detector(HiddenLayer(inputs, units, seed=1))
    detector.learn_many(X[:1000])
    for column, row in enumerate(X[1000:]):
        tampered = row.copy()
        tampered[column] += 3.0
        blamed, verdict = detector.blame(tampered, 2), detector.observe(tampered)
        assert verdict.anomalous
        assert blamed[0].feature == f"column {column}"
        assert 0.5 < blamed[0].share <= 1.0 + 1e-6
        assert blamed[0].expected == pytest.approx(row[column], abs=0.5)
        for mine, theirs in zip(verdict.explain(2), blamed, strict=True):
            assert mine.feature == theirs.feature
            assert mine[1:] == pytest.approx(theirs[1:], rel=1e-2, abs=1e-2)


def test_the_distance_shares_are_those_that_other_values_would_take_away() -> None:
    """Literally: the squared distance with the feature at its best value, found by NumPy."""
    X = low_rank(500, 6)
    detector = Detector(HiddenLayer(6, 6))
    detector.learn_many(X)
    row = X[0] + [2.0, 0.0, 0.0, -1.0, 0.0, 0.0]
    view = detector.model.explainer(row)
    D = np.diag(view.deviation)
    omega = np.linalg.inv(D @ (np.eye(6) + view.L.T @ view.L) @ D)

    def square(x: np.ndarray) -> float:
        return float((x - view.mean) @ omega @ (x - view.mean))

    for cause in detector.blame(row, 6):
        column = int(cause.feature.split()[1])
        other = row.copy()
        other[column] = cause.expected
        assert 1.0 - square(other) / square(row) == pytest.approx(cause.share, abs=1e-6)
        for step in (-0.01, 0.01):
            worse = other.copy()
            worse[column] += step
            assert square(worse) > square(other)
