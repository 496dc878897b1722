"""``elmgrove paper … --tune``: the choice of units and activation, and what decides it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elmgrove import Basis, HiddenLayer
from elmgrove_papers.figure import SEED
from elmgrove_papers.ito2021 import tuning
from elmgrove_papers.ito2021.settings import HAR
from elmgrove_papers.ito2021.tuning import FOLDS, RIDGE, error_of_values, ten_fold, values_left_out
from elmgrove_papers.measures import auc
from support.commands import Elmgrove, one_clear_line
from support.laws import law_examples
from support.literal import hidden
from support.patterns import rows_of

WIDTH, LABELS = 12, 3


def patterns(count: int) -> list[np.ndarray]:
    """Rows of three patterns, between −1 and 1, each along two directions of its own."""
    found = []
    for label in range(LABELS):
        shape, rng = np.random.default_rng(label), np.random.default_rng([7, label])
        axes = shape.normal(size=(3, WIDTH))
        rows = rng.uniform(-1, 1, (count, 2)) @ axes[1:] + axes[0]
        found.append(np.tanh(0.4 * rows + 0.05 * rng.normal(size=rows.shape)))
    return found


def literally(units: int, activation: str, rows: list[np.ndarray], number: int) -> Iterator[float]:
    """The ROC-AUC of each fold by a model that learned the rows of the nine others, no sums."""
    layer = replace(HAR, units=units, activation=activation).basis(WIDTH, SEED + number).layer
    rng = np.random.default_rng((SEED, number, FOLDS))
    parts = [np.array_split(rng.permutation(one), FOLDS) for one in rows]
    for normal in range(LABELS):
        for fold in range(FOLDS):
            known = np.vstack([part for one, part in enumerate(parts[normal]) if one != fold])
            H = layer(known)
            beta = np.linalg.inv(H.T @ H + RIDGE * np.eye(units)) @ H.T @ known
            scores = [np.square(one[fold] - layer(one[fold]) @ beta).mean(axis=1) for one in parts]
            yield auc(scores.pop(normal), np.concatenate(scores))


@pytest.mark.parametrize(("units", "activation"), [(3, "identity"), (5, "sigmoid"), (4, "relu")])
def test_a_fold_is_scored_by_a_model_of_the_nine_others(units: int, activation: str) -> None:
    rows = patterns(60)
    setting = replace(HAR, units=units, activation=activation)
    expected = np.mean(list(literally(units, activation, rows, 2)))
    assert ten_fold(setting, rows, 2) == pytest.approx(expected, abs=1e-9)


def test_the_choice_is_shown_beside_table_3_and_decided_by_rows_to_learn_from(
    elmgrove: Elmgrove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_3 = replace(HAR, units=2)
    monkeypatch.setattr(tuning, "HAR", table_3)
    monkeypatch.setattr(tuning, "UNITS", (1, 2, 4))
    rows, labels = np.vstack(patterns(80)), np.repeat(np.arange(LABELS), 80)
    np.savez(
        tmp_path / "uci_har_time265.npz",
        **{"X_train": rows[::2], "y_train": labels[::2] + 1},
        **{"X_test": rows[1::2], "y_test": labels[1::2] + 1},
        activity_names=np.array(["", "a", "b", "c"]),
    )
    ran = elmgrove("paper", "ito2021", "figure9", "--tune", "--quick", "--data", ".")
    assert ran.code == 0, ran.err
    folder = tmp_path / "paper-results-quick/ito2021"
    found: dict[str, Any] = json.loads((folder / "har-tuning.json").read_text())
    assert (folder / "har-tuning.png").stat().st_size > 1000
    candidates = found["candidates"]
    assert len(candidates) == 9
    assert [one["units"] for one in candidates if one["Table 3's"]] == [2]
    best = max(candidates, key=lambda one: one["auc, 10-fold"])
    chosen = found["chosen"]
    assert chosen["Table 3"]["by trial"] == ["identity 2"]
    assert chosen["10-fold"]["by trial"] == [f"{best['activation']} {best['units']}"]
    linear = [one for one in candidates if one["error of values left out"] is not None]
    lowest = min(linear, key=lambda one: one["error of values left out"])
    assert chosen["leave-one-out"]["by trial"] == [f"identity {lowest['units']}"]
    assert all(0.0 < row[when] <= 1.0 for row in chosen.values() for when in ("before", "after"))
    assert "10-fold" in ran.out


def test_the_error_of_values_is_the_mean_over_patterns() -> None:
    rows, setting = patterns(60), replace(HAR, units=4)
    each = [values_left_out(setting, [one], 1) for one in rows]
    assert values_left_out(setting, rows, 1) == pytest.approx(np.mean(each))


@settings(max_examples=law_examples(30), deadline=None)
@given(
    st.integers(0, 9999),
    st.sampled_from(["identity", "sigmoid", "relu"]),
    st.integers(1, 8),
    st.sampled_from([1e-3, 0.1, 10.0]),
)
def test_values_are_predicted_by_the_model_that_never_learned_their_row(
    seed: int, activation: str, units: int, ridge: float
) -> None:
    X = rows_of(0, seed, 25)
    layer = HiddenLayer(X.shape[1], units, activation, seed=seed)
    errors = []
    for i, x in enumerate(X):
        rest = np.delete(X, i, axis=0)
        H = layer(rest)
        beta = np.linalg.solve(H.T @ H + ridge * np.eye(units), H.T @ rest)
        errors.append([x[j] - predicted(layer, x, j, beta) for j in range(len(x))])
    shares = np.mean(np.square(errors), axis=0) / X.var(axis=0)
    found = error_of_values(Basis(layer, X.shape[1], score="loss"), X, ridge)
    # What a difference of 1e-6 shows of a slope; where 1 − a is nearly 0, less.
    assert found == pytest.approx(np.median(shares), rel=1e-2)


def predicted(layer: HiddenLayer, x: np.ndarray, j: int, beta: np.ndarray) -> float:
    """The value that is given back as it is by a linear model; else one step towards it."""
    step = 1e-6
    other = x.copy()
    other[j] += step
    y, moved = (hidden(row, layer.alpha, layer.b, layer.activation) @ beta for row in (x, other))
    own = (moved[j] - y[j]) / step
    return float((y[j] - own * x[j]) / (1.0 - own))


def test_columns_that_never_move_say_nothing() -> None:
    basis = Basis(HiddenLayer(6, 2, seed=3), 6, score="loss")
    assert error_of_values(basis, np.zeros((50, 6)), 0.1) == 0.0


def test_what_the_paper_did_not_tune_is_refused(elmgrove: Elmgrove) -> None:
    said = one_clear_line(elmgrove("paper", "ito2021", "communication", "--tune"))
    assert "of ito2021: har-pairs, figure8" in said
    assert "of mlmg: none" in one_clear_line(elmgrove("paper", "mlmg", "table2", "--tune"))
