"""A positive definite matrix in 8 bits: by its Cholesky factor, so that it stays one."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.compact.quantized import Quantized
from elmgrove.errors import BadInput, SingularSystem

Array = NDArray[Any]


def factored(P: Array) -> Quantized:
    """C of P = CCᵀ, a scale for each column; ``SingularSystem`` if P is not positive definite.

    Quantizing P itself takes 16 bits: in 8, its small eigenvalues drown in the error of the large
    ones and turn negative (measured on MNIST from 500 units on). CCᵀ can't be negative.
    """
    try:
        C = np.linalg.cholesky(P)
    except np.linalg.LinAlgError as error:
        raise SingularSystem(f"P is not positive definite: {error}") from error
    found = Quantized.of(C, by_column=True)
    # A diagonal that is rounded to 0 would make P singular.
    places = np.diag_indices_from(C)
    found.values[places] = np.maximum(found.values[places], 1)
    return found


def product(C: Quantized) -> Array:
    """P = CCᵀ."""
    matrix = C.matrix
    P: Array = matrix @ matrix.T
    return P


def packed(C: Quantized) -> Array:
    """The lower triangle row by row: the rest is 0."""
    values: Array = C.values[np.tril_indices(len(C.values))]
    return values


def unpacked(lower: Array, scale: Array, units: int) -> Quantized:
    """The inverse of ``packed``; ``BadInput`` for what ``factored`` never makes."""
    # Before anything of that size is made: the numbers may come from a stranger.
    if lower.shape != (units * (units + 1) // 2,):
        raise BadInput(f"{lower.shape} is not the lower triangle of {units} × {units}")
    values = np.zeros((units, units), lower.dtype)
    values[np.tril_indices(units)] = lower
    if not (values.diagonal() > 0).all():
        raise BadInput("the diagonal of a Cholesky factor is above 0")
    return Quantized(values, scale)
