"""Admission: whether sums can come from rows, whichever device sends them."""

from typing import NamedTuple

import numpy as np

from elmgrove.algebra.linalg import Factor, epsilon
from elmgrove.algebra.rows import Array
from elmgrove.errors import SingularSystem


class Admission(NamedTuple):
    """Whether evidence can come from rows, and if not, why; true or false by itself."""

    admissible: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.admissible


class Size(NamedTuple):
    """The size of the sums that rounding is a share of, and their resolution."""

    U: float
    energy: float
    rows: float
    resolution: float


def judged(
    U: Array,
    V: Array,
    energy: float,
    count: float,
    bound: float | None,
    size: Size,
    tolerance: float | None,
) -> Admission:
    """Checks whether U, V, energy and count can be sums over rows, up to rounding.

    Every sum over rows passes. What passes need not be one: a device that lies and knows these
    rules can make sums that pass.
    """
    if tolerance is None:
        # Rounding of the sum as a share of its largest entry: equal rows round alike each time,
        # so it grows with their number. But that number is only claimed: it excuses up to a limit.
        tolerance = min((64.0 * len(U) + size.rows) * size.resolution, size.resolution**0.4)
    # What overflows is infinite, or no number at all, and passes no comparison.
    with np.errstate(over="ignore", invalid="ignore"):
        reason = _first_reason(U, V, energy, count, bound, size, tolerance)
    return Admission(reason is None, reason or "")


def _first_reason(
    U: Array,
    V: Array,
    energy: float,
    count: float,
    bound: float | None,
    size: Size,
    tolerance: float,
) -> str | None:
    if not (np.isfinite(U).all() and np.isfinite(V).all() and np.isfinite([energy, count]).all()):
        return "U, V, energy or count is not finite"
    if energy < -tolerance * max(size.energy, 0.0) or count < -tolerance * max(size.rows, 0.0):
        return f"energy ({energy:g}) and count ({count:g}) can't be negative"
    diagonal = U.diagonal().astype(np.float64)
    slack = tolerance * size.U
    if np.abs(U - U.T).max() > slack:
        return "U is not symmetric"
    if diagonal.min() < -slack:
        return f"U has a negative diagonal entry ({diagonal.min():g})"
    if bound is not None and diagonal.max() > count * bound**2 + slack:
        return (
            f"U has a diagonal entry of {diagonal.max():g}, but {count:g} rows of hidden outputs "
            f"up to {bound:g} can't give more than {count * bound**2:g}"
        )
    if slack == 0.0:
        return None if not V.any() else "V is not 0 though U is"
    return _spectral_reason(U, V, energy + np.sqrt(tolerance) * size.energy, energy, slack)


def _spectral_reason(U: Array, V: Array, most: float, energy: float, slack: float) -> str | None:
    try:
        factor = Factor(U, slack)
    except SingularSystem:
        return "U is not positive semidefinite"
    # tr(Vᵀ(U + λI)⁻¹V) ≤ energy: what the hidden outputs explain of the targets is part of them
    explained = float(np.einsum("ij,ij->", V, factor.solve(V)))
    if not explained <= most:
        return f"V claims to explain {explained:g} of the targets' energy, which is {energy:g}"
    return None


# Squares of this size and less are not exact any more.
_BELOW_RANGE = {
    epsilon(dtype): float(np.finfo(dtype).tiny / np.finfo(dtype).eps)
    for dtype in (np.float64, np.float32)
}


class MomentSize(NamedTuple):
    """The squares and the rows that rounding is a share of, and the resolution."""

    e: Array
    rows: float
    resolution: float


def judged_moments(
    C: Array,
    s: Array,
    e: Array,
    count: float,
    centre: Array,
    A: Array | None,
    size: MomentSize,
    tolerance: float | None,
) -> Admission:
    """Checks whether C, s, e and count can be sums over rows that A mixes, up to rounding."""
    if tolerance is None:
        # As in ``judged``.
        tolerance = min((64.0 * len(C) + size.rows) * size.resolution, size.resolution**0.4)
    with np.errstate(over="ignore", invalid="ignore"):
        reason = _moment_reason(C, s, e, count, centre, size, tolerance)
        if reason is None:
            reason = _product_reason(np.asarray(C, np.float64), e, A, size, tolerance)
    return Admission(reason is None, reason or "")


def _moment_reason(
    C: Array, s: Array, e: Array, count: float, centre: Array, size: MomentSize, tolerance: float
) -> str | None:
    if not all(np.isfinite(array).all() for array in (C, s, e, centre, count)):
        return "C, s, e, count or the centre is not finite"
    if count < -tolerance * max(size.rows, 0.0):
        return f"count ({count:g}) can't be negative"
    slack = tolerance * np.maximum(size.e, 0.0)
    if (e < -slack).any():
        return f"e has a negative entry ({e.min():g})"
    # (Σ y)² ≤ N Σ y²
    rows = max(count, 0.0) + tolerance * max(size.rows, 0.0)
    most = np.sqrt(np.maximum(e, 0.0) + 2.0 * slack + _BELOW_RANGE[size.resolution])
    if not (np.abs(s) <= (1.0 + tolerance) * np.sqrt(rows) * most).all():
        return f"s is larger than {count:g} rows with these squares can add up to"
    return None


def _product_reason(
    C: Array, e: Array, A: Array | None, size: MomentSize, tolerance: float
) -> str | None:
    """What is wrong with C: not symmetric, not semidefinite, or more than the squares allow."""
    # A column without squares has no products either, but for those of values below range.
    unit = np.sqrt(np.maximum(size.e, _BELOW_RANGE[size.resolution]))
    C = C / unit
    if A is None:
        C /= unit[:, np.newaxis]
        if not np.abs(C.diagonal() - e / unit**2).max() <= np.sqrt(tolerance):
            return "C's diagonal is not e"
        U = C
    else:
        # |Σ_j y_j α_ji| of one row is at most Σ_j |y_j| |α_ji|
        weights = unit @ np.abs(A)
        C /= weights[:, np.newaxis]
        U = C @ (unit[:, np.newaxis] * (A / weights))
    if not np.abs(C).max() <= 1.0 + np.sqrt(tolerance):
        return "C has an entry that is larger than the squares allow"
    if not np.abs(U - U.T).max() <= np.sqrt(tolerance):
        return "C is not symmetric where it must be"
    U = (U + U.T) / 2.0
    if not np.linalg.eigvalsh(U)[0] >= -len(U) * tolerance:
        return "C is not positive semidefinite"
    return None if A is None else _explained_reason(C, U, e / unit**2, tolerance)


def _explained_reason(C: Array, U: Array, e: Array, tolerance: float) -> str | None:
    # C_jᵀ(U + λI)⁻¹C_j ≤ e_j: what the mixtures explain of a column is part of it
    ridge = 4.0 * len(U) * max(tolerance, np.finfo(float).eps)
    explained = np.einsum("ij,ij->j", C, np.linalg.solve(U + ridge * np.eye(len(U)), C))
    if not (explained <= e + np.sqrt(tolerance)).all():
        return "C claims to explain more of a column than there is"
    return None
