"""The distance: how far a row lies from where rows usually lie, from moments alone."""

from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk, dtrsm

from elmgrove.algebra.blas import Blas, one_thread
from elmgrove.algebra.bulk import (
    ALONE,
    ALONE_MOST,
    ALONE_WEIGHT,
    FAR,
    FEW,
    Bulk,
    Parts,
    bulk_of_inputs,
    bulk_of_rows,
    products,
)
from elmgrove.algebra.covariance import Covariance, cholesky
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.rows import Array


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
        if len(self.K) == len(deviation) <= FEW:
            # With all products at hand one product says it all: of Σ⁻¹ = A R A, where A is the
            # root of its diagonal, g = R A(x − μ) and the squared distance is A(x − μ)·g.
            root, R = products(self.K)
            self._A = (root / deviation).astype(self.dtype)
            self._R = np.asfortranarray(R, self.dtype)
        self._grown, self._still_open = grown, still_open
        self._parts: dict[int, Distance] = {}
        self._bulk: Bulk | None = None
        self._bulk_of_rows: Bulk | None = None

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
            if 0.0 <= far <= FAR**2:
                return self._judged(self._scale * far, g[self._first :])
        z = x - self._mean
        z *= self._marginal
        # Written so that a value that is no number is looked at.
        if not -FAR <= z[blas.largest(z)] <= FAR:
            z = damped(z)
        z *= self._own
        w = blas.gemv(1.0, self._K, z)
        far = self._scale * (blas.dot(z, z) - blas.dot(w, w))
        g = z[self._first :]
        if far > ALONE:
            # Only then can one value alone be far: (z − Kᵀw)², by what the others leave open.
            g = g * self._open
            g -= blas.gemv(1.0, self._K_last, w)
        return self._judged(far, g)

    def _judged(self, far: float, g: Array) -> float:
        """The score of a row so far off, whose last values are so far from what others say."""
        if far > ALONE:
            alone = self._scale * float(g[self._blas.largest(g)]) ** 2 - ALONE
            if alone > 0.0:
                far += ALONE_WEIGHT * min(alone, ALONE_MOST)
        # Rounding may leave a little less than nothing; what is no number stays so.
        return 0.0 if far < 0.0 else far / len(self.mean)

    def score_many(self, X: Array) -> Array:
        """Scores each input, as ``score_one`` scores one."""
        if self._bulk is None:
            self._bulk = bulk_of_inputs(self._for_many)
        scores, far = self._bulk(X)
        if len(far):
            with one_thread:
                scores[far] = self._looked_at(X[far])
        return scores

    @property
    def of_rows(self) -> Bulk | None:
        """What scores rows as they come, not scaled nor side by side; None if that is not exact."""
        if self._bulk_of_rows is None:
            basis = self.basis
            self._bulk_of_rows = bulk_of_rows(self._for_many, basis.scaling, basis.window)
        return self._bulk_of_rows

    @property
    def _for_many(self) -> Parts:
        scale = self._scale / len(self.mean)
        return Parts(
            self.mean, self.deviation, self.K, self._grown, self._still_open, scale, self.dtype
        )

    def _looked_at(self, X: Array) -> Array:
        """The scores of inputs that may have values beyond ten deviations."""
        Z = X - self._mean
        Z *= self._marginal
        Z = damped(Z)
        Z *= self._own
        W = self._blas.gemm(1.0, self._K, Z.T)
        far = np.einsum("ij,ij->i", Z, Z) - np.einsum("ij,ij->j", W, W)
        G = Z[:, self._first :] * self._open
        G -= self._blas.gemm(1.0, self._K_last, W).T
        alone = np.maximum(G.max(axis=1), -G.min(axis=1))
        alone = np.clip(self._scale * alone**2 - ALONE, 0.0, ALONE_MOST)
        scores: Array = (self._scale * far + ALONE_WEIGHT * alone) / len(self.mean)
        return np.maximum(scores, 0.0, out=scores)

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
        step = np.linalg.solve(self._omega(block), g[block])
        total = float(z @ g)
        share = float(g[block] @ step) / total if total > 0.0 else 0.0
        return share, np.asarray(x, np.float64)[block] - step * size * self.deviation[block]

    def expected(self, X: Array, block: Array) -> tuple[Array, Array]:
        """Finds what some columns should have been by all others, in each of many rows.

        The second array is how far they usually are from there: √diag(Ω_BB⁻¹), for all rows.
        """
        values = np.asarray(X, np.float64)
        Z = (values - self.mean) / self.deviation
        G = Z[:, block] - (Z @ self.K.T) @ self.K[:, block]
        left = np.linalg.inv(self._omega(block))
        deviation = self.deviation[block]
        return values[:, block] - G @ left * deviation, np.sqrt(np.diag(left)) * deviation

    def _omega(self, block: Array) -> Array:
        """Ω_BB, in deviations."""
        K_B = self.K[:, block]
        omega: Array = np.eye(len(block)) - K_B.T @ K_B
        return omega


def damped(z: Array) -> Array:
    """Lets a value beyond ten deviations count by its logarithm: one can't drown all others."""
    size = np.minimum(np.abs(z), np.finfo(z.dtype).max)
    grown = FAR * (1.0 + np.log(np.maximum(size, FAR) / FAR))
    near: Array = np.where(size > FAR, np.copysign(grown, z), z)
    return near.astype(z.dtype, copy=False)
