"""Rows that are kept on disk are the rows."""

from pathlib import Path

import numpy as np
import pytest

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.scaling import Levels
from elmgrove.detector.inputs import choose_window
from elmgrove.reading.formats import SpooledRows, blocks_of
from elmgrove.reading.table import read_table


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, SpooledRows]:
    """The same rows in memory and on disk."""
    X = np.random.default_rng(0).normal(5.0, 2.0, (9000, 3)).round(4)
    np.savetxt(tmp_path / "data.csv", X, delimiter=",", fmt="%.4f")
    monkeypatch.setattr("elmgrove.reading.formats.IN_MEMORY", 1000)
    monkeypatch.setattr("elmgrove.reading.csv.CHUNK", 10_000)
    monkeypatch.setattr("elmgrove.algebra.rows._BLOCK", 1000)
    rows = read_table(tmp_path / "data.csv").rows
    assert isinstance(rows, SpooledRows)
    return X, rows


def test_slices_are_those_of_the_array(both: tuple[np.ndarray, SpooledRows]) -> None:
    X, rows = both
    assert rows.shape == X.shape
    assert len(rows) == len(X)
    for place in (slice(0, 5), slice(-7, None), slice(None), slice(8990, 9999), slice(5, 2)):
        np.testing.assert_array_equal(rows[place], X[place])
    np.testing.assert_array_equal(np.vstack(list(blocks_of(rows, 700))), X)
    np.testing.assert_array_equal(np.asarray(rows, np.float32), X.astype(np.float32))
    with pytest.raises(ValueError, match="without a step"):
        rows[::2]


def test_levels_window_and_basis_are_those_of_the_array(
    both: tuple[np.ndarray, SpooledRows],
) -> None:
    X, rows = both
    one, other = Levels.of_rows(X), Levels.of_rows(rows)
    np.testing.assert_allclose(other.mean, one.mean, rtol=1e-13)
    np.testing.assert_allclose(other.variance, one.variance, rtol=1e-12)
    assert one.extremes is not None
    assert other.extremes is not None
    np.testing.assert_array_equal(other.extremes, one.extremes)
    assert choose_window(rows) == choose_window(X)
    made = [Basis.fitted(some, None, scaling="standard").scaling for some in (X, rows)]
    np.testing.assert_allclose(made[1].scale, made[0].scale, rtol=1e-12)
