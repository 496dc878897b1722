"""Cross-validation from sums: models that never learned some rows, and their error on these."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.layer import HiddenLayer
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput

# Blocks of neighbouring rows that are left out, one after the other.
_BLOCKS = 10
# Rows whose residuals are held at once.
_AT_ONCE = 4096
# How much each hidden output changes with what goes in, from the output: G' by G.
_SLOPES: dict[str, Callable[[Array], Array]] = {
    "identity": np.ones_like,
    "sigmoid": lambda H: H * (1.0 - H),
    "relu": lambda H: (H > 0.0).astype(np.float64),
    "tanh": lambda H: 1.0 - H * H,
}


class LeftOut(NamedTuple):
    """How far off a model is on rows that were left out.

    ``rows``: the mean squared error of reconstructing each by the model without it (PRESS). The
    more units the lower it is: with as many as inputs any row is copied. ``values``: that of
    predicting each value from the others of its row, by that model, as a share of its column's
    variance, in the median of the columns that move. That has a lowest point, by which units are
    chosen; a mean would be about the few columns that a model nearly copies.
    """

    rows: float
    values: float


def losses_left_out(basis: Basis, X: Array, ridge: float) -> LeftOut:
    """Computes the errors of a loss on inputs that were left out, given all of them, scaled.

    Each row by itself, from one solution: e = residual/(1 − leverage), exactly. Windows share rows
    with their neighbours, so there it is blocks of neighbours, and the windows that share rows with
    a block are left out as well. A value is predicted by what the model would give back as it is,
    (y − a x)/(1 − a), where a is how far the value decides its own reconstruction: exact for the
    identity, of first order for other activations.
    """
    found = _each(basis, X, ridge) if basis.window == 1 else _in_blocks(basis, X, ridge)
    rows, values = 0.0, np.zeros(basis.inputs)
    with np.errstate(divide="ignore", over="ignore"):
        for E, own in found:
            rows += float(np.square(E).sum())
            values += np.square(E / (1.0 - own)).sum(axis=0)
    variance = X.var(axis=0)
    moves = variance > 0.0
    share = values[moves] / (len(X) * variance[moves])
    return LeftOut(rows / X.size, float(np.median(share)) if moves.any() else 0.0)


def _each(basis: Basis, X: Array, ridge: float) -> Iterator[tuple[Array, Array]]:
    """The errors without each row, and how far each value decides its own reconstruction there."""
    layer = basis.hidden
    whole = _evidence(basis, layer, X)
    factor = whole.factor(ridge)
    beta = factor.solve(whole.V)
    for start in range(0, len(X), _AT_ONCE):
        x = X[start : start + _AT_ONCE]
        H = layer(x)
        W = factor.solve(H.T).T
        leverage = np.einsum("ij,ij->i", H, W)
        # PRESS: the residual by the model without the row is the residual over 1 − h P hᵀ.
        E = (x - H @ beta) / (1.0 - leverage)[:, np.newaxis]
        slope = _SLOPES[layer.activation](H)
        # Without the row, β is β − w e.
        yield E, _own(layer, slope, beta) - ((slope * W) @ layer.alpha.T) * E


def _in_blocks(basis: Basis, X: Array, ridge: float) -> Iterator[tuple[Array, Array]]:
    layer = basis.hidden
    for tested, rest in _blocks(len(X), basis.window):
        beta = _evidence(basis, layer, X[rest]).solve(ridge)
        H = layer(X[tested])
        yield X[tested] - H @ beta, _own(layer, _SLOPES[layer.activation](H), beta)


def _own(layer: HiddenLayer, slope: Array, beta: Array) -> Array:
    """∂y_j/∂x_j of each row: Σ_k α_jk G'(xα + b)_k β_kj."""
    own: Array = slope @ (layer.alpha.T * beta)
    return own


def _evidence(basis: Basis, layer: HiddenLayer, X: Array) -> Evidence:
    U, V, energy = np.zeros((layer.units,) * 2), np.zeros((layer.units, basis.inputs)), 0.0
    for start in range(0, len(X), _AT_ONCE):
        x = X[start : start + _AT_ONCE]
        H = layer(x)
        U += H.T @ H
        V += H.T @ x
        energy += float(np.vdot(x, x))
    return Evidence(basis, U, V, energy, float(len(X)))


def _blocks(count: int, window: int) -> Iterator[tuple[slice, Array]]:
    """Blocks of neighbours to leave out, each with the rows that share nothing with it."""
    edges = np.linspace(0, count, _BLOCKS + 1).astype(int)
    for start, end in pairwise(edges.tolist()):
        before, after = max(start - window + 1, 0), min(end + window - 1, count)
        rest = np.r_[0:before, after:count]
        if start == end or not len(rest):
            raise BadInput(f"{count} inputs are too few to leave out a tenth of them at a time")
        yield slice(start, end), rest


# The share of what rows say that must be left beside the fit for their errors to be typical.
# With less, the estimate swings by orders of magnitude from one row to the next.
_LEAST_FREEDOM = 0.25


def typical_loss(evidence: Evidence, ridge: float) -> float:
    """Estimates the loss Σ (t − y)² of one more row like these.

    Generalized cross-validation (Golub, Heath and Wahba 1979) on the n rows:
    RSS / (n (1 − df/n)²), where df = tr(U (U + λI)⁻¹) is how far these rows decide the fit.
    Infinite while there are fewer than about a third more rows than units: too few to tell.
    """
    if evidence.count <= 0:
        return np.inf
    # Below this, an error is rounding.
    floor = 1e-12 * max(evidence.energy, 0.0) / evidence.count
    factor = evidence.factor(ridge)
    freedom = 1.0 - float(np.trace(factor.solve(evidence.U))) / evidence.count
    if freedom < _LEAST_FREEDOM:
        return np.inf
    residual = max(evidence.error_of(factor.solve(evidence.V)), 0.0)
    outputs = evidence.basis.outputs
    return max(outputs * (residual / (evidence.count * outputs * freedom**2)), floor)
