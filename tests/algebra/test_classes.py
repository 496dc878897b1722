"""Evidence by class: any split is the same balanced model, and classes weigh what equations say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput, Basis, Evidence, HiddenLayer, Mismatch
from elmgrove.algebra.classes import ClassEvidence, balance
from support.laws import law_examples

CLASSES, INPUTS = 4, 3
BASIS = Basis(HiddenLayer(INPUTS, 6, "relu", seed=3), CLASSES)


def rows_with_classes(count: int, seed: int, *, kept: int = CLASSES) -> tuple[np.ndarray, ...]:
    """Rows and their classes, of which the first are the commonest and the last may be missing."""
    rng = np.random.default_rng(seed)
    label = np.minimum(rng.geometric(0.6, count) - 1, kept - 1)
    return rng.normal(size=(count, INPUTS)) + label[:, np.newaxis], np.eye(CLASSES)[label]


@settings(max_examples=law_examples(50), deadline=None)
@given(
    cuts=st.lists(st.integers(0, 80), max_size=6),
    kept=st.integers(1, CLASSES),
    seed=st.integers(0, 9),
    data=st.data(),
)
def test_any_split_and_order_is_the_balanced_model_of_all_rows(
    cuts: list[int], kept: int, seed: int, data: st.DataObject
) -> None:
    X, T = rows_with_classes(80, seed, kept=kept)
    order = np.random.default_rng(seed).permutation(80)
    parts = [ClassEvidence.of(BASIS, X[at], T[at]) for at in np.split(order, sorted(cuts))]
    found = ClassEvidence.sum(data.draw(st.permutations(parts)))
    # The rows in one place, each with its class' weight: β = (HᵀWH + λI)⁻¹HᵀWT
    N = T.sum(axis=0)
    w = (80 / (np.count_nonzero(N) * N[N > 0]))[np.cumsum(N > 0)[T.argmax(axis=1)] - 1]
    H = BASIS.layer(X)
    U, V = (H.T * w) @ H, (H.T * w) @ T
    assert found.balanced.close_to(Evidence(BASIS, U, V, float(w @ (T * T).sum(axis=1)), 80), 1e-9)
    np.testing.assert_allclose(
        found.balanced.solve(0.01), np.linalg.solve(U + 0.01 * np.eye(6), V), rtol=1e-6, atol=1e-9
    )
    found.balanced.require_admissible("balanced")
    # With weights of 1 it is the plain sum.
    assert found.weighed(np.ones(CLASSES)).close_to(
        Evidence(BASIS, H.T @ H, H.T @ T, 80.0, 80.0), 1e-9
    )


def test_each_row_weighs_as_the_equation_says_and_all_together_as_much_as_before() -> None:
    counts = np.array([60.0, 30.0, 0.0, 10.0])
    np.testing.assert_allclose(balance(counts), [100 / 180, 100 / 90, 0.0, 100 / 30])
    assert balance(counts) @ counts == pytest.approx(100.0)
    assert balance([0.0, 0.0]).tolist() == [0.0, 0.0]
    np.testing.assert_array_equal(balance([7.0, 7.0]), [1.0, 1.0])


def test_a_class_without_rows_changes_nothing_and_stays_at_zero() -> None:
    X, T = rows_with_classes(40, 1, kept=3)
    found = ClassEvidence.of(BASIS, X, T)
    assert found.counts[3] == 0.0
    assert not found.balanced.solve(0.01)[:, 3].any()
    later = ClassEvidence.of(BASIS, np.ones((1, INPUTS)), [[0, 0, 0, 1]])
    # Its first row weighs as much as all of any other class.
    assert balance((found + later).counts)[3] == pytest.approx(41 / 4)
    assert (found + ClassEvidence.zero(BASIS)).balanced == found.balanced


def test_what_has_no_class_or_another_basis_is_refused() -> None:
    X, T = rows_with_classes(5, 0)
    for odd in (0.5 * T, T - T, np.ones_like(T), -T, T[:, 0]):
        with pytest.raises(BadInput, match="targets of classes have one 1 in each row"):
            ClassEvidence.of(BASIS, X, odd)
    with pytest.raises(BadInput, match="5 rows of inputs, but 4 rows of targets"):
        ClassEvidence.of(BASIS, X, T[1:])
    with pytest.raises(BadInput, match="1 parts, where each output is that of a class"):
        ClassEvidence((Evidence.zero(BASIS),))
    with pytest.raises(BadInput, match="sum of no evidence"):
        ClassEvidence.sum([])
    other = Basis(HiddenLayer(INPUTS, 6, "relu", seed=4), 3)
    with pytest.raises(Mismatch, match="outputs: 4 here, 3 there"):
        ClassEvidence.zero(BASIS) + ClassEvidence.zero(other)
