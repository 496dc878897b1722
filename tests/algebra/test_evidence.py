"""Evidence is a value: it adds, subtracts, compares and solves, and never changes."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import BadInput, Basis, Evidence, HiddenLayer, Mismatch, SingularSystem
from support.laws import law_examples

BASIS = Basis(HiddenLayer(3, 5, "tanh", seed=1), 2)


def rows(seed: int, count: int, basis: Basis = BASIS) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, basis.layer.inputs)), rng.normal(size=(count, basis.outputs))


def evidence_of(
    X: np.ndarray, T: np.ndarray, basis: Basis = BASIS, dtype: Any = np.float64
) -> Evidence:
    """The definition: U = Σ hᵀh, V = Σ hᵀt, energy = Σ ‖t‖², count."""
    H = basis.layer(X)
    return Evidence(
        basis, (H.T @ H).astype(dtype), (H.T @ T).astype(dtype), np.square(T).sum(), len(X)
    )


def made(seed: int, count: int = 20, dtype: Any = np.float64) -> Evidence:
    return evidence_of(*rows(seed, count), dtype=dtype)


def snapshot(evidence: Evidence) -> tuple[bytes, bytes, float, float]:
    return evidence.U.tobytes(), evidence.V.tobytes(), evidence.energy, evidence.count


# Adding and subtracting


def test_the_sum_is_the_evidence_of_all_rows() -> None:
    (X, T), (Y, S) = rows(1, 20), rows(2, 7)
    together = evidence_of(np.vstack([X, Y]), np.vstack([T, S]))
    assert (evidence_of(X, T) + evidence_of(Y, S)).close_to(together, 1e-14)
    assert together.count == 27


def test_the_difference_is_the_evidence_of_the_rows_that_are_left() -> None:
    X, T = rows(1, 20)
    left = evidence_of(X, T) - evidence_of(X[:5], T[:5])
    assert left.close_to(evidence_of(X[5:], T[5:]), 1e-13)
    assert left.count == 15


def test_zero_is_neutral_and_adding_commutes_to_the_last_bit() -> None:
    a, b, zero = made(1), made(2), Evidence.zero(BASIS)
    assert a + b == b + a
    assert a + zero == a - zero == a
    assert a - a == zero
    assert zero.count == zero.energy == 0


def test_sum_equals_adding_one_after_another_to_the_last_bit() -> None:
    parts = [made(seed) for seed in range(5)]
    one_by_one = parts[0]
    for part in parts[1:]:
        one_by_one = one_by_one + part
    assert Evidence.sum(parts) == one_by_one
    assert Evidence.sum(part for part in parts) == one_by_one
    assert Evidence.sum(parts[:1]) == parts[0]


def test_the_sum_of_nothing_has_no_basis() -> None:
    with pytest.raises(BadInput, match=r"start from zero_evidence\(basis\)"):
        Evidence.sum([])


@pytest.mark.parametrize(("left", "right"), [(np.float32, np.float64), (np.float64, np.float32)])
def test_two_precisions_add(left: Any, right: Any) -> None:
    mixed = made(1, dtype=left) + made(2, dtype=right)
    assert mixed.U.dtype == mixed.V.dtype
    assert mixed == Evidence.sum([made(1, dtype=left), made(2, dtype=right)])
    assert mixed.close_to(made(1) + made(2), 1e-6)


OPERATIONS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "sum": lambda a, b: Evidence.sum([a, b]),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_what_was_learned_in_different_ways_does_not_add(operation: Any) -> None:
    other = Evidence.zero(Basis(HiddenLayer(3, 5, "tanh", seed=2), 2))
    with pytest.raises(Mismatch, match=r"layer\.seed: 1 here, 2 there"):
        operation(made(1), other)


# Nothing changes


@pytest.mark.parametrize(
    "operation",
    [
        *OPERATIONS.values(),
        lambda a, b: a.close_to(b),
        lambda a, b: a == b,
        lambda a, b: a.solve(0.1),
        lambda a, b: a.error_of(b.solve(0.1)),
        lambda a, b: a.admissible(),
    ],
)
def test_no_operation_changes_its_arguments(operation: Any) -> None:
    a, b = made(1), made(2)
    before = snapshot(a), snapshot(b)
    operation(a, b)
    assert (snapshot(a), snapshot(b)) == before


@pytest.mark.parametrize(
    "evidence",
    [made(1), made(1) + made(2), made(1) - made(2), Evidence.sum([made(1)]), Evidence.zero(BASIS)],
)
def test_arrays_and_fields_are_read_only(evidence: Evidence) -> None:
    for array in (evidence.U, evidence.V):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        evidence.count = 3.0


def test_it_keeps_its_values_when_the_arrays_it_was_made_from_change() -> None:
    U, V = np.eye(5), np.ones((5, 2))
    evidence = Evidence(BASIS, U, V, 1.0, 1)
    U[0, 0], V[0, 0] = 7.0, 7.0
    assert evidence.U[0, 0] == evidence.V[0, 0] == 1.0


def test_a_sum_shares_no_memory_with_its_parts() -> None:
    part = made(1)
    assert not np.shares_memory(Evidence.sum([part]).U, part.U)


# Comparing


@pytest.mark.parametrize("part", ["U", "V", "energy", "count"])
def test_each_part_counts_in_a_comparison(part: str) -> None:
    a = made(1)
    value = getattr(a, part)
    moved = dataclasses.replace(a, **{part: value + 1e-6 * np.abs(value).max()})
    assert a.close_to(moved, 1e-5)
    assert not a.close_to(moved, 1e-7)
    assert a != moved


def test_equal_is_to_the_last_bit() -> None:
    a = made(1)
    assert a == made(1)
    nudged = np.array(a.U)
    nudged[2, 3] = np.nextafter(nudged[2, 3], np.inf)
    assert a != dataclasses.replace(a, U=nudged)
    assert a.close_to(dataclasses.replace(a, U=nudged))


def test_evidence_of_another_basis_or_of_another_type_is_not_equal() -> None:
    zero = Evidence.zero(BASIS)
    other = Evidence.zero(Basis(HiddenLayer(3, 5, "tanh", seed=2), 2))
    assert not zero.close_to(other, 1.0)
    assert zero != other
    assert zero != 0


def test_nan_is_close_to_nothing() -> None:
    broken = dataclasses.replace(made(1), energy=float("nan"))
    assert not broken.close_to(broken, 1.0)


# Solving


@pytest.mark.parametrize("ridge", [1e-6, 1e-3, 1.0, 10.0])
def test_solve_is_the_ridge_regression_of_the_rows(ridge: float) -> None:
    X, T = rows(1, 40)
    H = BASIS.layer(X)
    # The textbook's other way: least squares with √λ rows below.
    stacked = np.vstack([H, np.sqrt(ridge) * np.eye(5)])
    expected = np.linalg.lstsq(stacked, np.vstack([T, np.zeros((5, 2))]), rcond=None)[0]
    np.testing.assert_allclose(evidence_of(X, T).solve(ridge), expected, rtol=1e-9, atol=1e-12)


def test_the_solution_has_the_dtype_of_the_evidence() -> None:
    assert made(1).solve(0.1).dtype == np.float64
    assert made(1, dtype=np.float32).solve(0.1).dtype == np.float32


def test_zero_rows_are_a_model_that_answers_zero() -> None:
    assert not Evidence.zero(BASIS).solve(1e-3).any()
    with pytest.raises(SingularSystem):
        Evidence.zero(BASIS).solve(0.0)


@settings(max_examples=law_examples(50), deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 30), st.sampled_from(["identity", "relu", "tanh"]))
def test_error_of_is_the_squared_error_over_the_rows(
    seed: int, count: int, activation: str
) -> None:
    basis = Basis(HiddenLayer(3, 5, activation, seed=seed), 2)
    X, T = rows(seed, count, basis)
    beta = np.random.default_rng(seed + 1).normal(size=(5, 2))
    true = np.square(T - basis.layer(X) @ beta).sum()
    # the three terms cancel, so rounding is a share of the largest of them
    rounding = 1e-12 * np.square(basis.layer(X) @ beta).sum()
    assert evidence_of(X, T, basis).error_of(beta) == pytest.approx(true, rel=1e-12, abs=rounding)


def test_error_of_the_own_solution_is_the_least_there_is() -> None:
    evidence = made(1, 40)
    best = evidence.solve(0.0)
    nudges = np.random.default_rng(0).normal(scale=1e-3, size=(20, 5, 2))
    assert all(evidence.error_of(best + nudge) > evidence.error_of(best) for nudge in nudges)


def test_error_of_adds_over_parts() -> None:
    a, b, beta = made(1), made(2), np.ones((5, 2))
    assert (a + b).error_of(beta) == pytest.approx(a.error_of(beta) + b.error_of(beta))


# What is not evidence


@pytest.mark.parametrize(
    ("U", "V", "words"),
    [
        (np.eye(4), np.ones((5, 2)), "U must be 5 × 5"),
        (np.eye(5)[:4], np.ones((5, 2)), "U must be 5 × 5"),
        (np.eye(5), np.ones((2, 5)), "V must be 5 × 2"),
        (np.eye(5), np.ones(5), "V must be 5 × 2"),
        (np.eye(5, dtype=int), np.ones((5, 2)), "U must be .* float64 or float32"),
        (np.eye(5), np.ones((5, 2), np.float16), "V must be .* float64 or float32"),
        (np.eye(5), np.ones((5, 2), complex), "V must be .* float64 or float32"),
    ],
)
def test_arrays_of_another_shape_or_dtype_are_refused(U: Any, V: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        Evidence(BASIS, U, V, 1.0, 1.0)
