"""The distance: how far a row lies from where rows usually lie, from moments alone."""

from typing import Any

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk, dtrsm

from elmgrove.algebra.blas import Blas, one_thread
from elmgrove.algebra.covariance import Covariance, cholesky
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.rows import Array

# One value alone that is farther than three deviations from what all others say counts twice its
# square beyond that, up to what 5.5 deviations give: among many values it would drown.
_ALONE, _ALONE_MOST, _ALONE_WEIGHT = 9.0, 21.0, 2.0
# Beyond so many deviations a value counts by its logarithm.
_FAR = 10.0
# Values that are scored at once in bulk.
_BLOCK = 65536
# Up to so many inputs typical rows are nearer than one value beyond ten deviations puts a row.
_FEW = 64


class Distance:
    """A Gaussian of low rank plus diagonal, and how far rows lie from it: Σ = D(I + LᵀL)D.

    The squared Mahalanobis distance divided by the inputs: a typical row scores 1, whatever the
    units of the data. It works where normal rows are one cloud, however stretched; where they are
    several clouds far apart, each needs a distance of its own (``PatternRule``).

    One more row, a unit away from the others, is taken to have been seen. So there is a sane
    score from the second row on, and a column that never moved is strange when it does. The unit is
    1 where rows are scaled; else a column's own deviation, or its size where it never moved.

    With few rows, how columns move together can be borrowed from others: a ``loan`` (``lent``).
    """

    def __init__(
        self, moments: Moments, dtype: Any = np.float64, loan: Moments | None = None
    ) -> None:
        self.basis = moments.basis
        self.count = N = max(moments.count, 0.0)
        self.dtype = np.dtype(dtype)
        self._blas = Blas(self.dtype)
        #: Where the rows lie in the middle.
        self.mean = moments.centre + moments.mean
        found = Covariance.of(moments, self.dtype, loan)
        self.own, self.ridge, self._known = found.own, found.ridge, max(1.0 - found.chance, 1e-9)
        self._take(found.L, found.deviation)
        # What the rows themselves score by this: without it, what was taken for chance, and so for
        # noise, would make them score less than 1. Their covariance, in these units, is
        # diag(own) + LᵀL/(1 − ρ), and tr((I + LᵀL)⁻¹LᵀL) = ‖K‖².
        share = np.einsum("ij,ij->j", self.K, self.K)
        typical = float(self.own @ (1.0 - share) + share.sum() / self._known) / len(share)
        self._typical_here, self._unit = typical, max(typical, found.chance)
        self._scale = N / (N + 1.0) / self._unit

    def _take(self, L: Array, deviation: Array) -> None:
        #: What a column has of its own beside what the mixtures say, and those as L.
        self.deviation, self.L = deviation, L
        with one_thread:
            T = cholesky(dsyrk(1.0, np.asfortranarray(L), beta=1.0, c=np.eye(len(L), order="F")))
            assert T is not None, "I + LLᵀ is positive definite"
            # K = chol(I + LLᵀ)⁻ᵀ L, so that Σ⁻¹ = D⁻¹(I − KᵀK)D⁻¹
            self.K = np.asarray(dtrsm(1.0, T, np.asfortranarray(L), lower=0, trans_a=1))
        # A column's deviation is √(v d)·√(1 + ‖L_j‖²) = √v; √(v d) is what it has of its own.
        grown = np.sqrt(1.0 + np.einsum("ij,ij->j", L, L))
        self._marginal = (1.0 / (deviation * grown)).astype(self.dtype)
        self._own = grown.astype(self.dtype)
        self._mean = self.mean.astype(self.dtype)
        self._K = np.asfortranarray(self.K, self.dtype)
        # Of the last row: what the others leave open of each value, and its share of K.
        last = self.K[:, -self.basis.layer.inputs :]
        still_open = np.sqrt(1.0 / np.maximum(1.0 - np.einsum("ij,ij->j", last, last), 1e-12))
        self._open = still_open.astype(self.dtype)
        self._K_last = np.asfortranarray((last * still_open).T, self.dtype)
        self._first = len(deviation) - len(still_open)
        self._R: Array | None = None
        if len(self.K) == len(deviation) <= _FEW:
            # With all products at hand one product says it all: of Σ⁻¹ = A R A, where A is the
            # root of its diagonal, g = R A(x − μ) and the squared distance is A(x − μ)·g.
            omega = np.eye(len(deviation)) - dgemm(1.0, self.K, self.K, trans_a=1)
            root = np.sqrt(np.maximum(omega.diagonal(), 1e-12))
            self._A = (root / deviation).astype(self.dtype)
            self._R = np.asfortranarray(omega / np.outer(root, root), self.dtype)
        self._parts: dict[int, Distance] = {}

    def _typical(self, own: Array, seen: Array) -> float:
        """The mean of (‖z‖² − ‖Kz‖²)/n over rows of covariance diag(own) + seenᵀseen."""
        K = self.K
        spread = float(own.sum()) + float(np.vdot(seen, seen))
        K_seen = K @ seen.T
        taken = float(np.einsum("ij,ij,j->", K, K, own)) + float(np.vdot(K_seen, K_seen))
        return (spread - taken) / len(own)

    # Scoring

    def score_one(self, x: Array) -> float:
        """Computes (‖z‖² − ‖Kz‖² + a)/n of one row: about 1 if it is typical.

        z are its deviations, and a is what one value of the last row alone adds, if it is far from
        what all others say.
        """
        blas = self._blas
        if self._R is not None:
            z = x - self._mean
            z *= self._A
            g = blas.gemv(1.0, self._R, z)
            far = blas.dot(z, g)
            # Else a value may be beyond ten deviations, which puts its row at least as far.
            # Below 0 it is what overflow left.
            if 0.0 <= far <= _FAR**2:
                return self._judged(self._scale * far, g[self._first :])
        z = x - self._mean
        z *= self._marginal
        # Written so that a value that is no number is looked at.
        if not -_FAR <= z[blas.largest(z)] <= _FAR:
            z = damped(z)
        z *= self._own
        w = blas.gemv(1.0, self._K, z)
        far = self._scale * (blas.dot(z, z) - blas.dot(w, w))
        g = z[self._first :]
        if far > _ALONE:
            # Only then can one value alone be far: (z − Kᵀw)², by what the others leave open.
            g = g * self._open
            g -= blas.gemv(1.0, self._K_last, w)
        return self._judged(far, g)

    def _judged(self, far: float, g: Array) -> float:
        """The score of a row so far off, whose last values are so far from what others say."""
        if far > _ALONE:
            alone = self._scale * float(g[self._blas.largest(g)]) ** 2 - _ALONE
            if alone > 0.0:
                far += _ALONE_WEIGHT * min(alone, _ALONE_MOST)
        # Rounding may leave a little less than nothing; what is no number stays so.
        return 0.0 if far < 0.0 else far / len(self.mean)

    def score_many(self, X: Array) -> Array:
        """Scores each row, as ``score_one`` scores one."""
        scores = np.empty(len(X))
        # So many rows that what is computed of them stays in the processor's cache.
        size = max(_BLOCK // X.shape[1], 16)
        far_off = self._far_off if self._R is None else self._few_far_off
        # A block takes less than a millisecond: there, waiting for a second thread costs more.
        with one_thread:
            for start in range(0, len(X), size):
                scores[start : start + size] = far_off(X[start : start + size])
        scores /= len(self.mean)
        return np.maximum(scores, 0.0, out=scores)

    def _few_far_off(self, X: Array) -> Array:
        """Few columns, each by itself in memory: NumPy is slow at many short rows."""
        # What overflows is far beyond, and looked at again.
        with np.errstate(over="ignore", invalid="ignore"):
            Z = np.empty(X.shape[::-1], X.dtype)
            np.subtract(X.T, self._mean[:, np.newaxis], out=Z)
            Z *= self._A[:, np.newaxis]
            G = self._blas.gemm(1.0, Z.T, self._R).T
            far = np.einsum("ij,ij->j", Z, G)
            beyond = ~((far >= 0.0) & (far <= _FAR**2))
            far = self._with_alone(far, G[self._first :], 0)
        if beyond.any():
            far[beyond] = self._far_off(X[beyond])
        return far

    def _far_off(self, X: Array) -> Array:
        Z = X - self._mean
        Z *= self._marginal
        if not (Z.max() <= _FAR and Z.min() >= -_FAR):
            Z = damped(Z)
        Z *= self._own
        W = self._blas.gemm(1.0, self._K, Z.T)
        far = np.einsum("ij,ij->i", Z, Z) - np.einsum("ij,ij->j", W, W)
        G = Z[:, self._first :] * self._open
        G -= self._blas.gemm(1.0, self._K_last, W).T
        return self._with_alone(far, G, 1)

    def _with_alone(self, far: Array, G: Array, axis: int) -> Array:
        """Adds what the largest of each row's G adds if it is large."""
        alone = np.maximum(G.max(axis=axis), -G.min(axis=axis))
        alone = np.clip(self._scale * alone**2 - _ALONE, 0.0, _ALONE_MOST)
        together: Array = self._scale * far + _ALONE_WEIGHT * alone
        return together

    @property
    def seen(self) -> Array:
        """S, as L was before some was taken for chance: rows vary as diag(own) + SᵀS."""
        seen: Array = self.L / np.sqrt(self._known)
        return seen

    def mean_score(self, other: "Distance") -> float:
        """Computes how many times as far the other's rows lie from here as typical ones do."""
        # As they are, without what the other's model takes for chance, which is more for few rows.
        # [tr(Σ₁⁻¹ S₂) + (μ₂ − μ₁)ᵀ Σ₁⁻¹ (μ₂ − μ₁)] / n
        with np.errstate(over="ignore", invalid="ignore"):
            rate = other.deviation / self.deviation
            z = (other.mean - self.mean) / self.deviation
            away = float(z @ z) - float(np.sum((self.K @ z) ** 2))
            wide = self._typical(rate**2 * other.own, other.seen * rate)
        # Two that are farther apart than numbers go.
        far = not (np.isfinite(away) and np.isfinite(wide))
        mean = max(wide, 0.0) + max(away, 0.0) / len(z)
        return np.inf if far else float(self.times_typical(mean))

    def times_typical(self, mean: Any) -> Any:
        """Says how many times as far as own rows those are whose mean of ‖z‖² − ‖Kz‖² is this."""
        return 1.0 + (mean - self._typical_here) / self._unit

    @property
    def width(self) -> float:
        """How wide the Gaussian is: the mean logarithm of its variances, along its own axes."""
        # log det Σ / n
        _, along = np.linalg.slogdet(np.eye(len(self.L)) + self.L @ self.L.T)
        return (2.0 * float(np.log(self.deviation).sum()) + float(along)) / len(self.mean)

    # Explaining

    @property
    def residual(self) -> Array:
        """The deviation that is left of each column when all others are known: 1/√Ω_jj."""
        left = 1.0 - np.einsum("ij,ij->j", self.K, self.K)
        residual: Array = self.deviation / np.sqrt(np.maximum(left, 1e-12))
        return residual

    def last(self, columns: int) -> "Distance":
        """Gives the distance of the last columns alone, whatever stands in the others."""
        if columns not in self._parts:
            part = object.__new__(Distance)
            part.basis, part.count, part.ridge = self.basis, self.count, self.ridge
            part.dtype, part._blas = self.dtype, self._blas
            part.mean = self.mean[-columns:]
            part._take(np.array(self.L[:, -columns:]), self.deviation[-columns:])
            part._scale = self._scale
            self._parts[columns] = part
        return self._parts[columns]

    def explained(self, x: Array, block: Array) -> tuple[float, Array]:
        """Finds how much of a row's distance some columns explain, and what they should have been.

        With Ω = Σ⁻¹ and g = Ω(x − μ): g_BᵀΩ_BB⁻¹g_B of it goes, with x_B − Ω_BB⁻¹g_B in their
        place.
        """
        z = (np.asarray(x, np.float64) - self.mean) / self.deviation
        # The share is that of any row in the same direction; squares of this one may overflow.
        size = max(float(np.abs(z).max()), 1.0)
        z /= size
        g = z - self.K.T @ (self.K @ z)
        K_B = self.K[:, block]
        omega = np.eye(len(block)) - K_B.T @ K_B
        step = np.linalg.solve(omega, g[block])
        total = float(z @ g)
        share = float(g[block] @ step) / total if total > 0.0 else 0.0
        return share, np.asarray(x, np.float64)[block] - step * size * self.deviation[block]


def damped(z: Array) -> Array:
    """Lets a value beyond ten deviations count by its logarithm: one can't drown all others."""
    size = np.minimum(np.abs(z), np.finfo(z.dtype).max)
    grown = _FAR * (1.0 + np.log(np.maximum(size, _FAR) / _FAR))
    near: Array = np.where(size > _FAR, np.copysign(grown, z), z)
    return near.astype(z.dtype, copy=False)
