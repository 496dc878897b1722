"""OS-ELM: every way to learn the same rows gives the same model, and bad rows change nothing."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import (
    OSELM,
    BadInput,
    Basis,
    Evidence,
    HiddenLayer,
    Mismatch,
    NotAdmissible,
    SingularSystem,
)
from elmgrove.algebra.linalg import EPSILON
from support.laws import law_examples

ACTIVATIONS = ("identity", "sigmoid", "relu", "tanh")
INPUTS, UNITS, OUTPUTS = 5, 8, 3
rng = np.random.default_rng(1)
X = rng.normal(size=(60, INPUTS))
T = X @ rng.normal(size=(INPUTS, OUTPUTS)) + 0.1 * rng.normal(size=(60, OUTPUTS))


def new(activation: str = "tanh", **settings: Any) -> OSELM:
    return OSELM(HiddenLayer(INPUTS, UNITS, activation, seed=4), OUTPUTS, **settings)


def learned(X: Any = X, T: Any = T, activation: str = "tanh", **settings: Any) -> OSELM:
    model = new(activation, **settings)
    model.learn_many(X, T)
    return model


def one_by_one(X: Any, T: Any, model: OSELM) -> OSELM:
    for x, t in zip(X, T, strict=True):
        model.learn_one(x, t)
    return model


def relative(ours: Any, theirs: Any) -> float:
    """The largest difference, as a share of the largest entry."""
    return float(np.abs(np.subtract(ours, theirs)).max() / np.abs(theirs).max())


def rounding(model: OSELM) -> float:
    """What two orders of summation may change in β: the condition of the system times ε."""
    A = model.total.U + model.ridge * np.eye(model.basis.layer.units)
    return 32.0 * float(EPSILON * np.linalg.cond(A))


# Learning


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("forgetting", [1.0, 0.95])
@pytest.mark.parametrize("ridge", [1e-6, 1e-3, 1.0, 10.0])
def test_learn_many_equals_a_loop_of_learn_one(
    activation: str, forgetting: float, ridge: float
) -> None:
    settings: dict[str, Any] = {"ridge": ridge, "forgetting": forgetting}
    many = learned(activation=activation, **settings)
    loop = one_by_one(X, T, new(activation, **settings))
    by_row = [loop.predict_one(x) for x in X]
    assert loop.evidence.close_to(many.evidence, 100 * EPSILON)
    assert relative(loop.beta, many.beta) < rounding(many)
    # one row is solved for until the residual is below ε^⅔
    assert relative(by_row, many.predict_many(X)) < max(rounding(many), 10 * EPSILON ** (2 / 3))


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
@settings(max_examples=law_examples(30), deadline=None)
@given(st.lists(st.integers(0, 60), max_size=8), st.booleans())
def test_chunks_of_any_size_give_the_same_evidence(
    forgetting: float, cuts: list[int], row_by_row: bool
) -> None:
    whole = learned(forgetting=forgetting)
    model = new(forgetting=forgetting)
    edges = [0, *sorted(cuts), 60]
    for i, (start, stop) in enumerate(pairwise(edges)):
        if row_by_row and i % 2:
            one_by_one(X[start:stop], T[start:stop], model)
        else:
            model.learn_many(X[start:stop], T[start:stop])
    assert model.evidence.close_to(whole.evidence, 100 * EPSILON)


def test_more_rows_than_one_block_are_learned_in_their_order() -> None:
    rows = np.random.default_rng(0).normal(size=(2500, INPUTS))
    targets = rows[:, :OUTPUTS]
    for forgetting in (1.0, 0.999):
        weights = forgetting ** np.arange(2499, -1, -1.0)
        H = new().basis.layer(rows)
        evidence = learned(rows, targets, forgetting=forgetting).evidence
        assert relative(evidence.U, (H.T * weights) @ H) < 1e-12
        assert relative(evidence.V, (H.T * weights) @ targets) < 1e-12
        assert evidence.energy == pytest.approx(weights @ np.square(targets).sum(axis=1))
        assert evidence.count == pytest.approx(weights.sum())


@pytest.mark.parametrize("forgetting", [1e-12, 0.5, 0.999])
def test_forgetting_weights_each_row_by_its_age(forgetting: float) -> None:
    weights = forgetting ** np.arange(59, -1, -1.0)
    H = new().basis.layer(X)
    for model in (
        learned(forgetting=forgetting),
        one_by_one(X, T, new(forgetting=forgetting)),
    ):
        tolerance = 100 * EPSILON
        assert relative(model.evidence.U, (H.T * weights) @ H) < tolerance
        assert relative(model.evidence.V, (H.T * weights) @ T) < tolerance
        assert model.evidence.count == pytest.approx(weights.sum())


# P, β and prediction


# Bad input


def with_value(rows: np.ndarray, row: int, column: int, value: Any) -> list[list[Any]]:
    listed = rows.tolist()
    listed[row][column] = value
    return listed


@pytest.fixture
def model() -> OSELM:
    return learned()


def refused(model: OSELM, action: Callable[[], Any]) -> BadInput:
    """That the action is refused and leaves the model as it was."""
    before, answer = model.evidence, model.predict_many(X)
    with pytest.raises(BadInput) as caught:
        action()
    assert model.evidence == before
    assert (model.predict_many(X) == answer).all()
    return caught.value


@pytest.mark.parametrize("value", [float("nan"), "warm", 1e200])
def test_a_bad_value_among_many_rows_is_refused_with_row_and_column(
    model: OSELM, value: Any
) -> None:
    bad_x, bad_t = with_value(X, 7, 2, value), with_value(T, 7, 2, value)
    for action in (
        lambda: model.learn_many(bad_x, T),
        lambda: model.learn_many(X, bad_t),
        lambda: model.predict_many(bad_x),
        lambda: model.leave_one_out(bad_x, T),
        lambda: model.leave_one_out(X, bad_t),
    ):
        error = refused(model, action)
        assert (error.row, error.column) == (7, 2)
        assert "row 7, column 2" in str(error)


@pytest.mark.parametrize("exponent", [30, 75])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_large_values_are_learned_without_overflow(activation: str, exponent: int) -> None:
    rows = X * 10.0**exponent
    model = one_by_one(rows, T, new(activation))
    model.learn_many(rows, T)
    assert np.isfinite([model.predict_one(x) for x in rows]).all()
    assert np.isfinite(model.predict_many(rows)).all()


@pytest.mark.parametrize("exponent", [80, 300])
def test_values_whose_sums_could_overflow_are_refused(exponent: int) -> None:
    model = learned()
    rows = X.copy()
    rows[3, 1] = 10.0**exponent
    for action in (lambda: model.learn_many(rows, T), lambda: model.learn_one(rows[3], T[3])):
        error = refused(model, action)
        assert error.column == 1
        assert "too large" in str(error)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ridge": -1e-9}, "ridge"),
        ({"ridge": float("nan")}, "ridge"),
        ({"ridge": float("inf")}, "ridge"),
        ({"forgetting": 0.0}, "forgetting"),
        ({"forgetting": 1.0001}, "forgetting"),
        ({"forgetting": float("nan")}, "forgetting"),
    ],
)
def test_a_bad_setting_is_refused_by_name(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        new(**settings)


# Singular systems


def test_a_singular_system_is_told_from_bad_input() -> None:
    model = new(ridge=0.0)
    model.learn_many(X[:3], T[:3])
    for action in (lambda: model.beta, lambda: model.P, lambda: model.predict_one(X[0])):
        with pytest.raises(SingularSystem, match="Likely causes: fewer rows than hidden units"):
            action()
    with pytest.raises(BadInput, match="nan"):
        model.predict_one([float("nan")] * INPUTS)


@pytest.mark.parametrize("ridge", [1e-6, 1e-9, 1e-12, 1e-15])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_ridge_too_small_does_no_harm(activation: str, ridge: float) -> None:
    # Fewer directions than units: the ridge alone makes the system solvable.
    rows = X[:, :2] @ np.random.default_rng(5).normal(size=(2, INPUTS))
    model = new(activation, ridge=ridge)
    largest = np.abs(T).max()
    for i, (x, t) in enumerate(zip(rows[:30], T, strict=False)):
        model.learn_one(x, t)
        seen, unseen = model.predict_one(rows[i // 2]), model.predict_one(X[i])
        fresh = model.predict_many(rows[i // 2 : i // 2 + 1])
        assert np.abs(seen - fresh).max() < 0.05 * largest
        assert np.abs(unseen).max() < 100 * largest


def test_a_ridge_whose_reciprocal_overflows_is_named() -> None:
    model = new(ridge=1e-300)
    with pytest.raises(SingularSystem, match="the ridge 1e-300 is too small"):
        model.learn_one(X[0], T[0])
    assert model.evidence == Evidence.zero(model.basis)


# Others' evidence


NEVER_LEARNED = {
    "more rows": learned(10 * X + 3, T),
    "other rows": learned(X[50:], T[50:]),
    "other targets": learned(X[:30], 5.0 - T[:30]),
}


@pytest.mark.parametrize("other", NEVER_LEARNED.values(), ids=NEVER_LEARNED)
def test_evidence_that_was_never_merged_can_not_be_taken_out(other: OSELM) -> None:
    model = learned(X[:30], T[:30])
    before = model.evidence
    with pytest.raises(NotAdmissible, match="never learned here"):
        model.subtract(other.evidence)
    assert model.evidence == before


OPERATIONS: dict[str, Callable[[OSELM, Evidence], None]] = {
    "merge": lambda model, other: model.merge(other),
    "subtract": lambda model, other: model.subtract(other),
    "prior": lambda model, other: setattr(model, "prior", other),
}


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_evidence_of_another_layer_is_refused(operation: Any) -> None:
    model = learned()
    before = model.evidence
    other = Evidence.zero(Basis(HiddenLayer(INPUTS, UNITS, "tanh", seed=5), OUTPUTS))
    with pytest.raises(Mismatch, match=r"layer\.seed: 4 here, 5 there"):
        operation(model, other)
    assert model.evidence == before
    assert model.prior is None


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_evidence_that_no_rows_can_give_is_refused(operation: Any) -> None:
    model = learned()
    before = model.evidence
    poison = Evidence(model.basis, -np.eye(UNITS), np.ones((UNITS, OUTPUTS)), 1.0, 1.0)
    with pytest.raises(NotAdmissible, match="negative diagonal"):
        operation(model, poison)
    assert model.evidence == before
    assert model.prior is None


# The prior: others' evidence that stays theirs


@pytest.mark.parametrize("forgetting", [1.0, 0.9])
def test_the_model_rests_on_the_prior_but_the_evidence_is_its_own(forgetting: float) -> None:
    prior = learned(X[:20], T[:20]).evidence
    model, alone = (new(forgetting=forgetting) for _ in range(2))
    model.prior = prior
    one_by_one(X[20:], T[20:], model)
    one_by_one(X[20:], T[20:], alone)
    assert model.evidence == alone.evidence
    assert model.prior == prior
    assert model.total.close_to(prior + alone.evidence, 1e-15)
    by_row = [model.predict_one(x) for x in X]
    expected = model.hidden_many(X) @ (prior + alone.evidence).solve(model.ridge)
    assert relative(model.predict_many(X), expected) < rounding(model)
    assert relative(by_row, expected) < max(rounding(model), 10 * EPSILON ** (2 / 3))


def test_the_prior_is_not_forgotten() -> None:
    model = new(forgetting=0.5)
    model.prior = learned(X[:20], T[:20]).evidence
    for _ in range(5):
        model.learn_many(X[20:], T[20:])
        one_by_one(X[20:], T[20:], model)
    assert model.evidence.count == pytest.approx(2.0)
    assert model.total.count == pytest.approx(22.0)


# Leave one out


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("forgetting", [1.0, 0.97])
@pytest.mark.parametrize("ridge", [1e-3, 1.0])
def test_leave_one_out_equals_training_without_the_row(
    activation: str, forgetting: float, ridge: float
) -> None:
    model = learned(activation=activation, forgetting=forgetting, ridge=ridge)
    model.prior = learned(X[:4] + 1, T[:4], activation).evidence
    H, P0 = model.basis.layer(X), model.prior
    weights = forgetting ** np.arange(len(X) - 1, -1, -1.0)
    expected = []
    for i in range(len(X)):
        others = np.where(np.arange(len(X)) == i, 0.0, weights)
        A = (H.T * others) @ H + P0.U + ridge * np.eye(UNITS)
        beta = np.linalg.solve(A, (H.T * others) @ T + P0.V)
        expected.append(np.square(T[i] - H[i] @ beta).sum())
    np.testing.assert_allclose(model.leave_one_out(X, T), expected, rtol=1e-8)
    # the last rows alone are told apart from the ones before by their age
    np.testing.assert_allclose(model.leave_one_out(X[50:], T[50:]), expected[50:], rtol=1e-8)
