"""The equations of Ito 2021 and two algorithms of MLMG as printed, in plain NumPy, for comparison.

Nothing here is meant to be fast or robust: each function is its equation and nothing else, with
the paper's symbols. A chunk has one row a line: x is k × n, t is k × m, H is k × Ñ.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
