"""The first score after P is computed again is as right as the others, however far rows lie."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from elmgrove import Detector, HiddenLayer
from elmgrove.algebra.linalg import regularized
from support.literal import e2lm_in_fractions

NOISE = np.random.default_rng(0).normal(size=(310, 8))


def exact_scores(detector: Detector, X: np.ndarray) -> np.ndarray:
    """The scores that follow from the detector's sums, without any rounding."""
    model, layer = detector.model, detector.basis.layer
    total = model.total
    ridge = regularized(total.U, model.ridge, total.resolution).ridge
    beta = np.array(e2lm_in_fractions(total.U, total.V, ridge))
    x, alpha, b = (np.vectorize(Fraction)(a) for a in (X, layer.alpha, layer.b))
    return np.mean((x - (x @ alpha + b) @ beta) ** 2, axis=1).astype(float)


def synced(detector: Detector, X: np.ndarray) -> None:
    other = Detector.for_basis(detector.basis)
    other.learn_many(X)
    detector.set_prior([other.evidence])


def taught(detector: Detector, X: np.ndarray) -> None:
    detector.learn_many(X)


@pytest.mark.combinations
@pytest.mark.parametrize("offset", [1e6, 1e7])
@pytest.mark.parametrize("units", [4, 8, 16])
@pytest.mark.parametrize("change", [synced, taught])
def test_the_first_score_is_that_of_the_sums(
    offset: float, units: int, change: Callable[[Detector, np.ndarray], None]
) -> None:
    X = offset + NOISE
    for x in X[300:303]:
        detector = Detector(HiddenLayer(8, units, seed=1), score="loss")
        detector.learn_many(X[:150])
        change(detector, X[150:300])
        (wanted,) = exact_scores(detector, x[np.newaxis])
        assert detector.model.answer(x).score == pytest.approx(wanted, rel=0.05)


@pytest.mark.parametrize("units", [4, 8])
def test_a_distance_does_not_mind_where_rows_lie(units: int) -> None:
    """Its sums are about a centre, so that nothing cancels."""
    Z, scores = np.rint(2.0**14 * NOISE) / 2.0**14, []
    for offset in (0.0, 2.0**23):
        detector = Detector(HiddenLayer(8, units, seed=1), score="distance")
        detector.learn_many(Z[:150] + offset)
        synced(detector, Z[150:300] + offset)
        scores.append([detector.model.answer(x).score for x in Z[300:] + offset])
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-7)
