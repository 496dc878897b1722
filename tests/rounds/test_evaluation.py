"""Evaluation: the numbers are those of the literal equations."""

import numpy as np
import pytest

from elmgrove import BadInput, Basis, HiddenLayer
from elmgrove.rounds.evaluation import Evaluation, Exam, GlobalModel
from elmgrove.rounds.rules import SumRule
from support.patterns import INPUTS, rows_of
from support.rounds import BASIS, device, run

IDENTITY = Basis(HiddenLayer(2, 2, "identity", "binary", seed=1), 2)
X = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [1.0, 3.0]])
T = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]])


def beta_that_copies(basis: Basis, outputs: np.ndarray) -> np.ndarray:
    """The β that gives these outputs for X best, by least squares."""
    return np.linalg.lstsq(basis.layer(X), outputs, rcond=None)[0]


def test_accuracy_and_error_are_those_of_the_literal_equations() -> None:
    beta = beta_that_copies(IDENTITY, T)
    H = X @ IDENTITY.layer.alpha + IDENTITY.layer.b
    right = [int(np.argmax(row) == np.argmax(t)) for row, t in zip(H @ beta, T, strict=True)]
    told = Exam(X, T, ("left", "right")).evaluate(IDENTITY, [GlobalModel(beta, 4.0)])
    assert told == Evaluation("accuracy", sum(right) / 4, 4)
    error = sum((H[i] @ beta - T[i]) @ (H[i] @ beta - T[i]) for i in range(4)) / 8
    plain = Exam(X, T).evaluate(IDENTITY, [GlobalModel(beta, 4.0)])
    assert plain is not None
    assert (plain.measure, plain.rows, plain.groups) == ("error", 4, ())
    assert plain.value == pytest.approx(error, rel=1e-12)


def test_groups_are_tested_one_by_one_and_their_mean_is_weighted_by_rows() -> None:
    always = [np.zeros((2, 2)), beta_that_copies(IDENTITY, T)]
    models = [GlobalModel(always[0], 30.0), GlobalModel(always[1], 10.0)]
    alone = [Exam(X, T).evaluate(IDENTITY, [model]).value for model in models]
    together = Exam(X, T).evaluate(IDENTITY, models)
    assert together.groups == tuple(alone)
    assert together.value == pytest.approx(0.75 * alone[0] + 0.25 * alone[1])
    # A detector's row is explained by the model that explains it best.
    errors = [np.square(IDENTITY.layer(X) @ beta - X).mean(axis=1) for beta in always]
    best = Exam(X).evaluate(IDENTITY, models)
    assert best.value == pytest.approx(np.minimum(*errors).mean())
    assert best.groups == ()


def test_the_baseline_is_the_best_constant_answer() -> None:
    assert Exam(X, T, ("left", "right")).baseline(IDENTITY) == 0.75
    y = np.array([[1.0], [3.0], [5.0], [3.0]])
    assert Exam(X, y).baseline(IDENTITY) == 2.0
    assert Exam(X).baseline(IDENTITY) == (0.5 + 1.1875) / 2


def test_a_report_of_each_round_says_how_the_model_does() -> None:
    rows, held = rows_of(0, 1, 200), rows_of(0, 2, 60)
    rule = SumRule("all", BASIS)
    reports = run(
        rule, [device("a", rows, 4), device("b", rows_of(0, 3, 40), 4)], 4, exam=Exam(held)
    )
    errors = [report.evaluation.value for report in reports]
    assert [report.evaluation.rows for report in reports] == [60] * 4
    beta = rule.merged().evidence.solve(1e-3)
    assert errors[-1] == pytest.approx(np.square(BASIS.layer(held) @ beta - held).mean(), rel=1e-12)
    assert errors[-1] < Exam(held).baseline(BASIS)


@pytest.mark.parametrize(
    "parts",
    [
        (np.empty((0, INPUTS)),),
        (X, T[:3]),
        (X, T, ("one",)),
        (X, None, ("one",)),
        (X * np.nan, T),
    ],
)
def test_what_can_not_be_asked_is_no_exam(parts: tuple) -> None:
    with pytest.raises(BadInput):
        Exam(*parts)
