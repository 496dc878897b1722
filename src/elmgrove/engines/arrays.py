"""β and P as arrays of a message."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.cholesky import mirrored
from elmgrove.algebra.fed_elms import State
from elmgrove.errors import BadInput

Array = NDArray[Any]


def pack_model(model: State) -> dict[str, Array]:
    """β, and P's upper triangle: P is symmetric."""
    return {"beta": model.beta, "P": model.P[np.triu_indices(len(model.P))]}


def unpack_model(basis: Basis, arrays: Mapping[str, Array]) -> State:
    """The inverse of ``pack_model``; ``BadInput`` unless it fits the basis and is finite."""
    units = basis.layer.units
    beta, upper = arrays["beta"], arrays["P"]
    # Before anything of that size is made: the numbers may come from a stranger.
    if beta.shape != (units, basis.outputs) or upper.shape != (units * (units + 1) // 2,):
        raise BadInput(f"β {beta.shape} and P {upper.shape} do not fit {units} hidden units")
    if not all(part.dtype == np.float64 and np.isfinite(part).all() for part in (beta, upper)):
        raise BadInput("β and P must be finite numbers in float64")
    P = np.zeros((units, units))
    P[np.triu_indices(units)] = upper
    return State(beta, mirrored(P))
