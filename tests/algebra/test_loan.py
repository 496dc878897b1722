"""What devices lend each other: how readings move together, and nothing of where they lie."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, Evidence, HiddenLayer
from elmgrove.algebra.distance import Distance, agreed, lent, lent_together, rows_lent
from elmgrove.algebra.moments import Moments, zero_evidence
from support.laws import law_examples
from support.moments import distance_basis, moments_of

SHAPES = pytest.mark.parametrize(
    ("columns", "units", "scaling"),
    [(6, 6, "standard"), (6, 6, "none"), (12, 4, "standard"), (12, 4, "none")],
)


def moving(seed: int, rows: int, columns: int) -> np.ndarray:
    """Rows of one kind of machine: two things move all columns, each with a little of its own."""
    rng = np.random.default_rng(99)
    mix = rng.normal(size=(2, columns))
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 2)) @ mix + 0.1 * rng.normal(size=(rows, columns))


@SHAPES
def test_what_is_lent_could_have_come_from_rows(columns: int, units: int, scaling: str) -> None:
    basis = distance_basis(columns, units, scaling, seed=3)
    total = Evidence.sum([lent(moments_of(basis, moving(i, 50, columns))) for i in range(5)])
    assert total.admissible()
    assert isinstance(total, Moments)
    assert not total.s.any()
    assert total.count == pytest.approx(5 * 50 / (50 + columns))
    assert (total.e <= total.count * (1 + 1e-9)).all()


@settings(max_examples=law_examples(30), deadline=None)
@given(
    offset=st.floats(-1e6, 1e6), factor=st.sampled_from([1.0, 10.0, 1e6]), seed=st.integers(0, 9)
)
def test_nobody_learns_where_a_device_lies_or_how_often_it_counts(
    offset: float, factor: float, seed: int
) -> None:
    basis = distance_basis(5, 5, "standard")
    X = 3.0 * moving(seed, 400, 5)
    one, other = lent(moments_of(basis, X)), lent(moments_of(basis, X + offset).weighted(factor))
    size = (400 * factor) / (400 * factor + 5) / (400 / 405)
    assert np.asarray(other.C) == pytest.approx(size * np.asarray(one.C), rel=1e-3, abs=1e-3)


@SHAPES
def test_relations_are_taken_over_and_levels_and_deviations_are_not(
    columns: int, units: int, scaling: str
) -> None:
    basis = distance_basis(columns, units, scaling, seed=3)
    others = Evidence.sum([lent(moments_of(basis, moving(i, 500, columns))) for i in range(5)])
    # Somewhere else, and moving three times as far.
    mine = 3.0 * moving(7, columns // 2, columns) + 50.0
    alone, with_loan = (Distance(moments_of(basis, mine), loan=loan) for loan in (None, others))
    later = 3.0 * moving(8, 1000, columns) + 50.0
    broken = later.copy()
    broken[:, 0] = np.random.default_rng(0).permutation(broken[:, 0])

    def told_apart(distance: Distance) -> float:
        fine, wrong = distance.score_many(later), distance.score_many(broken)
        return float((wrong[:, None] > fine).mean())

    assert with_loan.mean == pytest.approx(alone.mean)
    assert told_apart(with_loan) > told_apart(alone) + 0.01


@SHAPES
def test_a_device_that_has_seen_enough_borrows_nothing(
    columns: int, units: int, scaling: str
) -> None:
    basis = distance_basis(columns, units, scaling, seed=3)
    others = lent(moments_of(basis, moving(1, 500, columns)))
    own, tried = moments_of(basis, moving(2, 6 * columns, columns)), moving(3, 20, columns)
    assert Distance(own, loan=others).score_many(tried) == pytest.approx(
        Distance(own).score_many(tried), rel=1e-12
    )


def test_the_loan_fades() -> None:
    lengths = [rows_lent(count, 10) for count in (0, 5, 10, 20, 30, 100, 1e300)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == 10.0
    assert lengths[-3] < 0.01
    assert lengths[-1] == 0.0


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_lend_nothing(rows: int) -> None:
    basis = distance_basis(4, 4, "standard")
    assert lent(moments_of(basis, moving(1, rows, 4))) == zero_evidence(basis)


def test_columns_that_never_move_lend_nothing() -> None:
    basis = distance_basis(4, 4, "standard")
    X = moving(1, 100, 4)
    X[:, 2] = 5.0
    total = lent(moments_of(basis, X))
    assert total.e[2] == 0.0
    assert not total.C[2].any()
    assert np.isfinite(Distance(moments_of(basis, X[:3]), loan=total).score_many(X)).all()


def test_a_loss_has_nothing_to_lend() -> None:
    basis = Basis(HiddenLayer(3, 2), 3, None)
    assert lent(zero_evidence(basis)) is None


@SHAPES
@pytest.mark.parametrize("attack", ["count", "size", "fault"])
def test_a_device_that_lies_changes_no_more_than_one_that_does_not(
    columns: int, units: int, scaling: str, attack: str
) -> None:
    basis = distance_basis(columns, units, scaling, seed=3)
    honest = [moments_of(basis, moving(i, 300, columns)) for i in range(10)]
    fault = np.zeros(columns)
    fault[0] = 1.0
    wrong = moving(11, 300, columns)
    wrong += 5.0 * np.random.default_rng(1).normal(size=(300, 1)) * fault
    poisoned = {
        "count": moments_of(basis, wrong).weighted(1e6),
        "size": moments_of(basis, 1e4 * wrong),
        "fault": Evidence.sum([*honest, moments_of(basis, 10.0 * wrong)]).weighted(3.0),
    }[attack]
    own, later = moments_of(basis, moving(20, columns, columns)), moving(21, 2000, columns)
    faulty = moving(22, 2000, columns) + 2.0 * fault
    found = []
    for others in (honest, [*honest, poisoned]):
        distance = Distance(own, loan=agreed(lent(one) for one in others))
        limit = np.quantile(distance.score_many(later), 0.99)
        found.append(float((distance.score_many(faulty) > limit).mean()))
    assert abs(found[1] - found[0]) <= 0.02


def test_the_one_that_is_least_like_the_rest_is_left_out() -> None:
    basis = distance_basis(6, 6, "standard", seed=3)
    alike = [lent(moments_of(basis, moving(i, 300, 6))) for i in range(3)]
    odd = lent(moments_of(basis, np.random.default_rng(5).normal(size=(300, 6))))
    for place in range(4):
        assert agreed([*alike[:place], odd, *alike[place:]]) == lent_together(alike)


@settings(max_examples=law_examples(20), deadline=None)
@given(order=st.permutations(range(5)))
def test_the_order_of_lenders_does_not_matter(order: list[int]) -> None:
    basis = distance_basis(5, 5, "standard")
    loans = [lent(moments_of(basis, moving(i, 100 + 50 * i, 5))) for i in range(5)]
    found, expected = agreed(loans[place] for place in order), agreed(loans)
    assert found is not None
    assert expected is not None
    assert found.close_to(expected, 1e-12)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_of_two_lenders_nobody_is_left_out(count: int) -> None:
    basis = distance_basis(4, 4, "standard")
    loans = [lent(moments_of(basis, moving(i, 100, 4))) for i in range(count)]
    assert agreed([None, *loans, zero_evidence(basis)]) == lent_together(loans)
