"""Scaling with stated numbers."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove import BadInput, Scaling
from elmgrove.algebra.layer import fingerprint

SCALINGS = ("none", "minmax", "standard")

numbers = st.floats(-1e6, 1e6)
columns = st.lists(st.tuples(numbers, st.floats(1e-6, 1e6)), min_size=1, max_size=6)


def test_none_gives_back_the_very_same_rows() -> None:
    X = np.ones((2, 3))
    assert Scaling()(X) is X


def test_minmax_maps_the_bounds_to_0_and_1_and_does_not_clip() -> None:
    scaling = Scaling.minmax([0, -10], [4, 10])
    X = np.array([[0.0, -10.0], [4.0, 10.0], [2.0, 0.0], [8.0, -30.0]])
    assert scaling(X).tolist() == [[0, 0], [1, 1], [0.5, 0.5], [2, -1]]


def test_standard_takes_the_mean_off_and_divides() -> None:
    scaling = Scaling.standard([1, 2], [2, 0.5])
    assert scaling(np.array([3.0, 1.0])).tolist() == [1.0, -2.0]


@given(columns, st.integers(0, 2**32 - 1))
def test_one_row_is_scaled_as_it_is_among_others(
    stated: list[tuple[float, float]], seed: int
) -> None:
    scaling = Scaling.standard(*zip(*stated, strict=True))
    X = np.random.default_rng(seed).normal(size=(4, len(stated)))
    assert (scaling(X)[2] == scaling(X[2])).all()


@pytest.mark.parametrize("kind", ["minmax", "standard"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_keep_their_dtype_and_are_not_changed(kind: str, dtype: Any) -> None:
    X = np.random.default_rng(0).normal(3.0, 2.0, (20, 3)).astype(dtype)
    before = X.copy()
    scaled = Scaling.fitted(kind, X)(X)
    assert scaled.dtype == dtype
    assert (before == X).all()


def test_fitted_minmax_fills_0_to_1() -> None:
    X = np.random.default_rng(0).normal(3.0, 2.0, (50, 3))
    scaled = Scaling.fitted("minmax", X)(X)
    np.testing.assert_allclose([scaled.min(axis=0), scaled.max(axis=0)], [[0] * 3, [1] * 3])


def test_fitted_standard_has_about_mean_0_and_deviation_1() -> None:
    X = np.random.default_rng(0).normal(3.0, 2.0, (50, 3))
    scaled = Scaling.fitted("standard", X)(X)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=0.06)
    np.testing.assert_allclose(scaled.std(axis=0), 1, rtol=0.05)


def test_a_fitted_scaling_does_not_tell_the_row_that_sums_lack() -> None:
    X = np.random.default_rng(0).normal(3.0, 2.0, (500, 3))
    mean = np.array(Scaling.fitted("standard", X).shift)
    guessed = len(X) * mean - X[1:].sum(axis=0)
    assert np.linalg.norm(guessed - X[0]) > 20.0


@pytest.mark.parametrize("kind", ["minmax", "standard"])
@pytest.mark.parametrize(
    ("value", "unit"), [(0.0, 1.0), (0.1, 0.1), (-1e9 / 3, 1.0), (7.0, 1.0), (-2e-9, 2e-9)]
)
def test_a_constant_column_keeps_its_unit_or_has_its_size(
    kind: str, value: float, unit: float
) -> None:
    X = np.full((1000, 2), value)
    X[:, 1] = np.arange(1000)
    scaling = Scaling.fitted(kind, X)
    assert scaling.scale[0] == unit
    assert np.abs(scaling(X)[:, 0]).max() <= 1e-12 * max(abs(value), 1.0)
    # what was constant and then moves is seen in its own unit
    assert scaling(np.array([value + 3.0 * unit, 0.0]))[0] == pytest.approx(3.0, abs=1e-6)


def test_fitted_none_is_none() -> None:
    assert Scaling.fitted("none", np.ones((2, 2))) == Scaling()


@given(st.sampled_from(["minmax", "standard"]), columns)
def test_fields_survive_json_exactly(kind: str, stated: list[tuple[float, float]]) -> None:
    scaling = Scaling(kind, *zip(*stated, strict=True))
    again = Scaling.from_fields(json.loads(json.dumps(scaling.fields)))
    assert again == scaling
    assert fingerprint(again.fields) == fingerprint(scaling.fields)
    assert Scaling.from_fields(Scaling().fields) == Scaling()


@pytest.mark.parametrize(
    ("here", "there"),
    [
        (Scaling.minmax([0.0], [1.0]), Scaling.minmax([-0.0], [1.0])),
        (Scaling.standard([0.0], [1.0]), Scaling("standard", (0,), (1,))),
    ],
)
def test_equal_scalings_have_equal_fingerprints(here: Scaling, there: Scaling) -> None:
    assert here == there
    assert fingerprint(here.fields) == fingerprint(there.fields)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Scaling("robust"), "robust"),
        (lambda: Scaling("minmax"), "needs a shift and a scale"),
        (lambda: Scaling("none", (0.0,), (1.0,)), "needs a shift and a scale"),
        (lambda: Scaling("standard", (0.0, 0.0), (1.0,)), "needs a shift and a scale"),
        (lambda: Scaling.minmax([0, 0], [1]), "2 lower bounds, but 1"),
        (lambda: Scaling.minmax([0, 5], [1, 5]), "column 1"),
        (lambda: Scaling.minmax([0, 5], [1, 4]), "column 1"),
        (lambda: Scaling.standard([0.0], [0.0]), "column 0"),
        (lambda: Scaling.standard([float("nan")], [1.0]), "column 0"),
        (lambda: Scaling.standard([0.0], [float("inf")]), "column 0"),
        (lambda: Scaling("standard", (0.0, 0.0), (1.0, 1.0), (1.0,)), "tails of 1 columns"),
        (lambda: Scaling("none", tails=(1.0,)), "tails of 1 columns"),
        (lambda: Scaling("standard", (0.0,), (1.0,), (0.5,)), "column 0: 0.5 must be"),
        (lambda: Scaling("standard", (0.0,), (1.0,), (float("nan"),)), "column 0"),
        (lambda: Scaling.fitted("robust", np.ones((2, 2))), "robust"),
        (lambda: Scaling.fitted("standard", np.array([[1.0, np.nan]])), "column 1"),
    ],
)
def test_bad_numbers_are_refused(make: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        make()


def test_tails_are_the_kurtosis_without_rows_that_may_be_faults() -> None:
    rng = np.random.default_rng(0)
    gauss, rare = rng.normal(size=5000), (rng.random(5000) < 0.02).astype(float)
    spikes, once = rng.normal(size=5000), np.zeros(5000)
    spikes[[7, 300, 4000]] = 1e6
    once[9] = 1.0
    X = np.column_stack([gauss, rare, spikes, once, np.full(5000, 3.0), 1e-9 * rare, 1e100 * gauss])
    found = Scaling.fitted("standard", X, tails=True).tails
    assert found[0] == found[2] == found[4] == found[6] == 1.0
    # A column that is 1 in a share p of the rows, else 0, has a kurtosis of about 1/p.
    assert 0.8 < found[1] / (1 / 0.02 / 3) < 1.6
    assert found[5] == pytest.approx(found[1])
    assert found[3] == 30.0
    assert Scaling.fitted("standard", X[:2], tails=True).tails == (1.0,) * 7


def test_tails_are_told_only_where_they_are_known() -> None:
    known = Scaling("standard", (0.0,), (1.0,), (2.0,))
    assert Scaling.from_fields(json.loads(json.dumps(known.fields))) == known
    assert "tails" not in Scaling.standard([0.0], [1.0]).fields
