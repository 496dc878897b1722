"""The rules of the upload guard, against their definitions."""

import math

import numpy as np
import pytest

from elmgrove import Basis, HiddenLayer
from elmgrove.detector.history import fade
from elmgrove.federation.charter import Charter
from elmgrove.federation.guard import least_forgetting, least_new_rows, rows_until

BASIS = Basis(HiddenLayer(8, 4, activation="tanh", seed=3), 8)
LEAST = least_new_rows(BASIS)
X = np.random.default_rng(0).normal(size=(200, 8))


@pytest.mark.parametrize("forgetting", [1.0, 0.999, 0.9, 0.86])
@pytest.mark.parametrize("weight", [0.0, 2.5, 5.9])
def test_so_many_rows_and_no_fewer_weigh_enough(forgetting: float, weight: float) -> None:
    rows, counted = weight, 0
    while rows < LEAST - 1e-9:
        rows, counted = forgetting * rows + 1.0, counted + 1
    assert rows_until(LEAST, weight, forgetting) == counted


@pytest.mark.parametrize("least", [2, 5, 41, 130])
def test_the_forgetting_that_is_named_is_enough_and_little_less_is_not(least: int) -> None:
    basis = Basis(HiddenLayer(1, 1), 1) if least == 2 else Basis(HiddenLayer(least, 1), least)
    enough = least_forgetting(basis)
    needed = least_new_rows(basis)
    assert rows_until(needed, 0.0, enough) < math.inf
    assert rows_until(needed, 0.0, 1.0 - 1.0 / needed) == math.inf


def test_rows_that_were_faded_count_by_their_weight() -> None:
    member = Charter("fans", BASIS).start("fan")
    member.detector.learn_many(X[:100])
    assert member.offer() is not None
    member.detector.learn_many(X[100 : 99 + LEAST])
    fade(member.detector, 0.1)
    member.detector.learn_one(X[-1])
    # One row, and what a tenth of the others are worth.
    assert member.rows_missing() == LEAST - 1 - math.floor(0.1 * (LEAST - 1))
