"""Solving with U + λI by Cholesky, with a failure that names its likely causes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpocon, dpotrf, dpotri, dpotrs

from elmgrove.algebra.blas import one_thread
from elmgrove.errors import BadInput, SingularSystem

Matrix = NDArray[np.float64]

_CAUSES = (
    "Likely causes: fewer rows than hidden units with ridge 0; inputs that are constant or "
    "copies of each other; columns of very different size (scale them); a ridge far too small "
    "for this data."
)

# Rounding errors in a sum of many rows, in machine epsilons of its largest entry.
_VISIBLE = 32.0
# A ridge of this share of the largest entry would hide most of what was learned.
_HOPELESS = 0.01


def epsilon(dtype: Any) -> float:
    """Gives the machine epsilon of a dtype."""
    return float(np.finfo(dtype).eps)


class Factor:
    """The Cholesky factor of U + λI, from the upper triangle of U, always in float64.

    λ is used as it is: where U + λI has no usable inverse, that is an error.
    """

    def __init__(self, U: NDArray[Any], ridge: float) -> None:
        self.ridge = ridge
        A = np.array(U, np.float64, order="F")
        if not np.isfinite(A[np.triu_indices_from(A)]).all():
            raise SingularSystem("the sums hold values that are not finite; they were not learned")
        A[np.diag_indices_from(A)] += ridge
        norm = _norm1(A)
        # A matrix of this size is factored sooner by one thread than by several.
        with one_thread:
            self._C, failed = dpotrf(A, lower=0, clean=0, overwrite_a=1)
            reciprocal = 0.0 if failed else float(dpocon(self._C, norm, uplo="U")[0])
        #: 1 by the condition: of what is solved, the share that rounding leaves is about ε by this.
        self.reciprocal = reciprocal
        if not reciprocal > epsilon(np.float64):
            raise SingularSystem(
                f"the system of {len(A)} hidden units with ridge {ridge:g} is singular "
                f"(reciprocal condition {reciprocal:.1e}), though all input was finite. {_CAUSES}"
            )

    def solve(self, B: NDArray[Any]) -> Matrix:
        """Computes (U + λI)⁻¹ B."""
        with one_thread:
            X: Matrix = dpotrs(self._C, B, lower=0)[0]
        return X

    def inverse(self) -> Matrix:
        """Computes (U + λI)⁻¹, of which only the upper triangle may be read."""
        with one_thread:
            P: Matrix = dpotri(self._C, lower=0)[0]
        return P


def visible(largest: float, resolution: float) -> float:
    """Computes the least ridge that shows beside the largest entry of sums of this resolution."""
    return _VISIBLE * resolution * largest


def require_ridge(ridge: float) -> None:
    """Raises ``BadInput`` unless the number can serve as ridge λ."""
    if not 0.0 <= ridge < np.inf:
        raise BadInput(f"ridge must be a finite number of at least 0, not {ridge!r}")


def regularized(U: NDArray[Any], ridge: float, resolution: float) -> Factor:
    """Factors U + λI for sums that were rounded to ``resolution``.

    A ridge of 0 stays 0. Another is raised to what rounding leaves visible in U: below that it
    would regularize nothing. That suffices for rows that differ; equal rows round in the same
    direction each time, and then the ridge is raised until it covers the error.
    """
    require_ridge(ridge)
    largest = float(U.diagonal().max())
    raised = max(ridge, visible(largest, resolution)) if ridge > 0 else 0.0
    while True:
        try:
            return Factor(U, raised)
        except SingularSystem:
            if not 0.0 < raised < _HOPELESS * largest:
                raise
            raised *= 4.0


def _norm1(A: Matrix) -> float:
    """The largest column sum of a symmetric matrix of which only the upper triangle is set."""
    size = np.abs(np.triu(A))
    return float((size.sum(axis=0) + size.sum(axis=1) - size.diagonal()).max())


def mirrored(upper: NDArray[Any]) -> NDArray[Any]:
    """Makes the full symmetric matrix of its upper triangle."""
    full: NDArray[Any] = np.triu(upper) + np.triu(upper, 1).T
    return full
