"""The loss of one more row, from sums, is that of generalized cross-validation on the rows."""

import numpy as np
import pytest

from support.factories import BASIS, RIDGE, evidence_of, plane_rows


def literal_beta(X: np.ndarray) -> np.ndarray:
    H = BASIS.layer(X)
    return np.linalg.solve(H.T @ H + RIDGE * np.eye(4), H.T @ X)


# Generalized cross-validation, from the rows: residuals over the freedom that the hat matrix leaves


def literal_gcv(X: np.ndarray) -> float:
    H = BASIS.layer(X)
    hat = H @ np.linalg.inv(H.T @ H + RIDGE * np.eye(4)) @ H.T
    residual = X - H @ literal_beta(X)
    return float(np.square(residual).sum() / len(X) / (1 - np.trace(hat) / len(X)) ** 2)


@pytest.mark.parametrize("count", [6, 40])
def test_a_typical_loss_is_that_of_generalized_cross_validation(count: int) -> None:
    X = plane_rows(1, count)
    assert evidence_of(X).typical_loss(RIDGE) == pytest.approx(literal_gcv(X), rel=1e-9)


def test_no_rows_and_rows_that_are_remembered_promise_nothing() -> None:
    assert evidence_of(plane_rows(1, 0)).typical_loss(RIDGE) == np.inf
    assert evidence_of(plane_rows(1, 2)).typical_loss(1e-9) == np.inf
