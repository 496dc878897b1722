"""The distance as it is defined, by dense matrices, in float64 or in numbers of fifty digits.

Nothing here is meant to be fast: Σ is written out, and inverted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from elmgrove import Basis

Matrix = np.ndarray
DIGITS = 50


@dataclass(frozen=True)
class Dense:
    """Mean μ, deviations D, Ω = (I + LᵀL)⁻¹ in units of D, and what makes a typical row score 1."""

    mu: Matrix
    deviation: Matrix
    omega: Matrix
    sigma: Matrix
    scale: Any
    last: int
    number: Callable[[Any], Any]

    def score(self, x: Matrix) -> float:
        """(zᵀΩz + 2·min(max(g²/Ω_jj − 9, 0), 21))/n; z counts by its logarithm far out."""
        number, n = self.number, len(self.mu)
        with localcontext(prec=DIGITS):
            z = (_of(number, x) - self.mu) / self.deviation
            far = number(10) * _sqrt(self.sigma.diagonal())
            if z @ z > 100:
                z = np.array([_damped(*pair, number) for pair in zip(z, far, strict=True)])
            g = self.omega @ z
            alone = max(self.scale * g[j] ** 2 / self.omega[j, j] for j in range(n)[-self.last :])
            more = number(2) * min(max(alone - 9, number(0)), number(21))
            return float((self.scale * (z @ g) + more) / n)

    def scores(self, X: Matrix) -> Matrix:
        return np.array([self.score(x) for x in X])


def dense(
    basis: Basis,
    X: Matrix,
    weights: Matrix | None = None,
    exact: bool = False,
) -> Dense:
    """The distance of these rows, each with its weight."""
    number: Callable[[Any], Any] = (lambda v: Decimal(float(v))) if exact else float
    with localcontext(prec=DIGITS):
        X = _of(number, X)
        w = _of(number, np.ones(len(X)) if weights is None else weights)
        N, n = w.sum(), basis.inputs
        mu = w @ X / N
        Y = X - mu
        S = Y.T @ (Y * w[:, None])
        # v: one more row is taken to have been seen, a unit away
        variance = S.diagonal() / N
        # What never moved is known by its rows, not by the rounding of their mean.
        still, one = np.array([len(set(column)) == 1 for column in X.T]), number(1)
        variance = np.where(still, 0 * one, variance)
        S = np.where(still | still[:, None], 0 * one, S)
        if basis.scaling.kind == "none":
            unit = [v or (m**2 or one) for v, m in zip(variance, mu, strict=True)]
        else:
            unit = [one] * n
        v = (N * variance + np.array(unit)) / N
        least = one / 1000 if basis.window == 1 else one * 3 / 100
        chance = one * n / 4 if basis.window == 1 else one * 30
        rho = max(least, chance / (chance + N + N * N / (75 * n)))
        root = _sqrt(N * v)
        # U, V and λ = 1e-10 of what the variances alone would give; nothing is mixed where Ñ = n
        if basis.layer.units >= n:
            A, width = np.diag(one / root), n
        else:
            A, width = _of(number, basis.hidden.alpha), basis.layer.units
        ridge = one / 10**10 * ((A * root[:, None]) ** 2).sum() / width
        U, V = A.T @ S @ A, A.T @ S / root
        explained = V.T @ _inverse(U + ridge * _eye(width, number), number) @ V
        own = one - explained.diagonal()
        d = (one - (one - rho) * (one - own)) * _of(number, basis.scaling.tails or np.ones(n))
        beside = explained / _sqrt(d) / _sqrt(d)[:, None]
        sigma = _eye(n, number) + (one - rho) * beside
        omega = _inverse(sigma, number)
        seen = np.array(
            [[(own[i] / d[i] if i == j else 0 * one) for j in range(n)] for i in range(n)]
        )
        typical = (omega @ (seen + beside)).trace() / n
        scale = N / (N + 1) / max(typical, rho)
        return Dense(mu, _sqrt(v * d), omega, sigma, scale, basis.layer.inputs, number)


def _of(number: Callable[[Any], Any], values: Any) -> Matrix:
    values = np.asarray(values)
    if number is float:
        return values.astype(np.float64)
    flat = [value if isinstance(value, Decimal) else number(value) for value in values.ravel()]
    made = np.empty(len(flat), object)
    made[:] = flat
    return made.reshape(values.shape)


def _eye(size: int, number: Callable[[Any], Any]) -> Matrix:
    return _of(number, np.eye(size))


def _sqrt(values: Matrix) -> Matrix:
    if values.dtype != object:
        return np.sqrt(values)
    return np.array([value.sqrt() for value in values], object)


def _damped(z: Any, far: Any, number: Callable[[Any], Any]) -> Any:
    if abs(z) <= far:
        return z
    ratio = abs(z) / far
    grown = far * (1 + (ratio.ln() if isinstance(ratio, Decimal) else number(np.log(ratio))))
    return grown if z > 0 else -grown


def _inverse(M: Matrix, number: Callable[[Any], Any]) -> Matrix:
    if number is float:
        return np.linalg.inv(M)
    # Gauss and Jordan, with the largest pivot of each column
    size = len(M)
    both = np.hstack([M, _eye(size, number)])
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(both[row, column]))
        both[[column, pivot]] = both[[pivot, column]]
        both[column] = both[column] / both[column, column]
        for row in range(size):
            if row != column:
                both[row] = both[row] - both[row, column] * both[column]
    return both[:, size:]
