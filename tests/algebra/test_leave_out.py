"""Rows left out in turn, against models that really never learned them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, HiddenLayer
from elmgrove.algebra.cross_validation import losses_left_out
from elmgrove.algebra.layer import suggested_units
from elmgrove.detector.inputs import stacked
from elmgrove.errors import BadInput
from support.laws import law_examples
from support.literal import hidden
from support.patterns import rows_of


def solved(layer: HiddenLayer, X: np.ndarray, ridge: float) -> np.ndarray:
    H = hidden(X, layer.alpha, layer.b, layer.activation)
    beta: np.ndarray = np.linalg.solve(H.T @ H + ridge * np.eye(layer.units), H.T @ X)
    return beta


def given_back(layer: HiddenLayer, x: np.ndarray, beta: np.ndarray) -> np.ndarray:
    y: np.ndarray = hidden(x, layer.alpha, layer.b, layer.activation) @ beta
    return y


def predicted(layer: HiddenLayer, x: np.ndarray, j: int, beta: np.ndarray) -> float:
    """The value that is given back as it is by a linear model; else one step towards it."""
    step = 1e-6
    other = x.copy()
    other[j] += step
    y, moved = given_back(layer, x, beta)[j], given_back(layer, other, beta)[j]
    own = (moved - y) / step
    return float((y - own * x[j]) / (1.0 - own))


@settings(max_examples=law_examples(30), deadline=None)
@given(
    st.integers(0, 9999),
    st.sampled_from(["identity", "sigmoid", "tanh", "relu"]),
    st.integers(1, 8),
    st.sampled_from([1e-3, 0.1, 10.0]),
)
def test_each_row_is_as_far_off_as_by_the_model_that_never_learned_it(
    seed: int, activation: str, units: int, ridge: float
) -> None:
    X = rows_of(0, seed, 25)
    basis = Basis(HiddenLayer(X.shape[1], units, activation, seed=seed), X.shape[1], score="loss")
    rows, values = [], []
    for i, x in enumerate(X):
        beta = solved(basis.layer, np.delete(X, i, axis=0), ridge)
        rows.append(x - given_back(basis.layer, x, beta))
        values.append([x[j] - predicted(basis.layer, x, j, beta) for j in range(len(x))])
    found = losses_left_out(basis, X, ridge)
    assert found.rows == pytest.approx(np.mean(np.square(rows)), rel=1e-7)
    # What a difference of 1e-6 shows of a slope; where 1 − a is nearly 0, less.
    shares = np.mean(np.square(values), axis=0) / X.var(axis=0)
    assert found.values == pytest.approx(np.median(shares), rel=1e-2)


def test_many_rows_are_taken_in_parts() -> None:
    X = np.random.default_rng(1).normal(size=(9000, 3))
    basis = Basis(HiddenLayer(3, 2, "tanh"), 3, score="loss")
    H = basis.layer(X)
    P = np.linalg.inv(H.T @ H + np.eye(2))
    E = (X - H @ P @ H.T @ X) / (1.0 - np.einsum("ij,jk,ik->i", H, P, H))[:, np.newaxis]
    assert losses_left_out(basis, X, 1.0).rows == pytest.approx(np.mean(E**2))


def test_of_windows_blocks_are_left_out_with_all_that_shares_rows_with_them() -> None:
    rows, window = rows_of(0, 3, 203), 4
    X = stacked(rows, window)
    basis = Basis(HiddenLayer(6, 5, seed=1), X.shape[1], window=window, score="loss")
    layer = basis.hidden
    errors = []
    for start, end in pairwise(np.linspace(0, 200, 11).astype(int)):
        # Inputs of rows that no input of the block has.
        rest = [i for i in range(200) if i + window <= start or i >= end - 1 + window]
        beta = solved(layer, X[rest], 0.1)
        errors.append(X[start:end] - given_back(layer, X[start:end], beta))
    assert losses_left_out(basis, X, 0.1).rows == pytest.approx(np.mean(np.vstack(errors) ** 2))


def test_rows_alone_ask_for_ever_more_units_and_values_for_some() -> None:
    X = np.random.default_rng(2).normal(size=(400, 3)) @ np.random.default_rng(3).normal(
        size=(3, 20)
    )
    X += 0.3 * np.random.default_rng(4).normal(size=X.shape)
    counts = (1, 2, 4, 8, 16, 20)
    found = [
        losses_left_out(Basis(HiddenLayer(20, units), 20, score="loss"), X, 1e-3)
        for units in counts
    ]
    assert counts[int(np.argmin([one.rows for one in found]))] == 20
    assert 2 < counts[int(np.argmin([one.values for one in found]))] < 16
    assert suggested_units(20, "loss") == 5


def test_columns_that_never_move_say_nothing() -> None:
    X = rows_of(0, 1, 50)
    still = np.hstack([X, np.zeros((50, 9))])
    layer = HiddenLayer(6, 2, seed=3)
    found = losses_left_out(Basis(layer, 6, score="loss"), X, 0.1)
    wide = HiddenLayer(15, 2, seed=3)
    object.__setattr__(wide, "_drawn", np.vstack([layer.alpha, np.ones((9, 2)), layer.b]))
    assert losses_left_out(Basis(wide, 15, score="loss"), still, 0.1).values == found.values
    nothing = losses_left_out(Basis(layer, 6, score="loss"), np.zeros((50, 6)), 0.1)
    assert nothing == (0.0, 0.0)


def test_too_few_inputs_are_refused() -> None:
    basis = Basis(HiddenLayer(6, 6), 12, window=2, score="loss")
    with pytest.raises(BadInput, match="too few"):
        losses_left_out(basis, stacked(rows_of(0, 1, 5), 2), 0.1)
