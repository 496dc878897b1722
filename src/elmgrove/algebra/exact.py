"""Exact sums: of float64 without any rounding, so that what is taken out again leaves no trace."""

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from elmgrove.algebra.rows import Array

# A bin holds multiples of its unit, of one number at most 2³⁶: 2¹⁷ such numbers are 53 bits.
_BIN, _MOST_ADDENDS = 36, 2**16
# A slice has half as many bits, so that a sum of products of two of them is exact as well. One of
# up to 2⁶ numbers of a bin's size is what products of slices at one place are.
_SLICE, _PRODUCTS = _BIN // 2, 2**6
# The places at which float64 can round; what is beyond either end has few bits anyway.
_LOWEST, _HIGHEST = -1074, 972

#: Parts of numbers by their place: multiples of 2 to the power of it.
Parts = Mapping[int, Array]


class ExactSum:
    """A sum of vectors of float64 that is never rounded, however many there are and how large.

    Each number is cut into multiples of 2³⁶ᵏ, and those of one k are added up in a bin of their
    own (a superaccumulator, as Kulisch's): every addition there is exact, so a sum does not depend
    on the order, and something 1e60 times as large comes and goes without a trace. It costs about
    three passes over the numbers, and another one for each 36 bits that these are apart.
    It does not change: adding makes another one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._bins: Parts = {}
        self._addends = 0

    def plus(self, values: Array, sign: float = 1.0) -> "ExactSum":
        return self._with(_cut(values, _BIN), sign, 1)

    def plus_products(self, products: Parts, sign: float = 1.0) -> "ExactSum":
        """Adds what ``outer``, ``paired`` or ``through`` gave, or subtracts it."""
        return self._with(products.items(), sign, _PRODUCTS)

    def _with(self, parts: Iterable[tuple[int, Array]], sign: float, addends: int) -> "ExactSum":
        made, held = ExactSum(self.size), dict(self._bins)
        made._addends = self._addends + addends
        for place, part in parts:
            signed = part if sign > 0 else -part
            held[place] = held[place] + signed if place in held else signed
        # What was not added to is not 0 now.
        made._bins = {
            place: one for place, one in held.items() if one is self._bins.get(place) or one.any()
        }
        return made if made._addends <= _MOST_ADDENDS else made._settled()

    def _settled(self) -> "ExactSum":
        """This sum, with what has grown beyond the width of a bin carried to the next one."""
        made = ExactSum(self.size)
        for held in self._bins.values():
            made = made.plus(held)
        return made

    @property
    def nbytes(self) -> int:
        return 8 * self.size * len(self._bins)

    def rounded(self) -> Array:
        """Gives the nearest float64, or its neighbour where two are about as near."""
        high, low = np.zeros(self.size), np.zeros(self.size)
        for place in sorted(self._bins, reverse=True):
            # With what each addition rounds away (Knuth's TwoSum) carried along.
            held = self._bins[place]
            total = high + held
            moved = total - high
            low = low + ((high - (total - moved)) + (held - moved))
            high = total
        return high + low

    def sliced(self, numbers: int) -> Parts:
        """Cuts the sums for products: so many float64 of each, the largest first, are enough."""
        found, rest = dict[int, Array](), self
        for _ in range(numbers):
            nearest = rest.rounded()
            rest = rest.plus(nearest, -1.0)
            for place, part in _cut(nearest, _SLICE):
                found[place] = found[place] + part if place in found else part
        return found


def sliced(values: Array) -> Parts:
    """Cuts numbers into slices of so few bits that products of them are exact."""
    return dict(_cut(values, _SLICE))


def outer(*factors: tuple[Parts, Parts]) -> Parts:
    """Multiplies all numbers of one side by all of the other, and adds up several such products."""
    return {
        place: np.stack(left).T @ np.stack(right) for place, (left, right) in _by_place(factors)
    }


def paired(*factors: tuple[Parts, Parts]) -> Parts:
    """Multiplies number by number, and adds up several such products."""
    return {
        place: np.einsum("ki,ki->i", np.stack(left), np.stack(right))
        for place, (left, right) in _by_place(factors)
    }


def through(vector: Parts, A: Parts) -> Parts:
    return {
        place: np.hstack(left) @ np.vstack(right)
        for place, (left, right) in _by_place([(vector, A)])
    }


def _by_place(
    factors: Iterable[tuple[Parts, Parts]],
) -> Iterable[tuple[int, tuple[list[Array], list[Array]]]]:
    """The slices whose products stand at the same place, and so can be added up as they are."""
    found = dict[int, tuple[list[Array], list[Array]]]()
    for left, right in factors:
        for one, a in left.items():
            for other, b in right.items():
                lefts, rights = found.setdefault(one + other, ([], []))
                lefts.append(a)
                rights.append(b)
    return found.items()


def _cut(values: Array, bits: int) -> Iterator[tuple[int, Array]]:
    """Cuts numbers into parts, the largest first: a place, and multiples of 2 to the power of it.

    Places are multiples of ``bits``, and at most 2 to the power of ``bits`` of them are in a part.
    """
    largest = float(np.abs(values).max(initial=0.0))
    place = min(bits * (math.frexp(largest)[1] // bits), _HIGHEST)
    while values.any():
        if place < _LOWEST:
            yield place, values
            return
        # Where a float64 has this place last, adding rounds to it; the difference is exact.
        shift = 1.5 * 2.0 ** (52 + place)
        part = (values + shift) - shift
        yield place, part
        values = values - part
        place -= bits
