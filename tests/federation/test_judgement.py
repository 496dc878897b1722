"""Errors that are computed from sums equal those of the rows."""

import numpy as np
import pytest

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.similarity import mean_scores
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.selection import judge
from support.factories import (
    BASIS,
    DISTANT,
    RIDGE,
    cloud,
    contribution_of,
    distance_contribution,
    evidence_of,
    plane_rows,
)
from support.moments import distance_basis, moments_of


def literal_beta(X: np.ndarray) -> np.ndarray:
    H = BASIS.layer(X)
    return np.linalg.solve(H.T @ H + RIDGE * np.eye(4), H.T @ X)


def test_each_model_on_each_others_rows() -> None:
    X = [plane_rows(seed, count) for seed, count in ((1, 40), (2, 25), (3, 3))]
    parts = [contribution_of(name, part) for name, part in zip("abc", X, strict=True)]
    judgement = judge(parts, RIDGE)
    assert judgement.names == ("a", "b", "c")
    for i, mine in enumerate(X):
        for j, theirs in enumerate(X):
            residual = theirs - BASIS.layer(theirs) @ literal_beta(mine)
            from_sums = parts[j].evidence.error_of(parts[i].evidence.solve(RIDGE)) / theirs.size
            assert judgement.error[i, j] == pytest.approx(np.square(residual).mean(), rel=1e-9)
            assert judgement.error[i, j] == pytest.approx(from_sums, rel=1e-9)


def test_a_device_without_rows_can_not_be_judged_on_them() -> None:
    judgement = judge(
        [
            contribution_of("a", plane_rows(1)),
            contribution_of("b", plane_rows(1, 0)),
            contribution_of("c", plane_rows(2)),
        ],
        RIDGE,
    )
    assert np.isnan(judgement.error[:, 1]).all()
    assert np.isfinite(np.delete(judgement.error, 1, axis=1)).all()
    assert np.isfinite(judgement.strangeness).all()


def test_strangeness_is_the_median_of_how_much_worse_others_are_explained() -> None:
    judgement = judge([contribution_of(str(seed), plane_rows(seed)) for seed in range(5)], RIDGE)
    for i, strangeness in enumerate(judgement.strangeness):
        ratios = [judgement.error[i, j] / judgement.error[j, j] for j in range(5) if j != i]
        assert strangeness == pytest.approx(np.median(ratios), rel=1e-12)


@pytest.mark.parametrize("count", [0, 1])
def test_alone_or_without_rows_nobody_is_anomalous(count: int) -> None:
    names = "a" if count else "abc"
    found = judge([contribution_of(name, plane_rows(1, count)) for name in names], RIDGE)
    assert found.strangeness.tolist() == [1.0] * len(names)


def test_rows_that_are_all_zero_leave_no_error_and_no_warning() -> None:
    zeros = judge([contribution_of(name, np.zeros((5, 6))) for name in "abc"], RIDGE)
    assert np.isfinite(zeros.strangeness).all()


def test_a_model_beyond_all_numbers_is_anomalous_without_end() -> None:
    """Admissible, each value finite, and its errors are not."""
    linear = Basis(HiddenLayer(6, 4, seed=2), 6)
    wild = Evidence(linear, 1e-100 * np.eye(4), 1e49 * np.eye(4, 6), 1e199, 10)
    large = Evidence(linear, 1e150 * np.eye(4), np.zeros((4, 6)), 1e190, 10)
    assert wild.admissible()
    assert large.admissible()
    honest = [Contribution(name, 40, (evidence_of(plane_rows(1), linear),)) for name in "abc"]
    parts = [*honest, Contribution("large", 10, (large,)), Contribution("wild", 10, (wild,))]
    judgement = judge(parts, 1e-30)
    assert judgement.error[4, 3] == np.inf
    assert judgement.strangeness[:3].tolist() == pytest.approx([1.0] * 3)
    assert judgement.strangeness[4] > 1e100


# By distance


def test_by_distance_each_is_judged_by_how_far_its_rows_lie_from_each() -> None:
    X = [cloud(0, 1), cloud(0, 2, 40), cloud(1, 3), cloud(2, 4, 5)]
    judgement = judge([distance_contribution(f"{n}", part) for n, part in enumerate(X)], RIDGE)
    models = [Distance(moments_of(DISTANT, part)) for part in X]
    for i, model in enumerate(models):
        assert judgement.error[i, i] == pytest.approx(1.0)
        for j, other in enumerate(models):
            assert judgement.error[i, j] == pytest.approx(model.mean_score(other), rel=1e-9)
    # From rows: the mean of the squared distances, before anything is damped or counted twice.
    for i in (0, 2):
        for j in (0, 2):
            model, there = models[i], X[j]
            Z = (there - model.mean) / model.deviation
            far = (np.square(Z).sum(axis=1) - np.square(Z @ model.K.T).sum(axis=1)).mean() / 6
            assert judgement.error[i, j] == pytest.approx(model.times_typical(far), rel=0.05)
    assert judgement.error[0, 1] < 1.3
    assert min(judgement.error[0, 2], judgement.error[2, 0]) > 5


def test_by_distance_a_device_without_rows_explains_nothing_and_can_not_be_judged() -> None:
    empty = distance_contribution("b", cloud(0, 1, 0))
    judgement = judge(
        [distance_contribution("a", cloud(0, 1)), empty, distance_contribution("c", cloud(0, 2))],
        RIDGE,
    )
    assert np.isnan(judgement.error[:, 1]).all()
    assert np.isinf(judgement.error[1, [0, 2]]).all()
    assert judgement.strangeness[0] == pytest.approx(1.0, abs=0.2)
    assert judge([empty], RIDGE).strangeness.tolist() == [1.0]


@pytest.mark.parametrize("columns", [3, 7])
def test_all_pairs_at_once_are_what_one_after_the_other_is(columns: int) -> None:
    """More than are taken at once, some of them far away or wide."""
    basis = distance_basis(columns, 3)
    rng = np.random.default_rng(columns)
    models = [
        Distance(
            moments_of(
                basis, 10.0 ** rng.integers(-3, 4) * rng.normal(rng.normal(), 1, (30, columns))
            )
        )
        for _ in range(40)
    ]
    together = mean_scores(models)
    for i, j in ((0, 0), (0, 39), (39, 0), (12, 33), (33, 12), (31, 32)):
        assert together[i, j] == pytest.approx(models[i].mean_score(models[j]), rel=1e-9)
    assert mean_scores([]).shape == (0, 0)
