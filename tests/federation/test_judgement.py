"""Errors that are computed from sums equal those of the rows."""

import numpy as np
import pytest

from elmgrove import Basis, Evidence, HiddenLayer, Mismatch
from elmgrove.federation import Contribution, judge
from support.contributions import BASIS, RIDGE, evidence, rows, said


def literal_beta(X: np.ndarray) -> np.ndarray:
    H = BASIS.layer(X)
    return np.linalg.solve(H.T @ H + RIDGE * np.eye(4), H.T @ X)


def test_each_model_on_each_others_rows() -> None:
    X = [rows(seed, count) for seed, count in ((1, 40), (2, 25), (3, 3))]
    parts = [said(name, part) for name, part in zip("abc", X, strict=True)]
    judgement = judge(parts, RIDGE)
    assert judgement.names == ("a", "b", "c")
    for i, mine in enumerate(X):
        for j, theirs in enumerate(X):
            residual = theirs - BASIS.layer(theirs) @ literal_beta(mine)
            from_sums = parts[j].evidence.error_of(parts[i].evidence.solve(RIDGE)) / theirs.size
            assert judgement.error[i, j] == pytest.approx(np.square(residual).mean(), rel=1e-9)
            assert judgement.error[i, j] == pytest.approx(from_sums, rel=1e-9)


def test_a_device_without_rows_can_not_be_judged_on_them() -> None:
    judgement = judge([said("a", rows(1)), said("b", rows(1, 0)), said("c", rows(2))], RIDGE)
    assert np.isnan(judgement.error[:, 1]).all()
    assert np.isfinite(np.delete(judgement.error, 1, axis=1)).all()
    assert np.isfinite(judgement.strangeness).all()


def test_strangeness_is_the_median_of_how_much_worse_others_are_explained() -> None:
    judgement = judge([said(str(seed), rows(seed)) for seed in range(5)], RIDGE)
    for i, strangeness in enumerate(judgement.strangeness):
        ratios = [judgement.error[i, j] / judgement.error[j, j] for j in range(5) if j != i]
        assert strangeness == pytest.approx(np.median(ratios), rel=1e-12)


@pytest.mark.parametrize("count", [0, 1])
def test_alone_nobody_is_strange(count: int) -> None:
    assert judge([said("a", rows(1, count))], RIDGE).strangeness.tolist() == [1.0]


def test_of_devices_without_rows_nobody_is_strange() -> None:
    silent = judge([said(name, rows(1, 0)) for name in "abc"], RIDGE)
    assert silent.strangeness.tolist() == [1.0] * 3


def test_rows_that_are_all_zero_leave_no_error_and_no_warning() -> None:
    zeros = judge([said(name, np.zeros((5, 6))) for name in "abc"], RIDGE)
    assert np.isfinite(zeros.strangeness).all()


def test_a_model_beyond_all_numbers_is_strange_without_end() -> None:
    """Admissible, each value finite, and its errors are not."""
    linear = Basis(HiddenLayer(6, 4, seed=2), 6)
    wild = Evidence(linear, 1e-100 * np.eye(4), 1e49 * np.eye(4, 6), 1e199, 10)
    large = Evidence(linear, 1e150 * np.eye(4), np.zeros((4, 6)), 1e190, 10)
    assert wild.admissible()
    assert large.admissible()
    honest = [Contribution(name, 40, (evidence(rows(1), linear),)) for name in "abc"]
    parts = [*honest, Contribution("large", 10, (large,)), Contribution("wild", 10, (wild,))]
    judgement = judge(parts, 1e-30)
    assert judgement.error[4, 3] == np.inf
    assert judgement.strangeness[:3].tolist() == pytest.approx([1.0] * 3)
    assert judgement.strangeness[4] > 1e100


def test_parts_of_different_making_are_not_compared() -> None:
    other = Contribution("b", 5, (evidence(rows(1), Basis(HiddenLayer(6, 4, seed=3), 6)),))
    with pytest.raises(Mismatch):
        judge([said("a", rows(1)), other], RIDGE)
