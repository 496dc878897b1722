"""Whether one model can stand for two sets of rows, from their evidence alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import OSELM, Evidence, HiddenLayer
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.moments import zero_evidence
from elmgrove.algebra.similarity import Fitted, FittedDistance, groups, join
from support.laws import law_examples
from support.moments import distance_basis, moments_of
from support.patterns import INPUTS, rows_of

LAYER = HiddenLayer(inputs=INPUTS, units=3, seed=2)
RIDGE = 1e-3


def evidence(X: np.ndarray) -> Evidence:
    model = OSELM(LAYER, INPUTS)
    model.learn_many(X, X)
    return model.evidence


def fitted(X: np.ndarray) -> Fitted:
    return Fitted(evidence(X), RIDGE)


def error(of: np.ndarray, by: np.ndarray) -> float:
    """Σ ‖x − y‖² on some rows of the model of others, from the rows themselves."""
    H = LAYER(by)
    beta = np.linalg.solve(H.T @ H + RIDGE * np.eye(3), H.T @ by)
    return float(np.square(of - LAYER(of) @ beta).sum())


@settings(max_examples=law_examples(30), deadline=None)
@given(st.integers(0, 3), st.integers(0, 3), st.integers(5, 80), st.integers(5, 80))
def test_what_a_union_costs_is_what_the_rows_say(one: int, other: int, n: int, m: int) -> None:
    X, Y = rows_of(one, 1, n), rows_of(other, 2, m)
    both = np.vstack([X, Y])
    assert fitted(X).error == pytest.approx(error(X, X), rel=1e-6)
    growth = max(error(X, both) / error(X, X), error(Y, both) / error(Y, Y)) - 1.0
    assert fitted(X).loss_with(fitted(Y)) == pytest.approx(growth, rel=1e-4, abs=1e-6)
    assert fitted(Y).loss_with(fitted(X)) == pytest.approx(growth, rel=1e-4, abs=1e-6)


def test_rows_of_one_pattern_join_and_those_of_others_do_not() -> None:
    known = [fitted(rows_of(number % 3, number, 200)) for number in range(7)]
    assert groups(known, 0.1) == [[0, 3, 6], [1, 4], [2, 5]]
    assert groups(known, 0.0) == [[index] for index in range(7)]
    assert groups(known, np.inf) == [list(range(7))]
    assert groups([], 0.1) == []


@settings(max_examples=law_examples(20), deadline=None)
@given(st.permutations(range(6)))
def test_the_order_does_not_matter(order: list[int]) -> None:
    known = [fitted(rows_of(number % 2, number, 150)) for number in order]
    found = {frozenset(order[index] for index in group) for group in groups(known, 0.1)}
    assert found == {frozenset({0, 2, 4}), frozenset({1, 3, 5})}


def test_nothing_joins_with_anything_and_costs_nothing() -> None:
    nothing = Fitted(Evidence.zero(evidence(rows_of(0, 1, 5)).basis), RIDGE)
    assert nothing.error == 0.0
    assert nothing.loss_with(fitted(rows_of(0, 1, 50))) == pytest.approx(0.0, abs=1e-12)


# By distance


def apart(X: np.ndarray) -> FittedDistance:
    return FittedDistance(moments_of(distance_basis(INPUTS, scaling="standard"), X), RIDGE)


def cloud_at(level: float, seed: int, rows: int) -> np.ndarray:
    """Rows around a level, that lie in a plane of their own but for a little."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(7).normal(size=(2, INPUTS))
    return level + rng.normal(size=(rows, 2)) @ mix + 0.3 * rng.normal(size=(rows, INPUTS))


def test_a_loss_is_how_much_farther_rows_of_one_lie_from_the_other() -> None:
    one, other = apart(cloud_at(0.0, 1, 400)), apart(2.0 * cloud_at(1.0, 2, 300))
    here, there = Distance(one.evidence), Distance(other.evidence)
    expected = max(here.mean_score(there), there.mean_score(here)) - 1.0
    assert one.loss_with(other) == other.loss_with(one) == pytest.approx(expected, rel=1e-12)
    assert one.loss_with(one) == pytest.approx(0.0, abs=1e-9)
    # two halves of the same rows hardly lose, and never win much
    assert 0.0 <= apart(cloud_at(0.0, 3, 400)).loss_with(one) < 0.3
    assert one.loss_with(other) > 1.0


def test_rows_of_one_cloud_join_and_those_of_others_do_not() -> None:
    levels = [0.0, 5.0, -20.0]
    known = [apart(cloud_at(levels[number % 3], number, 300)) for number in range(10)]
    assert groups(known, 1.0) == [[0, 3, 6, 9], [1, 4, 7], [2, 5, 8]]
    assert groups(known, -1.0) == [[index] for index in range(10)]
    assert groups(known, np.inf) == [list(range(10))]
    joined = join(known, 1.0)
    assert joined.groups == groups(known, 1.0)
    assert len(joined.steps) == 7
    assert joined.refused is not None
    assert joined.refused.loss > 1.0
    assert len(join(known, 1.0, least=5).groups) == 5


@settings(max_examples=law_examples(20), deadline=None)
@given(st.permutations(range(6)))
def test_the_order_of_clouds_does_not_matter(order: list[int]) -> None:
    known = [apart(cloud_at(9.0 * (number % 2), number, 150)) for number in order]
    found = {frozenset(order[index] for index in group) for group in groups(known, 1.0)}
    assert found == {frozenset({0, 2, 4}), frozenset({1, 3, 5})}


def test_sets_of_no_rows_of_one_and_of_equal_rows_can_be_compared() -> None:
    basis = distance_basis(INPUTS, scaling="standard")
    nothing = FittedDistance(zero_evidence(basis), RIDGE)
    single, same = apart(np.full((1, INPUTS), 0.5)), apart(np.full((50, INPUTS), 0.5))
    far = apart(1e70 * cloud_at(0.0, 1, 50))
    for one in (nothing, single, same, far):
        for other in (nothing, single, same, far):
            assert np.isfinite(one.loss_with(other))
    assert groups([same, same], 0.02) == [[0, 1]]
    assert groups([same, far], 1e9) == [[0], [1]]
