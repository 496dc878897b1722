"""Pairs: numbers of 106 bits, each a float64 and what it rounded away; and moments of such."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.moments import mixed, mixing
from elmgrove.algebra.rows import Array

#: A sum of two rounds by at most this share of the larger one.
STEP = 2.0**-104
# 2²⁷ + 1 splits a float64 into two halves whose products are exact (Veltkamp).
_SPLIT = 134217729.0
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Pairs:
    """An array of numbers, each of which is the sum of two float64."""

    high: Array
    low: Array

    @classmethod
    def of(cls, values: Any) -> "Pairs":
        """Makes pairs of numbers that nothing was rounded away from."""
        high = np.asarray(values, np.float64)
        return cls(high, np.zeros_like(high))

    def __getitem__(self, index: Any) -> "Pairs":
        return Pairs(self.high[index], self.low[index])

    def __neg__(self) -> "Pairs":
        return Pairs(-self.high, -self.low)

    def __add__(self, other: "Pairs") -> "Pairs":
        """Adds, with what each addition rounds away (Knuth's TwoSum) carried along."""
        total = self.high + other.high
        moved = total - self.high
        lost = (self.high - (total - moved)) + (other.high - moved) + (self.low + other.low)
        return _settled(total, lost)

    def __sub__(self, other: "Pairs") -> "Pairs":
        return self + -other

    def __mul__(self, other: "Pairs") -> "Pairs":
        """Multiplies, with what the product rounds away (Dekker) carried along."""
        product = self.high * other.high
        (a, b), (c, d) = _halves(self.high), _halves(other.high)
        lost = ((a * c - product) + a * d + b * c) + b * d
        return _settled(product, lost + (self.high * other.low + self.low * other.high))

    def __matmul__(self, A: Array) -> "Pairs":
        """Multiplies a vector by a matrix of plain numbers."""
        terms = self[:, np.newaxis] * Pairs.of(A)
        while len(terms.high) > 1:
            half = (len(terms.high) + 1) // 2
            rest = terms[half:]
            missing = half - len(rest.high)
            low = np.pad(rest.low, ((0, missing), (0, 0)))
            terms = terms[:half] + Pairs(np.pad(rest.high, ((0, missing), (0, 0))), low)
        return terms[0]


def _settled(total: Array, lost: Array) -> Pairs:
    rounded = total + lost
    return Pairs(rounded, lost - (rounded - total))


def _halves(values: Array) -> tuple[Array, Array]:
    spread = _SPLIT * values
    upper = spread - (spread - values)
    return upper, values - upper


# Moments as ``pack_evidence`` orders them: C, s, e; and their count


def moved(basis: Basis, sums: Pairs, delta: Pairs) -> Pairs:
    """Moves the centre of moments by δ, as the same rows would have given them there.

    Moved as plain numbers, rows far from the centre would lose what a part in 1e16 is of δ².
    """
    inputs, A = basis.inputs, mixing(basis)
    left, right = _places(mixed(basis), inputs, A is None)
    size = len(left)
    C, count = sums[:size], sums[-1]
    s, e = sums[size : size + inputs], sums[size + inputs : -1]
    # With y' = y − δ: s' = s − Nδ, e' = e − δ(s + s'), C' = C − (δA)ᵀs − (s'A)ᵀδ.
    s_there = s - count * delta
    e_there = e - delta * (s + s_there)
    delta_A, s_A = (delta, s_there) if A is None else (delta @ A, s_there @ A)
    C_there = C - delta_A[left] * s[right] - s_A[left] * delta[right]
    parts = (C_there, s_there, e_there, sums[-1:])
    return Pairs(*(np.concatenate([getattr(p, end) for p in parts]) for end in ("high", "low")))


@lru_cache(maxsize=8)
def _places(mixtures: int, inputs: int, symmetric: bool) -> tuple[Indices, Indices]:
    """The mixture and the input whose product stands at each place of a packed C."""
    if symmetric:
        left, right = np.triu_indices(inputs)
        return left, right
    places = np.arange(mixtures * inputs)
    return places // inputs, places % inputs
