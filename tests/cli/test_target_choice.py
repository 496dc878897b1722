"""What is predicted, and the rows that are kept for the test."""

import numpy as np
import pytest

from elmgrove.cli.federate_data import FleetRows, choose_target, fitted, hold_out
from elmgrove.rounds.predictor import Target
from support.laws import law_seeds


def fleet_of(T: np.ndarray) -> FleetRows:
    """Two clients; a row's first column is its number, so that it is known again."""
    X = np.column_stack([np.arange(len(T)), np.ones(len(T))]).astype(float)
    half = len(T) // 2
    return FleetRows.of({"a": X[:half], "b": X[half:]}, None, "standard", T=T)


@pytest.mark.parametrize("seed", law_seeds(5))
def test_rows_are_learned_or_tested_and_each_class_is_learned(seed: int) -> None:
    # Of each class there are two rows, and half of all is tested: some would be lost.
    T = np.repeat(np.eye(10), 2, axis=0)
    rest, held = hold_out(fleet_of(T), 0.5, seed)
    assert rest.T.any(axis=0).all()
    numbers = [*rest.X[:, 0], *held.X[:, 0]]
    assert sorted(numbers) == list(range(20))
    assert 0 < len(held.X) <= 10
    # Rows keep their own targets.
    for X, targets in ((rest.X, rest.T), held):
        np.testing.assert_array_equal(targets.argmax(axis=1), X[:, 0] // 2)


def test_numbers_are_scaled_by_what_is_learned_alone() -> None:
    y = np.arange(20.0).reshape(-1, 1)
    rest, held = hold_out(fleet_of(y), 0.25, 0)
    target, scaled, exam = fitted(Target("y"), rest, held)
    assert target is not None
    assert exam is not None
    assert target.mean == pytest.approx(rest.T.mean())
    assert scaled.T.std() == pytest.approx(1.0)
    np.testing.assert_allclose(target.decoded(exam.T), held.X[:, 0])


def test_a_few_words_among_few_whole_numbers_are_classes_too() -> None:
    assert choose_target("y", ["1", "2", "2", "off"], ".", None).classes == ("1", "2", "off")
    assert choose_target("y", ["1,5", "2", "x", "0,5"], ",", None).classes == ()
