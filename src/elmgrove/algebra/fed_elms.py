"""Averages of models, for comparison with sums of evidence: equations (7) to (13) of *Fed-ELMS*.

The exact rule beside it, E²LM, needs nothing of its own: it is ``Evidence.sum``.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from elmgrove.algebra.layer import HiddenLayer
from elmgrove.algebra.linalg import Factor, mirrored
from elmgrove.algebra.rows import Array, Rows
from elmgrove.errors import BadInput, SingularSystem


class RoundModel(NamedTuple):
    """The server's model, which it sends: output weights β and P, the "meta weights"."""

    beta: Array
    P: Array


def first_model(layer: HiddenLayer, X0: Any, T0: Any) -> RoundModel:
    """Makes the first model, from rows that the server has itself.

    There must be at least as many as hidden units (9), and no unit may be a combination of the
    others on them: without a ridge the inverse has to exist. E²LM needs no such rows.
    """
    H, T = _hidden(layer, X0, T0)
    # (9)
    if len(H) < layer.units:
        raise BadInput(
            f"the initial batch has {len(H)} rows and the layer {layer.units} units: "
            "Fed-ELMS needs at least as many rows as units"
        )
    try:
        factor = Factor(H.T @ H, 0.0)
    except SingularSystem as error:
        raise BadInput(f"the initial batch does not determine a model: {error}") from error
    # (8) and (7)
    return RoundModel(factor.solve(H.T @ T), mirrored(factor.inverse()))


def trained(state: RoundModel, layer: HiddenLayer, X: Any, T: Any) -> RoundModel:
    """Learns a client's new rows by OS-ELM; they are not needed afterwards.

    No rows change nothing. Costs about k²·Ñ for k ≤ Ñ rows, and k·Ñ² for more. P must be positive
    definite, as every average of such is; anything else raises ``SingularSystem``.
    """
    H, T = _hidden(layer, X, T)
    try:
        learn = _by_rows if len(H) <= layer.units else _by_units
        beta, P = learn(state, H, T)
    except np.linalg.LinAlgError as error:
        raise SingularSystem(f"P, as received, is not positive definite: {error}") from error
    return RoundModel(beta, P)


def fedavg(answers: Iterable[tuple[float, RoundModel]]) -> RoundModel:
    """Averages the clients' models by their rows: β = Σ (N_k/N) βᵏ and P = Σ (N_k/N) Pᵏ (10), (11).

    The average is not the model of all rows: the more the clients differ, the worse it explains
    each.
    """
    return RoundModel(*weighted_mean(answers))


def weighted_mean(parts: Iterable[tuple[float, Sequence[Array]]]) -> list[Array]:
    """Averages arrays, Σ (N_k/N) Aᵏ, from pairs of N_k and arrays: FederatedAveraging's (2)."""
    totals, N = list[Array](), 0.0
    for rows, arrays in parts:
        weighted = [rows * array for array in arrays]
        totals = [a + b for a, b in zip(totals, weighted, strict=True)] if totals else weighted
        N += rows
    if not N > 0:
        raise BadInput("the average of no rows is no model; leave out parts without any")
    return [total / N for total in totals]


def _by_rows(state: RoundModel, H: Array, T: Array) -> tuple[Array, Array]:
    """k × k: (12) and (13) as printed, with PᵏHᵀ = PHᵀ(I + HPHᵀ)⁻¹ in (13)."""
    beta, P = state
    HP = H @ P
    factor = cho_factor(np.eye(len(H)) + HP @ H.T)
    # (13), (12)
    beta = beta + HP.T @ cho_solve(factor, T - H @ beta)
    half = solve_triangular(factor[0], HP, trans=1, lower=factor[1])
    return beta, P - half.T @ half


def _by_units(state: RoundModel, H: Array, T: Array) -> tuple[Array, Array]:
    """Ñ × Ñ: with P = CCᵀ (12) is C(I + CᵀHᵀHC)⁻¹Cᵀ, where nothing is subtracted."""
    beta, P = state
    C = np.linalg.cholesky(P)
    HC = H @ C
    factor = np.linalg.cholesky(np.eye(len(P)) + HC.T @ HC)
    half = solve_triangular(factor, C.T, lower=True)
    P = half.T @ half
    # (13)
    return beta + P @ (H.T @ (T - H @ beta)), P


def _hidden(layer: HiddenLayer, X: Any, T: Any) -> tuple[Array, Array]:
    X, _ = Rows(layer.inputs).many(X)
    T, _ = Rows(np.shape(T)[-1]).many(T)
    if len(X) != len(T):
        raise BadInput(f"{len(X)} rows, but {len(T)} targets")
    return layer(X), T
