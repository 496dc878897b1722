"""Sums that are computed back from P and β, for a node that has nothing else."""

from typing import NamedTuple

import numpy as np

from elmgrove.algebra.cholesky import Factor, epsilon, mirrored, require_ridge
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput, NotAdmissible, SingularSystem

#: The share of U that P's rounding may take with it.
_LOST = 1e-6
# How many times what rounding makes of one number it may make of a square.
_ROUNDED = 64.0


class Recovered(NamedTuple):
    """U and V as P and β have them, and the least energy that targets with this V have."""

    U: Array
    V: Array
    energy: float


def recovered(P: Array, beta: Array, ridge: float) -> Recovered:
    """Computes U and V of the model that P and β are, learned with this ridge.

    Equation (13) of Ito 2020, U = P⁻¹ and V = Uβ, where P holds a ridge as well. Relative to its
    largest entry U is off by about ε times the condition of P, and more where the ridge is larger
    than U: where that is more than 1e-6, or P is not positive definite, it raises
    ``SingularSystem``. ``NotAdmissible`` where U would have negative squares: then P was learned
    with less ridge than is said.
    """
    require_ridge(ridge)
    P, beta = np.asarray(P), np.asarray(beta)
    if P.ndim != 2 or P.shape[0] != P.shape[1] or beta.shape[:1] != P.shape[:1]:
        raise BadInput(f"P {P.shape} and β {beta.shape} must have a row for each hidden unit")
    if not (np.isfinite(P).all() and np.isfinite(beta).all()):
        raise BadInput("P and β must be finite numbers")
    factor = _factor(P)
    inverse = mirrored(factor.inverse())
    # (13)
    U, V = inverse - ridge * np.eye(len(P)), inverse @ beta
    squares, Q = np.linalg.eigh(U)
    rounding = epsilon(P.dtype) / factor.reciprocal * float(inverse.diagonal().max())
    _require_sums(float(squares[0]), float(squares[-1]), rounding, ridge)
    # Directions that no row has have no squares, and rounding makes some of them negative.
    seen = squares > 0.0
    squares, Q = squares[seen], Q[:, seen]
    W = Q.T @ V
    # V = Hᵀt with U = HᵀH: what H explains of the targets is part of their energy.
    explained = float((W * W / squares[:, np.newaxis]).sum())
    return Recovered(_symmetric((Q * squares) @ Q.T), Q @ W, explained)


def _factor(P: Array) -> Factor:
    try:
        return Factor(P, 0.0)
    except SingularSystem as error:
        raise SingularSystem(f"P has no inverse, so there are no sums in it: {error}") from error


def _require_sums(least: float, largest: float, rounding: float, ridge: float) -> None:
    """Raises unless squares are those of rows but for rounding, which takes little of them."""
    if least < -_ROUNDED * rounding or largest <= 0.0:
        raise NotAdmissible(
            f"P⁻¹ less a ridge of {ridge:g} has negative squares: no rows have this P; was it "
            "learned with a smaller ridge?"
        )
    if rounding > _LOST * largest:
        raise SingularSystem(
            "P is too ill-conditioned to be turned back into sums: rounding would take "
            f"{rounding / largest:.0e} of them, and at most {_LOST:g} may be lost. Learn with "
            "another ridge, scale the columns, or send U and V"
        )


def _symmetric(U: Array) -> Array:
    made: Array = (U + U.T) / 2.0
    return made
