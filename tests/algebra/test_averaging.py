"""Federated averaging against the equation as it is printed."""

import numpy as np
import pytest

from elmgrove import BadInput, Basis, Evidence, HiddenLayer, Mismatch
from elmgrove.federation import average
from support.contributions import BASIS, RIDGE, evidence, rows


def literal(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """β and P of one client, from its rows."""
    H = BASIS.layer(X)
    P = np.linalg.inv(H.T @ H + RIDGE * np.eye(4))
    return P @ H.T @ X, P


def test_equation_4() -> None:
    D = [rows(1, 40), rows(2, 25), rows(3, 7)]
    size = sum(len(Di) for Di in D)
    beta = sum(len(Di) / size * literal(Di)[0] for Di in D)
    P = sum(len(Di) / size * literal(Di)[1] for Di in D)
    found = average([evidence(Di) for Di in D], RIDGE)
    np.testing.assert_allclose(found.beta, beta, rtol=1e-9)
    np.testing.assert_allclose(found.P, P, rtol=1e-9)


def test_the_average_of_one_is_that_one_and_the_empty_do_not_count() -> None:
    alone, empty = evidence(rows(1)), Evidence.zero(BASIS)
    found = average([alone, empty], RIDGE)
    np.testing.assert_allclose(found.beta, alone.solve(RIDGE), rtol=1e-12)


def test_an_average_explains_two_kinds_worse_than_the_sum_does() -> None:
    parts = [evidence(rows(1)), evidence(rows(2))]
    whole = Evidence.sum(parts)
    averaged = whole.error_of(average(parts, RIDGE).beta)
    assert averaged > whole.error_of(whole.solve(RIDGE)) * 1.1


def test_of_no_rows_and_of_other_layers_there_is_no_average() -> None:
    with pytest.raises(BadInput, match="no rows"):
        average([Evidence.zero(BASIS)], RIDGE)
    with pytest.raises(BadInput, match="no rows"):
        average([], RIDGE)
    other = Basis(HiddenLayer(6, 4, seed=3), 6)
    with pytest.raises(Mismatch):
        average([evidence(rows(1)), evidence(rows(1), other)], RIDGE)
