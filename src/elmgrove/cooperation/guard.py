"""The upload guard: how many new rows an upload must cover."""

import math

from elmgrove.algebra.basis import Basis


def least_new_rows(basis: Basis) -> int:
    """Rows between two uploads below which they could be computed from the difference.

    The difference of two evidences shows Ñ(Ñ + 1)/2 numbers of U and Ñ·n of V; k rows of n
    values are k·n unknowns. From k = Ñ + Ñ(Ñ + 1)/(2n) rows on there are at least as many
    unknowns as numbers. That is counting, not a proof of privacy: what many rows have in
    common can be seen in any upload.
    """
    units, inputs = basis.layer.units, basis.layer.inputs
    return math.ceil(units + units * (units + 1) / (2 * inputs))
