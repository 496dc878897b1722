"""The rules of the upload guard: how many new rows hide each other, however they were learned."""

import math

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments, mixing, numbers_in
from elmgrove.algebra.rows import Array
from elmgrove.algebra.unsent import ROWS_ALIKE, inputs_held_back


def least_new_rows(basis: Basis) -> float:
    """Counts the rows between two uploads below which the difference could give them away.

    The difference of two evidences shows as many numbers as an upload has: Ñ(Ñ + 1)/2 of U and
    Ñ·n of V, or those of C, s and e (the centre follows from them); k rows of as many columns as a
    row has are k times that many unknowns, however wide a window is. From k = numbers / columns
    rows on there are at least as many unknowns as numbers. With windows, so many must have come
    that enough of them can be held back. Units of relu are exactly 0 in many rows, so that what one
    row activates can be read off the sums: there no number is enough. That is counting, not a proof
    of privacy: what many rows have in common can be seen in any upload.
    """
    if basis.layer.activation == "relu":
        return math.inf
    counted = math.ceil(numbers_in(basis) / basis.layer.inputs)
    return max(counted, inputs_held_back(basis) * basis.window)


def rows_until(least: float, weight: float, forgetting: float) -> float:
    """Counts the rows to come until all new ones weigh enough; infinite if they never will.

    ``weight`` is what those weigh that have come. Rows that are forgotten hide others less: so
    many of weight w hide each other as well as Σw / max w equal ones do, for the newest of them,
    which weighs the most, has no larger share of the difference than one of so many has. With
    forgetting φ that is 1 + φ + φ² + …, and never more than 1 / (1 − φ).
    """
    if weight >= least * (1.0 - 1e-12):
        return 0
    if least == math.inf:
        return math.inf
    if forgetting == 1.0:
        return math.ceil(least - weight - 1e-9)
    most = 1.0 / (1.0 - forgetting)
    if least >= most:
        return math.inf
    # φᵐ weight + (1 − φᵐ) most ≥ least
    return max(math.ceil(math.log((most - least) / (most - weight), forgetting) - 1e-9), 1)


def least_forgetting(basis: Basis) -> float:
    """Finds a forgetting, rounded up, with which new rows can weigh enough."""
    least = least_new_rows(basis)
    unit = 10.0 ** -(len(str(least)) + 1)
    return math.ceil((1.0 - 1.0 / (least + 1)) / unit) * unit


def columns_covered(
    known: Moments, given: Evidence | None, still: tuple[Array, Array, Array], *, alone: bool
) -> bool:
    """Says whether sums over rows that nobody followed show nothing of few of them by a column.

    ``still`` has what columns with few values are not moved in by the rows that came since then
    (``FewValues.still``); ``given`` is what was given away before. What f singles out is Σ f(x) x:
    that must be as it was given away. Where rows are ``alone``, with none given away before, one
    column may differ if so many rows must have made it that they hide each other: m rows of any
    values have (Σ f)² ≤ m Σ f².
    """
    places, usual, combinations = still
    centre = np.array(known.centre)
    centre[places] = usual
    now = known.about(centre)
    before = now.weighted(0.0) if given is None else now.aligned(given)
    A = mixing(known.basis)
    size = np.sqrt(np.maximum(known.e, 0.0) + known.count * np.square(centre - known.centre))
    size += np.sqrt(known.count) * 1e-9
    mixed = size if A is None else size @ np.abs(A)
    C, s = now.C - before.C, now.s - before.s
    first = np.column_stack([s if A is None else s @ A, C[:, places]])
    for f in combinations:
        rounding = 1e-9 * float(np.abs(f) @ np.append(np.sqrt(known.count), size[places]))
        if (np.abs(first @ f) <= rounding * mixed).all():
            continue
        (moved,) = single if len(single := np.flatnonzero(f)) == 1 else (0,)
        if not alone or not moved:
            return False
        place = places[moved - 1]
        if now.s[place] ** 2 < ROWS_ALIKE * now.e[place] * (1.0 - 1e-9):
            return False
    return True
