"""The distance: how far a row lies from where rows usually lie, from moments alone."""

import math
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import numpy as np
from scipy.linalg.blas import ddot, dgemm, dgemv, dsyrk, dtrsm, idamax
from scipy.linalg.lapack import dpotrf

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.linalg import EPSILON, one_thread
from elmgrove.algebra.moments import Moments, mixing, zero_evidence
from elmgrove.algebra.rows import Array
from elmgrove.errors import SingularSystem


def _covariance(moments: Moments, loan: Moments | None) -> tuple[Array, Array, Array, float]:
    """The covariance D(I + LᵀL)D that moments show: D, L, and what of each column is its own.

    And the share of the products that was taken for chance, and so for noise. With a ``loan`` of
    others (``lent``), how columns move together is taken from there as long as there are few rows;
    how far each moves never is.
    """
    N, basis = max(moments.count, 0.0), moments.basis
    variance = moments.variance
    # v = variance, and one pseudo-row a unit away
    v = (N * variance + _unit(moments, variance)) / max(N, 1.0)
    # By less than this, deviations of rows (``Rows`` bounds them) would leave the range.
    v = np.maximum(v, sys.float_info.min / EPSILON)
    products, rows = _products(moments, variance), max(N, 1.0)
    # ν rows' worth of the others' correlations, with own deviations
    nu = 0.0 if loan is None or not loan.count > 0.0 else rows_lent(N, basis.inputs)
    # Less than that changes nothing.
    if loan is not None and nu > 1e-3:
        _, L, own = _correlations(loan)
        products = products + nu * _mixed_products(basis, L, own, np.sqrt(v))
        rows += nu
    chance = _chance(N + nu, basis)
    L, own = _explained(products, mixing(basis), np.sqrt(rows * v))
    # d = 1 − (1 − ρ)‖L_j‖², L ← L √((1 − ρ)/d)
    # d is more where tails are heavy: how much a column varies of its own is hardly known there
    d = (1.0 - (1.0 - chance) * (1.0 - own)) * (basis.scaling.tails or 1.0)
    return np.sqrt(v * d), L * np.sqrt((1.0 - chance) / d), own / d, chance


def _correlations(moments: Moments) -> tuple[Array, Array, Array]:
    """How columns moved: each one's deviation, and together, as LᵀL + diag(own) in units of it."""
    variance = moments.variance
    # A column that never moved has no correlations; any unit will do for it.
    v = np.where(variance > 0.0, variance, 1.0)
    root = np.sqrt(moments.count * v)
    L, own = _explained(_products(moments, variance), mixing(moments.basis), root)
    return np.sqrt(variance), L, own


def _mixed_products(basis: Basis, L: Array, own: Array, deviation: Array) -> Array:
    """C = Aᵀ D(LᵀL + diag(own))D for columns with these deviations D."""
    A, L_D, alone = mixing(basis), L * deviation, own * deviation**2
    # SciPy's product: NumPy brings a BLAS of its own, whose threads would get in the way.
    with one_thread:
        if A is None:
            products: Array = dgemm(1.0, L_D, L_D, trans_a=1) + np.diag(alone)
        else:
            shared = dgemm(1.0, dgemm(1.0, A, L_D, trans_a=1, trans_b=1), L_D)
            products = shared + (A * alone[:, np.newaxis]).T
    return products


def rows_lent(count: float, inputs: int) -> float:
    """Counts how many rows' worth of others a device borrows that has learned so many itself.

    As many as there are inputs at first, and none any more from about three times as many rows on:
    with those, it knows better itself.
    """
    # More than that is nothing as well, and may have no square.
    share = min(count / inputs, 100.0)
    return inputs * math.exp(-(share**2))


def _unit(moments: Moments, variance: Array) -> Array | float:
    if moments.basis.scaling.kind != "none":
        return 1.0
    mean = moments.centre + moments.mean
    # No larger than what has a square.
    size = np.where(mean != 0.0, np.minimum(np.abs(mean), 1e150) ** 2, 1.0)
    return np.where(variance > 0.0, variance, size)


def _chance(count: float, basis: Basis) -> float:
    """The share of the products of two columns that so many rows may show by chance."""
    # A quarter row's worth for each column, since the more there are the more of their products are
    # chance. Rows side by side have more products than can all be known well: a fixed number there.
    rows, least = (0.25 * basis.inputs, 0.001) if basis.window == 1 else (30.0, 0.03)
    # From 75 rows an input on it is less and less. Nobody has as many rows as have no square, but
    # somebody may say so.
    many = count * (count / (75.0 * basis.inputs))
    return max(least, rows / (rows + count + many))


def _products(moments: Moments, variance: Array) -> Array:
    """The products about the mean: C − (sA)ᵀm."""
    A = mixing(moments.basis)
    s_A = moments.s if A is None else moments.s @ A
    products: Array = moments.C - np.outer(s_A, moments.mean)
    # What never moved has no products: far from the centre, their rounding is all there is.
    products[:, variance == 0.0] = 0.0
    if A is None:
        products[variance == 0.0] = 0.0
    return products


def _explained(products: Array, A: Array | None, root: Array) -> tuple[Array, Array]:
    """L = chol(U + λI)⁻ᵀ V, where V are the products in units of the root; and what it leaves."""
    V = products / root
    # A share of what the columns' variances alone would give: products may cancel down to rounding.
    ridge = 1e-10
    if A is None:
        V /= root[:, np.newaxis]
        U = V
    else:
        scaled = A * root[:, np.newaxis]
        # SciPy's product: NumPy brings a BLAS of its own, whose threads would get in the way.
        U = dgemm(1.0, V, scaled)
        ridge *= float(np.einsum("ij,ij->", scaled, scaled)) / len(V)
    U = (U + U.T) / 2.0
    # The last is enough for whatever rounding left: no entry is larger than all of them together.
    ridges = [ridge * 10.0**power for power in range(12)] + [2.0 * float(np.abs(U).sum())]
    for ridge in ridges:
        T = _cholesky(U + ridge * np.eye(len(U)))
        if T is not None:
            break
    else:
        raise SingularSystem("the sums hold values that are not finite; they were not learned")
    with one_thread:
        L = np.asarray(dtrsm(1.0, T, np.asfortranarray(V), lower=0, trans_a=1))
    # No more of a column is explained than there is.
    L /= np.sqrt(np.maximum(np.einsum("ij,ij->j", L, L), 1.0))
    return L, np.maximum(1.0 - np.einsum("ij,ij->j", L, L), 0.0)


def _cholesky(A: Array) -> Array | None:
    """Computes the upper factor; None where the matrix is not positive definite."""
    with one_thread:
        T, failed = dpotrf(np.asfortranarray(A), lower=0, clean=1, overwrite_a=1)
    return None if failed or not np.isfinite(T).all() else np.asarray(T)


def lent(evidence: Evidence) -> Moments | None:
    """Makes what a device lends to others: how its readings move together, as one row's worth.

    Where they lie, and how far they move, is left out: the sums are about the device's own mean,
    and no column moves by more than a unit (without scaling, each moves by 1). So loans can be
    added, and one that sends wrong sums can't drown the others. A device with fewer rows than
    inputs counts for less. A loss has no such sums: there None is lent.
    """
    if not isinstance(evidence, Moments):
        return None
    nothing = zero_evidence(evidence.basis)
    assert isinstance(nothing, Moments), "a distance is made of moments"
    if not evidence.count > 1.0:
        return nothing
    deviation, L, own = _correlations(evidence)
    moves = np.minimum(deviation, 1.0)
    if evidence.basis.scaling.kind == "none":
        moves = (deviation > 0.0).astype(float)
    C = _mixed_products(evidence.basis, L, own, moves)
    weight = evidence.count / (evidence.count + evidence.basis.inputs)
    zero = np.zeros(evidence.basis.inputs)
    return Moments(evidence.basis, weight * C, zero, weight * moves**2, weight)


def lent_together(loans: Iterable[Moments | None]) -> Moments | None:
    """Adds up what several lend; None where nobody lends anything."""
    shares = [loan for loan in loans if loan is not None and loan.count > 0.0]
    if not shares:
        return None
    total = Evidence.sum(shares)
    assert isinstance(total, Moments), "a sum of moments"
    return total


def agreed(loans: Iterable[Moments | None]) -> Moments | None:
    """Adds up what several lend, without the one that is least like the rest.

    One lender that made its sums up can hide a fault from a device that has seen few rows. Who is
    least like the rest is told by the median of all, each entry of C by itself. Of two neither is
    left out.
    """
    shares = [loan for loan in loans if loan is not None and loan.count > 0.0]
    if len(shares) > 2:
        C = np.stack([share.C / share.count for share in shares])
        apart = np.sum((C - np.median(C, axis=0)) ** 2, axis=(1, 2))
        del shares[int(np.argmax(apart))]
    return lent_together(shares)


#: Beyond so many deviations a value counts by its logarithm.
FAR = 10.0
#: One value alone whose square is beyond ``ALONE`` by what all others say counts twice what is
#: beyond, up to that of 5.5 deviations: among many values it would drown.
ALONE, ALONE_MOST, ALONE_WEIGHT = 9.0, 21.0, 2.0


def _products_of_all(K: Array) -> tuple[Array, Array]:
    """The root of the diagonal of I − KᵀK, and that matrix in units of it."""
    omega = np.eye(K.shape[1]) - dgemm(1.0, K, K, trans_a=1)
    root = np.sqrt(np.maximum(omega.diagonal(), 1e-12))
    return root, omega / np.outer(root, root)


class Distance:
    """A Gaussian of low rank plus diagonal, and how far rows lie from it: Σ = D(I + LᵀL)D.

    The squared Mahalanobis distance divided by the inputs: a typical row scores 1, whatever the
    units of the data. It works where normal rows are one cloud, however stretched; where they are
    several clouds far apart, each needs a distance of its own (``PatternRule``).

    One more row, a unit away from the others, is taken to have been seen: so there is a sane score
    from the second row on, and a column that never moved is anomalous when it does. The unit is 1
    where rows are scaled; else a column's own deviation, or its size where it never moved. With few
    rows, how columns move together can be borrowed from others: a ``loan`` (``lent``).
    """

    def __init__(self, moments: Moments, loan: Moments | None = None) -> None:
        self.basis = moments.basis
        N = max(moments.count, 0.0)
        #: Where the rows lie in the middle.
        self.mean = moments.centre + moments.mean
        deviation, L, self.own, chance = _covariance(moments, loan)
        self._known = max(1.0 - chance, 1e-9)
        self._take(L, deviation)
        # What the rows themselves score by this: without it, what was taken for chance, and so for
        # noise, would make them score less than 1. Their covariance, in these units, is
        # diag(own) + LᵀL/(1 − ρ), and tr((I + LᵀL)⁻¹LᵀL) = ‖K‖².
        share = np.einsum("ij,ij->j", self.K, self.K)
        typical = float(self.own @ (1.0 - share) + share.sum() / self._known) / len(share)
        self._typical_here, self._unit = typical, max(typical, chance)
        #: What squares are multiplied by.
        self.scale = N / (N + 1.0) / self._unit

    def _take(self, L: Array, deviation: Array) -> None:
        #: What a column has of its own beside what the mixtures say, and those as L.
        self.deviation, self.L = deviation, L
        with one_thread:
            T = _cholesky(dsyrk(1.0, np.asfortranarray(L), beta=1.0, c=np.eye(len(L), order="F")))
            assert T is not None, "I + LLᵀ is positive definite"
            #: K = chol(I + LLᵀ)⁻ᵀ L, so that Σ⁻¹ = D⁻¹(I − KᵀK)D⁻¹
            self.K = np.asfortranarray(dtrsm(1.0, T, np.asfortranarray(L), lower=0, trans_a=1))
        #: A column's deviation in units of D: √(v d)·√(1 + ‖L_j‖²) = √v; √(v d) is of its own.
        self.grown = np.sqrt(1.0 + np.einsum("ij,ij->j", L, L))
        self._marginal = 1.0 / (deviation * self.grown)
        last = self.K[:, -self.basis.layer.inputs :]
        #: Of the last row: what the others leave open of each value, and its share of K.
        self.still_open = np.sqrt(1.0 / np.maximum(1.0 - np.einsum("ij,ij->j", last, last), 1e-12))
        self.K_last = np.asfortranarray((last * self.still_open).T)
        self._first = len(deviation) - len(self.still_open)
        # Up to 64 inputs all products are at hand, and a typical row is nearer than one value
        # beyond ten deviations puts it.
        self._has_few_inputs = len(self.K) == len(deviation) <= 64
        if self._has_few_inputs:
            root, R = _products_of_all(self.K)
            self._A, self._R = root / deviation, np.asfortranarray(R)
        self._parts: dict[int, Distance] = {}

    # Scoring

    def score_one(self, x: Array) -> float:
        """Computes (‖z‖² − ‖Kz‖² + a)/n of one row: about 1 if it is typical.

        z are its deviations, and a is what one value of the last row alone adds, if it is far from
        what all others say.
        """
        if self._has_few_inputs:
            z = x - self.mean
            z *= self._A
            g = dgemv(1.0, self._R, z)
            far = ddot(z, g)
            # Else a value may be beyond ten deviations, which puts its row at least as far.
            # Below 0 it is what overflow left.
            if 0.0 <= far <= FAR**2:
                return self._judged(self.scale * far, g[self._first :])
        z = x - self.mean
        z *= self._marginal
        # Written so that a value that is no number is looked at.
        if not -FAR <= z[idamax(z)] <= FAR:
            z = _damped(z)
        z *= self.grown
        w = dgemv(1.0, self.K, z)
        far = self.scale * (ddot(z, z) - ddot(w, w))
        g = z[self._first :]
        if far > ALONE:
            # Only then can one value alone be far: (z − Kᵀw)², by what the others leave open.
            g = g * self.still_open
            g -= dgemv(1.0, self.K_last, w)
        return self._judged(far, g)

    def _judged(self, far: float, g: Array) -> float:
        """The score of a row so far off, whose last values are so far from what others say."""
        if far > ALONE:
            alone = self.scale * float(g[idamax(g)]) ** 2 - ALONE
            if alone > 0.0:
                far += ALONE_WEIGHT * min(alone, ALONE_MOST)
        # Rounding may leave a little less than nothing; what is no number stays so.
        return 0.0 if far < 0.0 else far / len(self.mean)

    def score_many(self, X: Array) -> Array:
        """Scores many rows, as ``score_one`` scores one, up to rounding."""
        inputs, scores = len(self.mean), np.empty(len(X))
        # As many at once as fit in the cache; no power of two, by which all columns would fall on
        # one place of it.
        size = min(52000 // inputs, 4000) if self._has_few_inputs else max(262144 // inputs, 16)
        # Waiting for a second thread costs more than it brings, unless products are large.
        threads = nullcontext() if self.K.size > 32768 else one_thread
        measure = self._by_products if self._has_few_inputs else self._by_mixtures
        rate = math.sqrt(self.scale / inputs) / self.deviation
        # What overflows is far off, and looked at again.
        with threads, np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(X), size):
                part = slice(start, start + size)
                far, alone, near = measure(X[part], rate)
                # What the value that is most off by itself adds, if it is large.
                large = np.flatnonzero(alone > math.sqrt(ALONE / inputs))
                squares = alone[large] ** 2 - ALONE / inputs
                far[large] += ALONE_WEIGHT * np.minimum(squares, ALONE_MOST / inputs)
                # Rounding may leave a little less than nothing.
                np.maximum(far, 0.0, out=far)
                if not near.all():
                    far[~near] = self._looked_at(X[part][~near])
                scores[part] = far
        return scores

    def _by_products(self, X: Array, rate: Array) -> tuple[Array, Array, Array]:
        """How far rows are off, how far their one value is that is most, and whether all are near.

        Of Σ⁻¹ = A R A, where A is the root of its diagonal, g = R A(x − μ) and the squared distance
        is A(x − μ)·g: one product, since NumPy is slow at many short rows.
        """
        A = self._A * self.deviation * rate
        Y = np.subtract(X.T, self.mean[:, np.newaxis], order="C")
        G = dgemm(1.0, Y.T, np.asfortranarray(A[:, np.newaxis] * self._R)).T
        Y *= G
        far = dgemv(1.0, Y.T, A)
        G = G[self._first :]
        # A value beyond ten deviations puts its row at least as far. Below 0 is what overflow left.
        near = (far >= 0.0) & (far <= FAR**2 * self.scale / len(self.mean))
        return far, np.abs(G, out=G).max(axis=0), near

    def _by_mixtures(self, X: Array, rate: Array) -> tuple[Array, Array, Array]:
        """The same for many inputs: ‖z‖² − ‖Kz‖², and (z − Kᵀw)² by what the others leave open."""
        Z = X - self.mean
        # A little less, so that what rounding puts on the other side is looked at again.
        reach = (1.0 - 1e-6) * FAR * self.deviation * self.grown
        near = np.ones(len(X), bool)
        if not ((Z.max(axis=0) <= reach).all() and (Z.min(axis=0) >= -reach).all()):
            near = (np.abs(Z) <= reach).all(axis=1)
        Z *= rate
        W = dgemm(1.0, self.K, Z.T)
        far = np.einsum("ij,ij->i", Z, Z) - np.einsum("ij,ij->j", W, W)
        G = Z[:, self._first :] * self.still_open
        G = dgemm(-1.0, self.K_last, W, beta=1.0, c=G.T, overwrite_c=1).T
        return far, np.abs(G, out=G).max(axis=1), near

    def _looked_at(self, X: Array) -> Array:
        """The scores of inputs that may have values beyond ten deviations."""
        Z = X - self.mean
        Z *= self._marginal
        Z = _damped(Z)
        Z *= self.grown
        W = dgemm(1.0, self.K, Z.T)
        far = np.einsum("ij,ij->i", Z, Z) - np.einsum("ij,ij->j", W, W)
        G = Z[:, self._first :] * self.still_open
        G -= dgemm(1.0, self.K_last, W).T
        alone = np.maximum(G.max(axis=1), -G.min(axis=1))
        alone = np.clip(self.scale * alone**2 - ALONE, 0.0, ALONE_MOST)
        scores: Array = (self.scale * far + ALONE_WEIGHT * alone) / len(self.mean)
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
            # The mean of (‖z‖² − ‖Kz‖²)/n over rows of covariance diag(own) + seenᵀseen
            K, own, seen = self.K, rate**2 * other.own, other.seen * rate
            spread = float(own.sum()) + float(np.vdot(seen, seen))
            K_seen = K @ seen.T
            taken = float(np.einsum("ij,ij,j->", K, K, own)) + float(np.vdot(K_seen, K_seen))
            wide = (spread - taken) / len(z)
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
            part.basis, part.scale = self.basis, self.scale
            part.mean = self.mean[-columns:]
            part._take(np.array(self.L[:, -columns:]), self.deviation[-columns:])
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
        K_B = self.K[:, block]
        omega: Array = np.eye(len(block)) - K_B.T @ K_B
        return omega


def _damped(z: Array) -> Array:
    """Lets a value beyond ten deviations count by its logarithm: one can't drown all others."""
    size = np.minimum(np.abs(z), sys.float_info.max)
    grown = FAR * (1.0 + np.log(np.maximum(size, FAR) / FAR))
    damped: Array = np.where(size > FAR, np.copysign(grown, z), z)
    return damped
