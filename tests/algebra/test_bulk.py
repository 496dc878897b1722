"""Many rows as they come score as each input by itself, whatever their units and offsets."""

import pickle

import numpy as np
import pytest

from elmgrove import Basis
from elmgrove.algebra.distance import Distance, FewInputs, Windows
from elmgrove.algebra.summing import MomentSums
from elmgrove.detector.inputs import stacked

SHAPES = [(1, 1, None), (8, 1, None), (3, 4, None), (19, 10, None), (90, 1, 30), (30, 3, 20)]


def walk(seed: int, rows: int, columns: int) -> np.ndarray:
    """Rows that drift a little, so that the rows of a window have other means."""
    rng = np.random.default_rng(seed)
    slow = np.cumsum(rng.normal(size=(rows, columns)), axis=0) / 20.0
    return slow + rng.normal(size=(rows, 3)) @ rng.normal(size=(3, columns)) + slow[:, ::-1]


def known(rows: np.ndarray, window: int, units: int | None, scaling: str) -> Distance:
    basis = Basis.fitted(rows, None, scaling=scaling, window=window, units=units)
    sums = MomentSums(basis, 1.0, np.dtype(np.float64))
    sums.add_many(stacked(basis.scaling(rows), window))
    return Distance(sums.evidence)


def one_by_one(distance: Distance, rows: np.ndarray) -> list[float]:
    inputs = stacked(distance.basis.scaling(rows), distance.basis.window)
    return [distance.score_one(x) for x in inputs]


@pytest.mark.combinations
@pytest.mark.parametrize("scaling", ["none", "standard", "minmax"])
@pytest.mark.parametrize(("size", "offset"), [(1.0, 0.0), (1e-9, 1e-6), (1e9, -1e12), (1e-3, 5.0)])
@pytest.mark.parametrize(("columns", "window", "units"), SHAPES)
def test_rows_as_they_come_score_as_their_inputs(
    columns: int, window: int, units: int | None, size: float, offset: float, scaling: str
) -> None:
    rows = walk(1, 600, columns) * size + offset
    distance = known(rows, window, units, scaling)
    tried = rows[:150].copy()
    tried[40, 0] += 30.0 * rows[:, 0].std()
    # One value that is off alone, by as much as counts more and more.
    unit = distance.basis.scaling.scale[-1] if scaling != "none" else 1.0
    tried[100:140, -1] += np.linspace(2.0, 6.0, 40) * distance.residual[-1] * unit
    tried[90:95] -= 1e3 * np.ptp(rows, axis=0)
    bulk = distance.of_rows
    if bulk is None:
        # Rows that lie thousands of deviations from 0 would lose too many digits.
        assert (size, offset, window) == (1e-3, 5.0, 1)
        return
    scores, far = bulk(tried)
    expected = np.array(one_by_one(distance, tried))
    near = np.setdiff1d(np.arange(len(scores)), far)
    assert len(near) > len(scores) // 2
    assert set(range(max(90 - window + 1, 0), 95)) <= set(far.tolist())
    assert scores[near] == pytest.approx(expected[near], rel=1e-9)
    inputs = stacked(distance.basis.scaling(tried), window)
    assert distance.score_many(inputs) == pytest.approx(expected, rel=1e-9)


def test_fewer_rows_than_a_window_have_no_score() -> None:
    rows = walk(2, 300, 19)
    for window in (1, 10):
        bulk = known(rows, window, None, "standard").of_rows
        assert bulk is not None
        for count in range(window + 2):
            scores, far = bulk(rows[:count])
            assert len(scores) == max(count - window + 1, 0)
            assert not len(far)


@pytest.mark.parametrize(("columns", "window", "units"), SHAPES)
def test_a_score_does_not_depend_on_the_rows_beside(
    columns: int, window: int, units: int | None
) -> None:
    rows = walk(3, 5000, columns)
    bulk = known(rows, window, units, "standard").of_rows
    assert bulk is not None
    whole, _ = bulk(rows)
    for start in (0, 1, 777, 4900):
        part, _ = bulk(rows[start : start + 100])
        assert part == pytest.approx(whole[start : start + len(part)], rel=1e-9)


def test_rows_whose_offset_swallows_the_centre_must_be_scaled_first() -> None:
    rows = walk(4, 300, 4)
    assert known(rows + 1e3, 1, None, "standard").of_rows is not None
    assert known(rows + 1e12, 1, None, "standard").of_rows is None
    # Where nothing is scaled the mean itself is the centre.
    assert known(rows + 1e12, 1, None, "none").of_rows is not None


def test_windows_whose_rows_have_far_centres_must_be_set_side_by_side() -> None:
    rows = np.tile([[0.0], [100.0]], (100, 30)) + walk(5, 200, 30)
    basis = Basis.fitted(rows, None, scaling="standard", window=2, units=20)
    sums = MomentSums(basis, 1.0, np.dtype(np.float64))
    sums.add_many(stacked(basis.scaling(rows), 2)[::2])
    assert Distance(sums.evidence).of_rows is None


def test_what_scores_rows_can_be_copied() -> None:
    for columns, window, units, kind in ((8, 1, None, FewInputs), (19, 10, None, Windows)):
        rows = walk(6, 400, columns)
        distance = known(rows, window, units, "standard")
        bulk = distance.of_rows
        assert isinstance(bulk, kind)
        copy = pickle.loads(pickle.dumps(distance)).of_rows
        assert np.array_equal(copy(rows)[0], bulk(rows)[0])
