"""Projections: principal components by their definition, kept by their share of the variance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput
from elmgrove.rounds.predictor import Projection
from support.laws import law_examples


def rows(seed: int, count: int = 60, columns: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, columns)) @ rng.normal(size=(columns, columns)) + 7.0


def fitted(X: np.ndarray, variance: float, scaling: str = "none") -> Projection:
    return Projection.fitted(X, None, {}, scaling=scaling, variance=variance)


@settings(max_examples=law_examples(25), deadline=None)
@given(seed=st.integers(0, 100), variance=st.floats(0.05, 1.0))
def test_the_fewest_components_with_the_share_are_kept(seed: int, variance: float) -> None:
    X = rows(seed)
    made = fitted(X, variance)
    singular = np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2
    shares = np.cumsum(singular) / singular.sum()
    assert shares[made.components - 1] >= variance - 1e-12
    assert made.components == 1 or shares[made.components - 2] < variance
    Z = made(X)
    np.testing.assert_allclose(Z.mean(axis=0), 0.0, atol=1e-9)
    # Uncorrelated, the largest first, with the variance of the singular values.
    np.testing.assert_allclose(
        np.cov(Z, rowvar=False) * (len(X) - 1),
        np.diag(singular[: made.components]),
        atol=1e-9 * singular[0],
    )


def test_columns_are_scaled_before() -> None:
    X = rows(1) * [1.0, 1e3, 1.0, 1.0, 1e-3]
    made = fitted(X, 1.0, "standard")
    scaled = (X - made.scaling.shift) / made.scaling.scale
    np.testing.assert_allclose(made(X) @ made.axes.T + made.mean, scaled, atol=1e-9)


def test_packed_it_comes_back_the_same() -> None:
    X = rows(2)
    made = Projection.fitted(
        X, ["a", "b", "c", "m=1", "m=2"], {"m": ["1", "2"]}, scaling="standard", variance=0.9
    )
    again = Projection.unpacked(*made.packed())
    assert again is not None
    assert (again.features, again.categories) == (made.features, made.categories)
    np.testing.assert_array_equal(again(X), made(X))
    assert Projection.unpacked(None, {}) is None


@pytest.mark.parametrize("variance", [0.0, -1.0, 1.1, float("nan")])
def test_a_share_is_a_share(variance: float) -> None:
    with pytest.raises(BadInput, match="share"):
        fitted(rows(3), variance)


def test_axes_that_do_not_fit_are_refused() -> None:
    made = fitted(rows(4), 0.9)
    for mean, axes in (
        (made.mean[1:], made.axes),
        (made.mean * np.nan, made.axes),
        (made.mean, made.axes[:, 0]),
        (made.mean, made.axes.astype(np.float32)),
    ):
        with pytest.raises(BadInput):
            Projection(None, (), made.scaling, mean, axes)
