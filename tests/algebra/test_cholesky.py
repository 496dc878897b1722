"""Solving by Cholesky: right where it answers, and plain about why where it does not."""

from typing import Any

import numpy as np
import pytest

from elmgrove import SingularSystem
from elmgrove.algebra.linalg import Factor, mirrored, regularized

EPSILON = {dtype: float(np.finfo(dtype).eps) for dtype in (np.float64, np.float32)}


def sums(rows: int, units: int, dtype: Any = np.float64) -> np.ndarray:
    H = np.random.default_rng(rows).normal(size=(rows, units))
    return (H.T @ H).astype(dtype)


@pytest.mark.parametrize("ridge", [0.0, 1e-6, 1.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_it_solves_and_inverts_as_numpy_does(ridge: float, dtype: Any) -> None:
    U = sums(50, 6, dtype)
    A = U.astype(np.float64) + ridge * np.eye(6)
    B = np.random.default_rng(1).normal(size=(6, 3))
    factor = Factor(U, ridge)
    np.testing.assert_allclose(factor.solve(B), np.linalg.solve(A, B), rtol=1e-10)
    np.testing.assert_allclose(mirrored(factor.inverse()), np.linalg.inv(A), rtol=1e-10)


def test_only_the_upper_triangle_is_read_and_nothing_is_changed() -> None:
    U = sums(50, 6)
    half = np.triu(U) + np.tril(np.full((6, 6), np.nan), -1)
    before = half.copy()
    factor = Factor(half, 0.5)
    np.testing.assert_array_equal(half, before)
    np.testing.assert_allclose(
        mirrored(factor.inverse()), np.linalg.inv(U + 0.5 * np.eye(6)), rtol=1e-10
    )


def test_the_right_hand_side_is_not_changed() -> None:
    B = np.asfortranarray(np.random.default_rng(1).normal(size=(6, 3)))
    before = B.copy()
    Factor(sums(50, 6), 0.5).solve(B)
    assert (before == B).all()


def test_fewer_rows_than_units_need_a_ridge() -> None:
    U = sums(3, 6)
    with pytest.raises(SingularSystem, match="6 hidden units with ridge 0 is singular"):
        Factor(U, 0.0)
    assert np.isfinite(Factor(U, 1e-6).inverse()[np.triu_indices(6)]).all()


@pytest.mark.parametrize(
    "cause", ["fewer rows than hidden units", "constant", "copies", "scale them", "ridge far too"]
)
def test_a_singular_system_names_its_likely_causes(cause: str) -> None:
    with pytest.raises(SingularSystem, match=cause):
        Factor(np.zeros((2, 2)), 0.0)


def test_equal_columns_are_singular_even_where_rounding_lets_cholesky_pass() -> None:
    H = np.random.default_rng(0).normal(size=(50, 3))
    H = np.hstack([H, H[:, :1] * (1 + 1e-15)])
    with pytest.raises(SingularSystem):
        Factor(H.T @ H, 0.0)


@pytest.mark.parametrize("dtype", EPSILON)
def test_a_ridge_too_small_to_see_is_raised_to_what_rounding_leaves_visible(dtype: Any) -> None:
    U = 1e6 * sums(3, 6)
    visible = 32 * EPSILON[dtype] * U.diagonal().max()
    assert regularized(U, 1e-300, EPSILON[dtype]).ridge == visible
    assert regularized(U, 2 * visible, EPSILON[dtype]).ridge == 2 * visible


def test_a_ridge_of_zero_is_taken_at_its_word() -> None:
    assert regularized(sums(50, 6), 0.0, EPSILON[np.float32]).ridge == 0.0
    with pytest.raises(SingularSystem):
        regularized(sums(3, 6), 0.0, EPSILON[np.float32])


def test_the_ridge_is_raised_until_it_covers_an_error_of_the_sums() -> None:
    # What many equal rows leave that were rounded in the same direction each time.
    h = np.array([3.0, 7.0, 1.0])
    error = 1e-3 * 49
    U = np.outer(h, h) - error * np.eye(3)
    assert error < regularized(U, 1e-6, EPSILON[np.float32]).ridge < 5 * error


def test_what_no_small_ridge_can_cover_is_singular() -> None:
    with pytest.raises(SingularSystem):
        regularized(np.diag([1.0, -1.0]), 1e-6, EPSILON[np.float64])


def test_an_empty_model_needs_nothing_but_the_ridge() -> None:
    factor = Factor(np.zeros((3, 3)), 0.25)
    np.testing.assert_array_equal(mirrored(factor.inverse()), 4 * np.eye(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (0, 2), (2, 2)])
def test_sums_that_are_not_finite_are_told_from_singular_ones(
    bad: float, place: tuple[int, int]
) -> None:
    U = sums(50, 6)
    U[place] = bad
    with pytest.raises(SingularSystem, match="not finite"):
        Factor(U, 1.0)


def test_an_indefinite_matrix_is_refused() -> None:
    with pytest.raises(SingularSystem):
        Factor(np.diag([1.0, -1.0]), 1e-6)


def test_mirrored_copies_the_upper_triangle_to_the_lower() -> None:
    assert mirrored(np.array([[1, 2], [9, 3]])).tolist() == [[1, 2], [2, 3]]
