"""Screening: which pairs of models would lose too much by joining, for a small part of the cost."""

from collections.abc import Sequence

import numpy as np

from elmgrove.algebra.cholesky import mirrored
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.rows import Array

#: Losses that are not known are taken for less than any loss can be: all of the error gone.
UNKNOWN = -1.0
# Differences of large numbers are known to this share of them only.
_ROUNDING = 1e-11
# So many are compared with all others in one product.
_AT_ONCE = 32


class Screening:
    """Lower bounds of ``Fitted.loss_with``, each for a small part of its cost.

    With A = U + λI, an error is that of the best model β plus ‖β' − β‖² in the norm of A. So two
    errors, each divided by its own (w = 1 / error), grow together by at least the least that

        w₁ ‖β' − β₁‖²_A₁ + w₂ ‖β' − β₂‖²_A₂

    can be for any β'. That is Dᵀ(P₁/w₁ + P₂/w₂)⁻¹D with D = β₁ − β₂ and P = A⁻¹, and at least
    ⟨Z, D⟩² / ⟨Z, (P₁/w₁ + P₂/w₂) Z⟩ for whatever Z. With Z = M D and one M for all pairs, this
    takes a few matrix products over all of them. M is the harmonic mean of all wA: the bound is
    tight where rows vary in like ways, and low where they do not. What the ridge may hide,
    λ‖β'‖², is taken off, with twice the larger ‖β‖² in the place of ‖β'‖².

    Holds twice the evidence's size in memory.
    """

    def __init__(
        self, evidences: Sequence[Evidence], errors: Sequence[float], ridge: float
    ) -> None:
        self._ridge = ridge
        with np.errstate(all="ignore"):  # beyond range, a bound says nothing, never wrong things
            self._M = _harmonic_mean(
                [_inverse(*pair, ridge) for pair in zip(evidences, errors, strict=True)]
            )
        units, outputs = evidences[0].V.shape
        self._shape = units, outputs
        self._betas, self._Q_betas = np.empty((2, len(evidences), units * outputs))
        # Q = M P/w M, and ββᵀ: ⟨βᵢ, Qⱼβᵢ⟩ = ⟨Qⱼ, βᵢβᵢᵀ⟩.
        self._Q, self._squares = np.empty((2, len(evidences), units * units))
        self._in_M, self._in_Q, self._size, self._hidden = np.empty((4, len(evidences)))
        for index, (evidence, error) in enumerate(zip(evidences, errors, strict=True)):
            self.replace(index, evidence, error)

    def replace(self, index: int, evidence: Evidence, error: float) -> None:
        """Puts other evidence, with the error of its own model, in the place of one."""
        factor = evidence.factor(self._ridge)
        beta = np.asarray(factor.solve(evidence.V), np.float64)
        with np.errstate(all="ignore"):  # as in __init__: such a bound says nothing
            Q = self._M @ _inverse(evidence, error, self._ridge) @ self._M
            Q_beta = Q @ beta
            self._betas[index], self._Q_betas[index] = beta.ravel(), Q_beta.ravel()
            self._Q[index], self._squares[index] = Q.ravel(), (beta @ beta.T).ravel()
            self._in_M[index] = np.vdot(beta, self._M @ beta)
            self._in_Q[index] = np.vdot(beta, Q_beta)
            self._size[index] = np.vdot(beta, beta)
            # Where there is no error at all, nothing can be said of what is lost.
            self._hidden[index] = factor.ridge / error if error > 0.0 else np.inf

    def bounds(self) -> Array:
        """Computes the bounds for all pairs, as a square table."""
        count = len(self._betas)
        blocks = [slice(start, start + _AT_ONCE) for start in range(0, count, _AT_ONCE)]
        return np.vstack([self.bounds_of(block) for block in blocks])

    def bounds_of(self, some: slice) -> Array:
        """Computes the bounds for pairs of some with all, a line for each of the some."""
        with np.errstate(all="ignore"):  # as in __init__: such a bound says nothing
            bounds = 0.5 * (self._growth(some) - self._ridge_share(some))
        # Numbers beyond range say nothing, nor does a bound below 0: a smaller share of the ridge
        # may even make an error less.
        bounds[~(bounds > 0.0)] = UNKNOWN
        return bounds

    def _growth(self, some: slice) -> Array:
        """⟨MD, D⟩² / ⟨MD, (P₁/w₁ + P₂/w₂) MD⟩, and a little less for rounding."""
        mine = self._betas[some]
        M_mine = (self._M @ mine.reshape(-1, *self._shape)).reshape(mine.shape)
        in_M = _pairs(self._in_M, some)
        distance = in_M - 2.0 * M_mine @ self._betas.T
        in_Q = self._squares[some] @ self._Q.T + self._Q[some] @ self._squares.T
        in_Q += _pairs(self._in_Q, some)
        spread = in_Q - 2.0 * (mine @ self._Q_betas.T + self._Q_betas[some] @ self._betas.T)
        spread = np.maximum(spread, 0.0) + _ROUNDING * in_Q
        growth: Array = np.maximum(distance - _ROUNDING * in_M, 0.0) ** 2 / spread
        return growth

    def _ridge_share(self, some: slice) -> Array:
        largest = 2.0 * np.maximum(self._size[some, np.newaxis], self._size)
        mine = self._hidden[some] * (largest.T - self._size[some])
        share: Array = mine.T + self._hidden * (largest - self._size)
        return share


def _pairs(values: Array, some: slice) -> Array:
    sums: Array = values[some, np.newaxis] + values
    return sums


def _inverse(evidence: Evidence, error: float, ridge: float) -> Array:
    """P / w."""
    return (error if error > 0.0 else 1.0) * mirrored(evidence.factor(ridge).inverse())


def _harmonic_mean(inverses: Sequence[Array]) -> Array:
    mean = np.mean(inverses, axis=0)
    try:
        M = np.linalg.inv(mean)
    except np.linalg.LinAlgError:
        return np.eye(len(mean))  # any will do
    return (M + M.T) / 2.0
