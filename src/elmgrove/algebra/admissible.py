"""Whether evidence can be a sum over rows: what must hold for all that a device sends."""

from typing import NamedTuple

import numpy as np

from elmgrove.algebra.cholesky import Factor
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


def admissible(
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
