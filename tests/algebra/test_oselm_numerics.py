"""Long streams stay right, and every kind of stream stays finite."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import elmgrove
from elmgrove import OSELM, Evidence, HiddenLayer

INPUTS, UNITS = 4, 6


def stream(seed: int, rows: int) -> np.ndarray:
    """Rows that three numbers describe, with a little noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3)) @ rng.normal(size=(3, INPUTS))
    made: np.ndarray = X + 0.1 * rng.normal(size=X.shape)
    return made


def new(activation: str = "identity", units: int = UNITS, **settings: Any) -> OSELM:
    return OSELM(HiddenLayer(INPUTS, units, activation, seed=2), INPUTS, **settings)


def assert_finite(model: OSELM, rows: np.ndarray) -> None:
    evidence = model.evidence
    for array in (evidence.U, evidence.V, model.P, model.beta, model.predict_many(rows)):
        assert np.isfinite(array).all()
    assert np.isfinite([model.predict_one(row) for row in rows]).all()
    assert np.isfinite([evidence.energy, evidence.count]).all()


@pytest.mark.combinations
@pytest.mark.parametrize(("activation", "forgetting"), [("identity", 0.999), ("sigmoid", 0.9)])
def test_a_million_rows_with_forgetting_stay_finite_and_useful(
    activation: str, forgetting: float
) -> None:
    model = new(activation, units=4, forgetting=forgetting)
    rows = stream(0, 50_000)
    for _ in range(20):
        model.learn_many(rows[500:], rows[500:])
        for row in rows[:500]:
            model.learn_one(row, row)
    assert_finite(model, rows[:100])
    assert model.evidence.count == pytest.approx(1 / (1 - forgetting), rel=1e-3)
    # it also still says what the last rows say: a model that forgot everything would not
    error = np.square(rows[:500] - model.predict_many(rows[:500])).mean()
    assert error < 0.2 * rows.var()


@pytest.mark.combinations
@pytest.mark.parametrize(("activation", "forgetting"), [("identity", 0.99), ("sigmoid", 1.0)])
def test_a_constant_input_stays_finite_and_right(activation: str, forgetting: float) -> None:
    model = new(activation, forgetting=forgetting)
    row = np.array([0.3, 0.7, 0.1, -2.0])
    for _ in range(20_000):
        model.learn_one(row, row)
    assert_finite(model, stream(1, 20))
    np.testing.assert_allclose(model.predict_one(row), row, atol=1e-3)
    np.testing.assert_allclose(model.predict_many(row[None])[0], row, atol=1e-3)


def test_what_was_not_seen_for_long_is_forgotten_instead_of_growing() -> None:
    model = new(forgetting=0.99)
    early, late = stream(0, 500), np.array([1.0, 0.0, 0.0, 0.0])
    model.learn_many(early, early)
    for _ in range(5000):
        model.learn_one(late, late)
    assert np.abs(model.predict_many(early)).max() < 10 * np.abs(early).max()
    assert_finite(model, early[:20])


def prior() -> Evidence:
    other = new("tanh", units=12)
    rows = stream(7, 200)
    other.learn_many(rows, rows)
    return other.evidence


@pytest.mark.combinations
@pytest.mark.parametrize("ridge", [1e-6, 1e-3, 10.0])
@pytest.mark.parametrize("forgetting", [1.0, 0.999, 0.95])
@pytest.mark.parametrize("with_prior", [False, True])
def test_a_long_stream_predicts_as_a_fresh_solution_does(
    ridge: float, forgetting: float, with_prior: bool
) -> None:
    model = new("tanh", units=12, ridge=ridge, forgetting=forgetting)
    if with_prior:
        model.prior = prior()
    rows = stream(3, 1500)
    for i, row in enumerate(rows):
        model.learn_one(row, row)
        if i % 100 == 99:
            some = rows[i - 10 : i + 10]
            running = np.array([model.predict_one(row) for row in some])
            fresh = model.hidden_many(some) @ model.total.solve(ridge)
            assert np.abs(running - fresh).max() <= 1e-8 * np.abs(fresh).max()


def test_one_row_costs_no_new_inverse_as_a_rule() -> None:
    # A refresh costs as much as dozens of rows; a stream that needs one each time is too slow.
    for settings in ({}, {"forgetting": 0.999}, {"forgetting": 0.99, "ridge": 10.0}):
        for with_prior in (False, True):
            model = new("tanh", units=32, **settings)
            if with_prior:
                other = new("tanh", units=32)
                other.learn_many(stream(7, 200), stream(7, 200))
                model.prior = other.evidence
            for row in stream(3, 1000):
                model.learn_one(row, row)
            assert model._inverse.refreshes < 300, (settings, with_prior)


LOADED = """
import json, sys
import elmgrove
at_first = list(sys.modules)
assert set(elmgrove.__all__) <= set(dir(elmgrove))
elmgrove.Detector
print(json.dumps([at_first, list(sys.modules)]))
"""


def test_importing_elmgrove_loads_nothing_heavy() -> None:
    heavy = {"sklearn", "pandas", "river", "torch", "matplotlib", "typer", "rich", "httpx"}
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=60, check=True
    )
    at_first, then = map(set, json.loads(done.stdout))
    assert not {"numpy", "scipy"} & at_first
    assert {"elmgrove", "numpy", "scipy.linalg"} <= then
    assert not heavy & then
    assert not {f"scipy.{part}" for part in ("stats", "optimize", "sparse", "signal", "fft")} & then


def test_elmgrove_has_its_names_and_no_others() -> None:
    assert all(getattr(elmgrove, name) is not None for name in elmgrove.__all__)
    assert elmgrove.detector.Detector is elmgrove.Detector
    with pytest.raises(AttributeError, match="'elmgrove' has no attribute 'Forest'"):
        _ = elmgrove.Forest
