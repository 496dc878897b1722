"""Evidence from P and β alone: what OS-ELM learned comes back, and what can't be is refused."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elmgrove import OSELM, BadInput, Basis, Evidence, HiddenLayer, NotAdmissible, SingularSystem
from support.laws import law_examples

OUTPUTS = 2


def learned(rows: int, seed: int, ridge: float, activation: str = "sigmoid") -> OSELM:
    rng = np.random.default_rng(seed)
    model = OSELM(HiddenLayer(4, 6, activation, seed=seed), OUTPUTS, ridge=ridge)
    model.learn_many(rng.normal(size=(rows, 4)), rng.normal(size=(rows, OUTPUTS)))
    return model


def recovered(model: OSELM, ridge: float | None = None) -> Evidence:
    ridge = model.ridge if ridge is None else ridge
    return Evidence.from_model(model.basis, model.P, model.beta, model.evidence.count, ridge)


@settings(max_examples=law_examples(100), deadline=None)
@given(
    rows=st.integers(0, 60),
    others=st.integers(1, 60),
    seed=st.integers(0, 20),
    ridge=st.floats(1e-3, 1e3),
    activation=st.sampled_from(["sigmoid", "relu", "tanh"]),
)
def test_u_and_v_of_a_model_come_back_from_its_p_and_beta(
    rows: int, others: int, seed: int, ridge: float, activation: str
) -> None:
    model = learned(rows, seed, ridge, activation)
    own = model.evidence
    # Units of relu that no row activates have no squares, and then P is the ridge's alone.
    assume(not rows or own.U.any())
    found = recovered(model)
    tolerance = 1e-9 * max(1.0, np.abs(own.U).max())
    np.testing.assert_allclose(found.U, own.U, rtol=0, atol=tolerance)
    np.testing.assert_allclose(found.V, own.V, rtol=0, atol=tolerance)
    assert found.count == rows
    # Merged with what another device learned, it is the model of both devices' rows.
    other = learned(others, seed, ridge, activation)
    H, T = _rows(rows, seed, model)
    U, V = other.evidence.U + H.T @ H, other.evidence.V + H.T @ T
    beta = np.linalg.solve(U + ridge * np.eye(6), V)
    np.testing.assert_allclose((found + other.evidence).solve(ridge), beta, rtol=1e-6, atol=1e-7)


def test_the_energy_is_what_the_hidden_outputs_explain_of_the_targets() -> None:
    model = learned(50, 1, 0.5)
    H, T = _rows(50, 1, model)
    fitted = H @ np.linalg.lstsq(H, T, rcond=None)[0]
    found = recovered(model)
    assert found.energy == pytest.approx(float((fitted**2).sum()), rel=1e-9)
    assert found.energy < model.evidence.energy
    # As many rows as units explain all of it, and nothing is missing.
    assert recovered(learned(6, 1, 0.5)).close_to(learned(6, 1, 0.5).evidence, 1e-9)


def test_a_ridge_that_was_not_learned_with_is_noticed_if_it_is_too_large() -> None:
    few = learned(3, 1, 0.1)
    with pytest.raises(NotAdmissible, match="was it learned with a smaller ridge"):
        recovered(few, ridge=0.2)
    with pytest.raises(NotAdmissible, match="was it learned with a smaller ridge"):
        recovered(few, ridge=1e6)


def test_more_than_so_many_rows_can_give_is_refused() -> None:
    model = learned(50, 1, 0.1)
    with pytest.raises(NotAdmissible, match=r"P and β can't be those of 3 rows: U has a diagonal"):
        Evidence.from_model(model.basis, model.P, model.beta, 3, 0.1)


def test_p_that_does_not_hold_the_sums_any_more_is_refused() -> None:
    model = learned(50, 1, 0.1)
    basis, beta = model.basis, model.beta
    with pytest.raises(SingularSystem, match="P has no inverse, so there are no sums in it"):
        Evidence.from_model(basis, -model.P, beta, 50, 0.1)
    steep = np.diag([1e-12, 1.0, 1.0, 1.0, 1.0, 1.0])
    with pytest.raises(SingularSystem, match="rounding would take 2e-04 of them"):
        Evidence.from_model(Basis(HiddenLayer(4, 6, "relu"), OUTPUTS), steep, beta, 50, 0.0)
    with pytest.raises(SingularSystem, match=r"rounding would take .* Learn with another ridge"):
        recovered(learned(1, 1, 1e12))
    with pytest.raises(BadInput, match="finite"):
        Evidence.from_model(basis, model.P * np.nan, beta, 50, 0.1)
    with pytest.raises(BadInput, match="must have a row for each hidden unit"):
        Evidence.from_model(basis, model.P[1:], beta, 50, 0.1)
    with pytest.raises(BadInput, match="V must be 6 × 2"):
        Evidence.from_model(basis, model.P, beta[:, :1], 50, 0.1)


def _rows(count: int, seed: int, model: OSELM) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return model.basis.layer(rng.normal(size=(count, 4))), rng.normal(size=(count, OUTPUTS))
