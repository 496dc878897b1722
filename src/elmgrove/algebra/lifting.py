"""Lifting: moments about a centre c as moments about 0, so precisely that nothing is lost by it.

x = y + c: with s about c and t = s + N c about 0, Σ x² is larger than e by c s + t c, and
Σ (xA)ᵀx larger than C by (cA)ᵀs + (tA)ᵀc. A deviation may be 2⁻⁵³ of a column's level, and its
square 2⁻¹⁰⁶ of what is computed here: three float64 for t keep 2⁻¹⁵⁰ of that.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.exact import ExactSum, Parts, outer, paired, sliced, through
from elmgrove.algebra.layer import HiddenLayer
from elmgrove.algebra.moments import mixed, mixing
from elmgrove.algebra.rows import Array

Indices = NDArray[np.intp]


def rows_at(c: Array, count: ExactSum) -> Parts:
    """Gives the sum N c of so many rows at c."""
    return {place: part[0] for place, part in outer((count.sliced(2), sliced(c))).items()}


def lifted_squares(c: Array, s: ExactSum, t: ExactSum) -> Parts:
    """Gives what Σ x² is larger by than e."""
    at = sliced(c)
    return paired((at, s.sliced(2)), (t.sliced(3), at))


def lifted_products(basis: Basis, c: Array, s: ExactSum, t: ExactSum) -> Parts:
    """Gives what Σ (xA)ᵀx is larger by than C, packed like it."""
    at, of_s, of_t = sliced(c), s.sliced(2), t.sliced(3)
    if mixing(basis) is None:
        rows, columns = _triangle(basis.inputs)
        products = outer((at, of_s), (of_t, at))
        return {place: part[rows, columns] for place, part in products.items()}
    products = outer((_through(basis, at), of_s), (_through(basis, of_t), at))
    return {place: part.ravel() for place, part in products.items()}


def _through(basis: Basis, vector: Parts) -> Parts:
    mixtures = ExactSum(mixed(basis)).plus_products(through(vector, _slices(basis.hidden)))
    return mixtures.sliced(3)


@lru_cache(maxsize=8)
def _triangle(inputs: int) -> tuple[Indices, Indices]:
    rows, columns = np.triu_indices(inputs)
    return rows, columns


@lru_cache(maxsize=8)
def _slices(hidden: HiddenLayer) -> Parts:
    return sliced(hidden.alpha)
