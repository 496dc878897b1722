"""Sums since a minimum, and means of the rows before, are those of the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmgrove.detector.drift import RELATED
from elmgrove.detector.drift_detector import BlockMeans, ChangeStatistics


@pytest.mark.parametrize("columns", [3, RELATED + 1])
@given(rows=st.integers(1, 300), offset=st.sampled_from([0.0, 1e6]), cut=st.integers(0, 300))
def test_sums_are_those_of_the_rows(columns: int, rows: int, offset: float, cut: int) -> None:
    """However far from 0, and through a restart."""
    rng = np.random.default_rng(rows)
    X = offset + rng.normal(size=(rows, columns))
    since = ChangeStatistics(columns)
    for row, x in enumerate(X):
        if row == cut:
            fields, arrays = since.pack("slow")
            since = ChangeStatistics(columns)
            since.restore("slow", fields, arrays)
        since.add(x, row % 3 == 0, float(row))
    assert (since.rows, since.anomalous, since.time) == (rows, (rows + 2) // 3, 0.0)
    assert since.mean == pytest.approx(X.mean(axis=0), abs=1e-9 * (1 + offset))
    whole = np.cov(X, rowvar=False, bias=True)
    expected = whole if columns <= RELATED else np.diag(whole)
    assert since.covariance == pytest.approx(expected, abs=1e-6)


def test_rows_at_once_are_rows_one_by_one() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3))
    at_once, one_by_one = ChangeStatistics(3), ChangeStatistics(3)
    at_once.add_many(X[:150], 7, 5.0)
    at_once.add_many(X[150:], 3, 6.0)
    for x in X:
        one_by_one.add(x, False, None)
    assert (at_once.rows, at_once.anomalous, at_once.time) == (200, 10, 5.0)
    assert at_once.mean == pytest.approx(one_by_one.mean)
    assert at_once.covariance == pytest.approx(one_by_one.covariance)


def test_a_minimum_forgets_all() -> None:
    since = ChangeStatistics(1)
    for value in range(100):
        since.add(np.array([float(value)]), True, 1.0)
    since.begin()
    since.add(np.array([7.0]), False, 2.0)
    assert (since.rows, since.anomalous, since.time, since.mean.tolist()) == (1, 0, 2.0, [7.0])


@given(st.integers(1, 3000))
def test_a_history_holds_each_row_once_and_is_bounded(rows: int) -> None:
    history = BlockMeans(1)
    for row in range(rows):
        history.add(np.array([float(row)]), float(row))
    passages = history.blocks
    assert len(passages) <= 65
    held = sum(passage.rows for passage in passages)
    assert held == rows
    # In order, and the mean of each is that of its rows.
    first = 0
    for passage in passages:
        assert passage.mean[0] == passage.time == first + (passage.rows - 1) / 2
        first += passage.rows
    sizes = [passage.rows for passage in passages[:-1]]
    assert sizes == sorted(sizes, reverse=True)
