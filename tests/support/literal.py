"""The equations of Ito 2021 and two algorithms of MLMG as printed, in plain NumPy, for comparison.

Nothing here is meant to be fast or robust: each function is its equation and nothing else, with
the paper's symbols. A chunk has one row a line: x is k × n, t is k × m, H is k × Ñ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove import Basis

Matrix = NDArray[Any]

G: dict[str, Callable[[Matrix], Matrix]] = {
    "identity": lambda a: a,
    "sigmoid": lambda a: 1.0 / (1.0 + np.exp(-a)),
    "relu": lambda a: np.where(a > 0.0, a, 0.0),
    "tanh": np.tanh,
}


def hidden(x: Matrix, alpha: Matrix, b: Matrix, activation: str) -> Matrix:
    """H ≡ G(x·α + b), the part of equations (1) and (2) that is not learned."""
    return G[activation](x @ alpha + b)


def elm(H: Matrix, t: Matrix) -> Matrix:
    """Equation (3): β = H†t."""
    beta: Matrix = np.linalg.pinv(H) @ t
    return beta


def elm_by_normal_equations(H: Matrix, t: Matrix) -> Matrix:
    """Equation (5): β = (HᵀH)⁻¹Hᵀt."""
    beta: Matrix = np.linalg.inv(H.T @ H) @ H.T @ t
    return beta


def intermediate(H: Matrix, t: Matrix) -> tuple[Matrix, Matrix]:
    """What equation (6) is made of: U = HᵀH and V = Hᵀt."""
    return H.T @ H, H.T @ t


def e2lm(U: Matrix, V: Matrix) -> Matrix:
    """Equation (6): β = U⁻¹V."""
    beta: Matrix = np.linalg.inv(U) @ V
    return beta


def intermediate_of_both(
    H: Matrix, t: Matrix, delta_H: Matrix, delta_t: Matrix
) -> tuple[Matrix, Matrix]:
    """Equation (7): U' and V' of the old rows with the new ones below them."""
    return intermediate(np.vstack([H, delta_H]), np.vstack([t, delta_t]))


def e2lm_add(
    U: Matrix, V: Matrix, delta_U: Matrix, delta_V: Matrix, sign: float = 1.0
) -> tuple[Matrix, Matrix]:
    """Equation (8): U' = U + ΔU, V' = V + ΔV; with sign -1, the subtraction."""
    return U + sign * delta_U, V + sign * delta_V


def e2lm_in_fractions(U: Matrix, V: Matrix, ridge: float) -> list[list[Fraction]]:
    """Equation (6) with a ridge, in fractions and so without any rounding: (U + λI)β = V."""
    size = len(U)
    rows = [[Fraction(float(value)) for value in (*u, *v)] for u, v in zip(U, V, strict=True)]
    for i in range(size):
        rows[i][i] += Fraction(ridge)
    for i, pivot in enumerate(rows):
        rows[i] = pivot = [value / pivot[i] for value in pivot]
        for j, row in enumerate(rows):
            if j != i:
                rows[j] = [a - row[i] * b for a, b in zip(row, pivot, strict=True)]
    return [row[size:] for row in rows]


def os_elm_start(H0: Matrix, t0: Matrix) -> tuple[Matrix, Matrix]:
    """Equation (13): P₀ = (H₀ᵀH₀)⁻¹, β₀ = P₀H₀ᵀt₀."""
    P: Matrix = np.linalg.inv(H0.T @ H0)
    return P, P @ H0.T @ t0


def os_elm_chunk(P: Matrix, beta: Matrix, H: Matrix, t: Matrix) -> tuple[Matrix, Matrix]:
    """Equation (12): P ← P − PHᵀ(I + HPHᵀ)⁻¹HP, β ← β + PHᵀ(t − Hβ)."""
    P = P - P @ H.T @ np.linalg.inv(np.eye(len(H)) + H @ P @ H.T) @ H @ P
    return P, beta + P @ H.T @ (t - H @ beta)


def os_elm_row(P: Matrix, beta: Matrix, h: Matrix, t: Matrix) -> tuple[Matrix, Matrix]:
    """Equation (12) for k = 1 (§3.3): the inverse is a reciprocal; h is 1 × Ñ, t is 1 × m."""
    P = P - (P @ h.T) @ (h @ P) / (1.0 + h @ P @ h.T)
    return P, beta + P @ h.T @ (t - h @ beta)


def share(P: Matrix, beta: Matrix) -> tuple[Matrix, Matrix]:
    """Equation (15): U = P⁻¹, V = Uβ."""
    U: Matrix = np.linalg.inv(P)
    return U, U @ beta


def cooperative_update(U_A: Matrix, V_A: Matrix, U_B: Matrix, V_B: Matrix) -> tuple[Matrix, Matrix]:
    """§4.2, steps 4 and 5: P_B ← (U_A + U_B)⁻¹, β_B ← (U_A + U_B)⁻¹(V_A + V_B)."""
    U, V = e2lm_add(U_B, V_B, U_A, V_A)
    return np.linalg.inv(U), e2lm(U, V)


def initialized_clustering(scores: dict[int, float], threshold: float) -> int:
    """MLMG, Algorithm 1, lines 6 to 11: K from the clustering scores of k = 2, 3, …, n."""
    best = max(scores.values())
    if best < threshold:
        return 1
    return max(scores, key=lambda theta: scores[theta])


def sequential_clustering(X: Matrix, labels: Matrix, new: Matrix) -> list[int]:
    """MLMG, Algorithm 2: each new row goes to the nearest center, whose mean then changes."""
    clusters = [list(X[labels == name]) for name in np.unique(labels)]
    chosen = []
    for x in new:
        C = [np.mean(cluster, axis=0) for cluster in clusters]
        dist = [np.linalg.norm(x - c) for c in C]
        chosen.append(int(np.argmin(dist)))
        clusters[chosen[-1]].append(x)
    return chosen


# The distance as it is defined, by dense matrices, in float64 or in numbers of fifty digits.


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
