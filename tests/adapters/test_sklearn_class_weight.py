"""The classifier's class_weight: as scikit-learn means it, and the same in any chunks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.utils.class_weight import compute_sample_weight

from elmgrove import Mismatch
from elmgrove.adapters.sklearn import OSELMClassifier
from support.laws import law_examples

PIXELS, DIGITS = load_digits(return_X_y=True)
PIXELS = PIXELS / 16.0
# Of the first classes there are many rows and of the last few, in random order.
_rng = np.random.default_rng(0)
ROWS = _rng.permutation(
    np.concatenate([np.flatnonzero(digit == DIGITS)[: 100 // (digit + 1)] for digit in range(10)])
)
X, Y = PIXELS[ROWS], DIGITS[ROWS]


def model(**more):
    return OSELMClassifier(24, **{"ridge": 0.1, "class_weight": "balanced"} | more)


def weighted_beta(estimator, X, Y, weights):
    """β = (HᵀWH + λI)⁻¹HᵀWT, with scikit-learn's weight of each row."""
    H = estimator.model_.basis.layer(X)
    T = (Y[:, np.newaxis] == estimator.classes_).astype(float)
    w = compute_sample_weight(weights, Y)
    return np.linalg.solve((H.T * w) @ H + 0.1 * np.eye(24), (H.T * w) @ T)


@pytest.mark.parametrize("weights", ["balanced", {0: 5.0, 3: 0.0, 9: 0.5}, {}])
def test_rows_weigh_what_scikit_learn_says(weights):
    fitted = model(class_weight=weights).fit(X, Y)
    expected = weighted_beta(fitted, X, Y, weights)
    np.testing.assert_allclose(fitted.model_.beta, expected, rtol=1e-6, atol=1e-8)


@settings(max_examples=law_examples(10), deadline=None)
@given(cuts=st.lists(st.integers(1, len(Y) - 1), unique=True, max_size=4), seed=st.integers(0, 9))
def test_any_chunks_in_any_order_are_one_fit(cuts, seed):
    whole = model().fit(X, Y)
    order = np.random.default_rng(seed).permutation(len(Y))
    parts = model()
    for rows in np.split(order, sorted(cuts)):
        parts.partial_fit(X[rows], Y[rows], classes=range(10))
    np.testing.assert_allclose(parts.model_.beta, whole.model_.beta, rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(parts.predict(PIXELS), whole.predict(PIXELS))
    # Neither does it matter who learned which rows.
    others = [
        model().partial_fit(X[rows], Y[rows], classes=range(10))
        for rows in np.split(order, sorted(cuts))
    ]
    for other in others[1:]:
        others[0].merge(other)
    np.testing.assert_allclose(others[0].model_.beta, whole.model_.beta, rtol=1e-7, atol=1e-9)


def test_what_can_not_be_weighed_is_refused():
    with pytest.raises(ValueError, match="needs forgetting=1"):
        model(forgetting=0.99).fit(X, Y)
    with pytest.raises(ValueError, match="class_weight"):
        model(class_weight="equal").fit(X, Y)
    with pytest.raises(ValueError, match="merge needs evidence by class"):
        model(class_weight=None).fit(X, Y).merge(model().fit(X, Y))
    with pytest.raises(ValueError, match=r"classes \[0, 1\] here, \[0, 1, 2\] there"):
        model().fit(X[Y < 2], Y[Y < 2]).merge(model().fit(X[Y < 3], Y[Y < 3]))
    with pytest.raises(Mismatch, match="seed"):
        model().fit(X, Y).merge(model(random_state=5).fit(X, Y))


@pytest.mark.parametrize(("before", "after"), [(None, "balanced"), ("balanced", None)])
def test_a_class_weight_that_comes_or_goes_needs_a_new_fit(before, after):
    estimator = model(class_weight=before).fit(X, Y).set_params(class_weight=after)
    with pytest.raises(ValueError, match="came or went since the first rows"):
        estimator.partial_fit(X, Y)
    again = estimator.fit(X, Y)
    fresh = clone(estimator).fit(X, Y)
    np.testing.assert_array_equal(again.model_.beta, fresh.model_.beta)
    assert hasattr(again, "class_evidence_") == (after is not None)
