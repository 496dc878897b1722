"""The library agrees with the printed equations of Ito 2021 on real data: handwritten digits."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from elmgrove import OSELM, HiddenLayer
from support import literal

Array = NDArray[np.float64]

DIGITS, LABELS = load_digits(return_X_y=True)
X: Array = DIGITS / 16.0
# Both kinds of target: the row itself (the autoencoder) and one column a class.
T: Array = np.hstack([X, np.eye(10)[LABELS]])
FIRST = 200


@pytest.fixture(params=["identity", "sigmoid", "relu", "tanh"])
def layer(request: pytest.FixtureRequest) -> HiddenLayer:
    # With this seed HᵀH has a condition below 1e3 for all four, without any ridge.
    return HiddenLayer(X.shape[1], 16, activation=request.param, seed=101)


@pytest.fixture
def H(layer: HiddenLayer) -> Array:
    return literal.hidden(X, layer.alpha, layer.b, layer.activation)


def learned(layer: HiddenLayer, X: Array, T: Array) -> OSELM:
    model = OSELM(layer, T.shape[1], ridge=0.0)
    model.learn_many(X, T)
    return model


def agrees(ours: Array, theirs: Array) -> bool:
    """To 1e-9 of the largest entry."""
    return bool(np.abs(ours - theirs).max() <= 1e-9 * np.abs(theirs).max())


def test_the_layer_is_the_hidden_part_of_equation_1(layer: HiddenLayer, H: Array) -> None:
    assert agrees(layer(X), H)
    assert agrees(learned(layer, X, T).hidden_many(X), H)


def test_prediction_is_equation_1(layer: HiddenLayer, H: Array) -> None:
    model = learned(layer, X, T)
    assert agrees(model.predict_many(X), H @ model.beta)
    assert agrees(model.predict_one(X[0]), H[0] @ model.beta)


def test_beta_is_equation_3(layer: HiddenLayer, H: Array) -> None:
    assert agrees(learned(layer, X, T).beta, literal.elm(H, T))


def test_beta_is_equation_5(layer: HiddenLayer, H: Array) -> None:
    assert agrees(learned(layer, X, T).beta, literal.elm_by_normal_equations(H, T))


def test_evidence_and_its_solution_are_equation_6(layer: HiddenLayer, H: Array) -> None:
    evidence = learned(layer, X, T).evidence
    U, V = literal.intermediate(H, T)
    assert agrees(evidence.U, U)
    assert agrees(evidence.V, V)
    assert agrees(evidence.solve(ridge=0.0), literal.e2lm(U, V))


def test_adding_evidence_is_equation_7(layer: HiddenLayer, H: Array) -> None:
    both = (
        learned(layer, X[:FIRST], T[:FIRST]).evidence
        + learned(layer, X[FIRST:], T[FIRST:]).evidence
    )
    U, V = literal.intermediate_of_both(H[:FIRST], T[:FIRST], H[FIRST:], T[FIRST:])
    assert agrees(both.U, U)
    assert agrees(both.V, V)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_merge_and_subtract_are_equation_8(layer: HiddenLayer, H: Array, sign: float) -> None:
    model, new = learned(layer, X, T), learned(layer, X[:FIRST], T[:FIRST])
    (model.merge if sign > 0 else model.subtract)(new.evidence)
    U, V = literal.e2lm_add(
        *literal.intermediate(H, T), *literal.intermediate(H[:FIRST], T[:FIRST]), sign
    )
    assert agrees(model.evidence.U, U)
    assert agrees(model.evidence.V, V)
    assert agrees(model.beta, literal.e2lm(U, V))


@pytest.mark.parametrize("size", [1, 7, 64, 150])
def test_learning_in_chunks_is_equations_13_and_12(layer: HiddenLayer, H: Array, size: int) -> None:
    model = learned(layer, X[:FIRST], T[:FIRST])
    P, beta = literal.os_elm_start(H[:FIRST], T[:FIRST])
    assert agrees(model.P, P)
    assert agrees(model.beta, beta)
    for start in range(FIRST, 1000, size):
        rows = slice(start, start + size)
        model.learn_many(X[rows], T[rows])
        P, beta = literal.os_elm_chunk(P, beta, H[rows], T[rows])
    assert agrees(model.P, P)
    assert agrees(model.beta, beta)


def test_learning_row_by_row_is_equation_12_with_a_reciprocal(layer: HiddenLayer, H: Array) -> None:
    model = learned(layer, X[:FIRST], T[:FIRST])
    P, beta = literal.os_elm_start(H[:FIRST], T[:FIRST])
    for i in range(FIRST, len(X)):
        model.learn_one(X[i], T[i])
        P, beta = literal.os_elm_row(P, beta, H[i : i + 1], T[i : i + 1])
        if i % 400 == 0:
            assert agrees(model.predict_one(X[0]), H[0] @ beta)
    assert agrees(model.P, P)
    assert agrees(model.beta, beta)


def test_equation_15_gives_back_the_evidence(layer: HiddenLayer, H: Array) -> None:
    model = learned(layer, X, T)
    U, V = literal.share(model.P, model.beta)
    assert agrees(model.evidence.U, U)
    assert agrees(model.evidence.V, V)


def test_merging_is_the_cooperative_update_of_section_4_2(layer: HiddenLayer, H: Array) -> None:
    halves = [slice(None, 900), slice(900, None)]
    device_a, device_b = (learned(layer, X[half], T[half]) for half in halves)
    shared = []
    for half in halves:
        P, beta = literal.os_elm_start(H[half][:FIRST], T[half][:FIRST])
        for rows in np.array_split(np.arange(FIRST, len(H[half])), 10):
            P, beta = literal.os_elm_chunk(P, beta, H[half][rows], T[half][rows])
        shared += literal.share(P, beta)
    P, beta = literal.cooperative_update(*shared)
    device_b.merge(device_a.evidence)
    assert agrees(device_b.P, P)
    assert agrees(device_b.beta, beta)
    # and so, as the paper says, what one device with all rows has
    assert agrees(device_b.beta, literal.elm(H, T))
