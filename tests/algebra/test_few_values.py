"""Columns with few values, against the definition of leverage by itself."""

import numpy as np
import pytest

from elmgrove import Basis, HiddenLayer
from elmgrove.algebra.unsent import MOST_VALUES, ROWS_ALIKE, FewValues

BASIS = Basis(HiddenLayer(5, 5), 5, score="distance")


def made(rows: np.ndarray, block: int = 50) -> FewValues:
    few = FewValues(BASIS)
    for start in range(0, len(rows), block):
        few.add(rows[start : start + block], start + 1, 1.0)
    return few


def leverage(columns: np.ndarray) -> np.ndarray:
    known = np.column_stack([np.ones(len(columns)), columns])
    q, r = np.linalg.qr(known)
    assert np.abs(r.diagonal()).min() > 1e-9
    found: np.ndarray = np.square(q).sum(axis=1)
    return found


def states(seed: int, count: int = 200) -> np.ndarray:
    """Two sensors, and three states that are rarely on."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, 5))
    rows[:, 2:] = rng.random((count, 3)) < [0.01, 0.03, 0.2]
    rows[:, 4] *= rng.integers(1, 4, count)
    return rows


@pytest.mark.parametrize("block", [1, 50, 200])
@pytest.mark.parametrize("seed", range(10))
def test_no_row_that_leaves_has_too_large_a_share_in_any_combination(seed: int, block: int) -> None:
    rows = states(seed)
    held = made(rows, block).held(len(rows), 1.0)
    assert held is not None
    gone = np.array([number - 1 for number, _ in held], int)
    np.testing.assert_array_equal(rows[gone], np.array([x for _, x in held]).reshape(-1, 5))
    left = np.delete(rows, gone, axis=0)[:, 2:]
    left = left[:, left.std(axis=0) > 0.0]
    assert leverage(left).max() <= 0.5 + 1e-9
    for column in left.T:
        assert leverage(column[:, np.newaxis]).max() <= 1.0 / ROWS_ALIKE + 1e-9


def test_columns_with_many_values_are_not_followed() -> None:
    rng = np.random.default_rng(0)
    few = made(rng.normal(size=(100, 5)))
    assert not few.any
    assert few.held(100, 1.0) == []
    rows = rng.normal(size=(100, 5))
    rows[:, 0] = np.arange(100) % MOST_VALUES
    assert made(rows).any
    rows[:, 0] = np.arange(100) % (MOST_VALUES + 1)
    assert not made(rows).any


def test_of_too_many_combinations_the_column_that_changes_most_is_left_out() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, MOST_VALUES, size=(4000, 5)).astype(float)
    rows[:, 4] = np.arange(4000) == 2000
    held = made(rows).held(4000, 1.0)
    assert held is not None
    assert [number for number, _ in held] == [2001]


@pytest.mark.parametrize("rows", [0, 7, 200])
def test_what_was_counted_is_packed_and_goes_on(rows: int) -> None:
    X = states(3)
    few, again = made(X[:rows]), FewValues(BASIS)
    fields, arrays = few.pack("few.")
    again.restore(fields, arrays, "few.")
    for one in (few, again):
        one.add(X[rows:], rows + 1, 1.0)
    kept, restored = few.pack(""), again.pack("")
    assert kept[0] == restored[0]
    for name, array in kept[1].items():
        np.testing.assert_array_equal(restored[1][name], array)
