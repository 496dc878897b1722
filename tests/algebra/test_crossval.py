"""Cross-validation from sums equals that of the rows."""

import numpy as np
import pytest

from elmgrove.algebra import expected_error
from support.contributions import BASIS, RIDGE, evidence, rows


def literal_beta(X: np.ndarray) -> np.ndarray:
    H = BASIS.layer(X)
    return np.linalg.solve(H.T @ H + RIDGE * np.eye(4), H.T @ X)


# Generalized cross-validation, from the rows: residuals over the freedom that the hat matrix leaves


def literal_gcv(own: np.ndarray, others: np.ndarray) -> float:
    H_own, H = BASIS.layer(own), BASIS.layer(np.vstack([own, others]))
    P = np.linalg.inv(H.T @ H + RIDGE * np.eye(4))
    hat = H_own @ P @ H_own.T
    residual = own - H_own @ (P @ H.T @ np.vstack([own, others]))
    return float(np.square(residual).mean() / (1 - np.trace(hat) / len(own)) ** 2)


@pytest.mark.parametrize("count", [6, 40])
@pytest.mark.parametrize("others", [0, 1, 30])
def test_expected_error_is_generalized_cross_validation(count: int, others: int) -> None:
    own, more = rows(1, count), rows(2, others)
    part = evidence(more) if others else None
    assert expected_error(evidence(own), part, RIDGE) == pytest.approx(
        literal_gcv(own, more), rel=1e-9
    )


def test_expected_error_is_about_that_of_leaving_each_row_out() -> None:
    own = rows(1, 60)
    left_out = [
        np.square(row - BASIS.layer(row) @ literal_beta(np.delete(own, n, axis=0))).mean()
        for n, row in enumerate(own)
    ]
    assert expected_error(evidence(own), None, RIDGE) == pytest.approx(np.mean(left_out), rel=0.2)


def test_no_rows_and_rows_that_are_remembered_promise_nothing() -> None:
    assert expected_error(evidence(rows(1, 0)), evidence(rows(2)), RIDGE) == np.inf
    assert expected_error(evidence(rows(1, 2)), None, 1e-9) == np.inf
