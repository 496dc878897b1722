"""From moments to a covariance of low rank plus diagonal: variances, and what columns share."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm, dtrsm
from scipy.linalg.lapack import dpotrf

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.linalg import one_thread
from elmgrove.algebra.moments import Moments, mixing, zero_evidence
from elmgrove.algebra.rows import Array
from elmgrove.errors import SingularSystem

# Of the products of two columns so many rows' worth is taken for chance, and at least this share:
# a quarter row for each column, since the more there are the more of their products are chance.
_CHANCE_ROWS, _LEAST_CHANCE = 0.25, 0.001
# Rows side by side have more products than can all be known well: a fixed number, a larger share.
_CHANCE_ROWS_OF_WINDOWS, _LEAST_CHANCE_OF_WINDOWS = 30.0, 0.03
# From so many rows an input on it is less and less.
_MANY_ROWS = 75.0
# The ridge as a share of the mean variance of a mixture, and how often it may grow tenfold.
_RIDGE = 1e-10
_TRIES = 12
# Equal squares that are added up, a block after another, are known to this share (a third of it).
_ROUNDING = 256.0 * float(np.finfo(float).eps)
# Less than this many rows' worth of others changes nothing.
_LEAST_LOAN = 1e-3
# No unit is larger than this: its square is a number.
_LARGEST_UNIT = 1e150


class Covariance(NamedTuple):
    """The covariance D(I + LᵀL)D of rows, and what of each column is its own.

    ``chance`` is the share of the products that was taken for chance, and so for noise.
    """

    deviation: Array
    L: Array
    own: Array
    chance: float
    ridge: float

    @classmethod
    def of(
        cls, moments: Moments, dtype: np.dtype[Any], loan: Moments | None = None
    ) -> "Covariance":
        """Makes the covariance that these moments show, for rows of a dtype.

        With a ``loan`` of others (``lent``), how columns move together is taken from there as long
        as there are few rows; how far each moves never is.
        """
        N, basis = max(moments.count, 0.0), moments.basis
        variance = _variance(moments)
        # v = variance, and one pseudo-row a unit away
        v = (N * variance + _unit(moments, variance)) / max(N, 1.0)
        v = np.maximum(v, _least_variance(dtype))
        products, rows = _products(moments, variance), max(N, 1.0)
        # ν rows' worth of the others' correlations, with own deviations
        nu = 0.0 if loan is None or not loan.count > 0.0 else rows_lent(N, basis.inputs)
        if loan is not None and nu > _LEAST_LOAN:
            found = correlated(loan)
            products = products + nu * mixed_products(basis, found.L, found.own, np.sqrt(v))
            rows += nu
        chance = _chance(N + nu, basis)
        L, ridge = _factor(products, mixing(basis), np.sqrt(rows * v))
        own = np.maximum(1.0 - np.einsum("ij,ij->j", L, L), 0.0)
        # d = 1 − (1 − ρ)‖L_j‖², L ← L √((1 − ρ)/d)
        # d is more where tails are heavy: how much a column varies of its own is hardly known there
        d = (1.0 - (1.0 - chance) * (1.0 - own)) * (basis.scaling.tails or 1.0)
        return cls(np.sqrt(v * d), L * np.sqrt((1.0 - chance) / d), own / d, chance, ridge)


class Correlations(NamedTuple):
    """How columns move together: as LᵀL + diag(own), of columns whose deviation would be 1."""

    deviation: Array
    L: Array
    own: Array


def correlated(moments: Moments) -> Correlations:
    """Finds how columns moved together in the rows behind some moments, and how far each moved."""
    variance = _variance(moments)
    # A column that never moved has no correlations; any unit will do for it.
    v = np.where(variance > 0.0, variance, 1.0)
    A, root = mixing(moments.basis), np.sqrt(moments.count * v)
    L, _ = _factor(_products(moments, variance), A, root)
    own = np.maximum(1.0 - np.einsum("ij,ij->j", L, L), 0.0)
    return Correlations(np.sqrt(variance), L, own)


def mixed_products(basis: Basis, L: Array, own: Array, deviation: Array) -> Array:
    """Computes C = Aᵀ D(LᵀL + diag(own))D for columns with these deviations D."""
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


def _variance(moments: Moments) -> Array:
    """The variance of each column; 0 where only rounding is left of it."""
    m = moments.mean
    square = moments.e / moments.count if moments.count > 0.0 else np.zeros_like(m)
    variance: Array = square - m**2
    rounding = max(_ROUNDING, 8.0 * moments.resolution)
    variance[variance <= rounding * square] = 0.0
    return variance


def _unit(moments: Moments, variance: Array) -> Array | float:
    """The square of a column's unit."""
    if moments.basis.scaling.kind != "none":
        return 1.0
    mean = moments.centre + moments.mean
    size = np.where(mean != 0.0, np.minimum(np.abs(mean), _LARGEST_UNIT) ** 2, 1.0)
    return np.where(variance > 0.0, variance, size)


def _least_variance(dtype: np.dtype[Any]) -> float:
    """The least variance by which deviations of rows (``Rows`` bounds them) stay within range."""
    return max(
        float(np.finfo(float).tiny / np.finfo(float).eps),
        float(np.power(float(np.finfo(dtype).max), -1.4)),
    )


def _chance(count: float, basis: Basis) -> float:
    """The share of the products of two columns that so many rows may show by chance."""
    one = basis.window == 1
    least = _LEAST_CHANCE if one else _LEAST_CHANCE_OF_WINDOWS
    chance = _CHANCE_ROWS * basis.inputs if one else _CHANCE_ROWS_OF_WINDOWS
    # Nobody has as many rows as have no square, but somebody may say so.
    many = count * (count / (_MANY_ROWS * basis.inputs))
    return max(least, chance / (chance + count + many))


def _products(moments: Moments, variance: Array) -> Array:
    """The products about the mean: C − (sA)ᵀm."""
    A = mixing(moments.basis)
    s_A = moments.s if A is None else moments.s @ A
    products: Array = np.asarray(moments.C, np.float64) - np.outer(s_A, moments.mean)
    # What never moved has no products: far from the centre, their rounding is all there is.
    products[:, variance == 0.0] = 0.0
    if A is None:
        products[variance == 0.0] = 0.0
    return products


def _factor(products: Array, A: Array | None, root: Array) -> tuple[Array, float]:
    """L = chol(U + λI)⁻ᵀ V, where V are the products in units of the root; and λ."""
    V = products / root
    # A share of what the columns' variances alone would give: products may cancel down to rounding.
    if A is None:
        V /= root[:, np.newaxis]
        U, ridge = V, _RIDGE
    else:
        scaled = A * root[:, np.newaxis]
        # SciPy's product: NumPy brings a BLAS of its own, whose threads would get in the way.
        U = dgemm(1.0, V, scaled)
        ridge = _RIDGE * float(np.einsum("ij,ij->", scaled, scaled)) / len(V)
    U = (U + U.T) / 2.0
    # The last is enough for whatever rounding left: no entry is larger than all of them together.
    ridges = [ridge * 10.0**power for power in range(_TRIES)] + [2.0 * float(np.abs(U).sum())]
    for ridge in ridges:
        T = cholesky(U + ridge * np.eye(len(U)))
        if T is not None:
            break
    else:
        raise SingularSystem("the sums hold values that are not finite; they were not learned")
    with one_thread:
        L = np.asarray(dtrsm(1.0, T, np.asfortranarray(V), lower=0, trans_a=1))
    # No more of a column is explained than there is.
    return L / np.sqrt(np.maximum(np.einsum("ij,ij->j", L, L), 1.0)), ridge


def cholesky(A: Array) -> Array | None:
    """Computes the upper factor; None where the matrix is not positive definite."""
    with one_thread:
        T, failed = dpotrf(np.asfortranarray(A), lower=0, clean=1, overwrite_a=1)
    return None if failed or not np.isfinite(T).all() else np.asarray(T)


# Of so many lenders one can be told to be the odd one out.
_ENOUGH = 3


def lent(evidence: Evidence) -> Moments | None:
    """Makes what a device lends to others: how its readings move together, as one row's worth.

    Where they lie, and how far they move, is left out: the sums are about the device's own mean,
    and no column moves by more than a unit (of the scaling; without one, each moves by 1). So what
    is lent by several devices can be added, each counts as much as another, and one that sends
    wrong sums can't drown the others. A device with fewer rows than inputs counts for less. A loss
    has no such sums: there None is lent.
    """
    if not isinstance(evidence, Moments):
        return None
    nothing = zero_evidence(evidence.basis)
    assert isinstance(nothing, Moments), "a distance is made of moments"
    if not evidence.count > 1.0:
        return nothing
    found = correlated(evidence)
    moves = np.minimum(found.deviation, 1.0)
    if evidence.basis.scaling.kind == "none":
        moves = (found.deviation > 0.0).astype(float)
    C = mixed_products(evidence.basis, found.L, found.own, moves)
    weight = evidence.count / (evidence.count + evidence.basis.inputs)
    zero = np.zeros(evidence.basis.inputs)
    return Moments(evidence.basis, weight * C, zero, weight * moves**2, weight)


def lent_together(loans: Iterable[Moments | None]) -> Moments | None:
    """Adds up what several lend; None where nobody lends anything."""
    shares = _shares(loans)
    if not shares:
        return None
    total = Evidence.sum(shares)
    assert isinstance(total, Moments), "a sum of moments"
    return total


def agreed(loans: Iterable[Moments | None]) -> Moments | None:
    """Adds up what several lend, without the one that is least like the rest.

    One lender among a dozen that made its sums up can hide a fault from a device that has seen few
    rows: it lends that what the fault moves moves together. Who is least like the rest is told by
    the median of all, each entry of C by itself. It is one and no more: of two liars one stays, and
    weighs as much as any lender. Of two lenders neither is left out.
    """
    shares = _shares(loans)
    if len(shares) >= _ENOUGH:
        C = np.stack([share.C / share.count for share in shares])
        apart = np.sum((C - np.median(C, axis=0)) ** 2, axis=(1, 2))
        del shares[int(np.argmax(apart))]
    return lent_together(shares)


def _shares(loans: Iterable[Moments | None]) -> list[Moments]:
    return [loan for loan in loans if loan is not None and loan.count > 0.0]
