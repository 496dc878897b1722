"""Sums over many devices, kept ready while they come and go, in which none weighs too much."""

import copy
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.exact import ExactSum, Parts, outer, paired, sliced, through
from elmgrove.algebra.layer import HiddenLayer
from elmgrove.algebra.linalg import EPSILON, EPSILON_32
from elmgrove.algebra.moments import (
    Moments,
    centre_near,
    mixed,
    mixing,
    pack_evidence,
    triangle,
    unpack_evidence,
    zero_evidence,
)
from elmgrove.algebra.rows import Array
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.policy import UNBOUNDED, Terms

Sums = dict[str, ExactSum]
# Beside the arrays, by name: the numbers that are added up as well.
_NUMBERS = "numbers"
#: The most that a row's columns may be on average, squared, where rows are scaled: 1 is usual.
MOST_ENERGY = 1e4


class RunningSum:
    """Σ evidence over devices, each step in the time of one addition, however many there are.

    Nothing is rounded before the sum is given out (``ExactSum``): in whatever order devices come,
    change and go, and however large some are, taking one out leaves the rest as if it had never
    been there.

    Moments are added up about 0. Where rows are not scaled, each device's are lifted there from
    its own centre, and the sum is given out about a centre near its own mean: so
    it does not show who came first, nor how far from the others that one was.
    """

    def __init__(self, basis: Basis) -> None:
        self.basis = basis
        self.devices = 0
        zero = zero_evidence(basis)
        self._numbers = zero.NUMBERS
        self._shapes = {name: array.shape for name, array in pack_evidence(zero)[1].items()}
        self._sums = {name: ExactSum(int(np.prod(shape))) for name, shape in self._shapes.items()}
        self._sums[_NUMBERS] = ExactSum(len(self._numbers))
        self._coarse = 0
        # What the last moments are larger by about 0.
        self._lifts: list[tuple[Evidence, dict[str, Parts]]] = []

    @property
    def nbytes(self) -> int:
        """What it holds."""
        return sum(total.nbytes for total in self._sums.values())

    def add(self, evidence: Evidence) -> None:
        """Adds what a device contributed."""
        self._sums = self._with(evidence, 1.0)
        self._coarse += _is_coarse(evidence)
        self.devices += 1

    def remove(self, evidence: Evidence) -> None:
        """Takes out what a device contributed."""
        self._sums = self._with(evidence, -1.0)
        self._coarse -= _is_coarse(evidence)
        self.devices -= 1

    def change(self, before: Evidence | None, now: Evidence | None) -> None:
        """Replaces what a device contributed before, if anything, by what it contributes now."""
        if now is not None:
            self.add(now)
        if before is not None:
            self.remove(before)

    def evidence(self, *without: Evidence) -> Evidence:
        """Gives the sum now, without some devices that are in it."""
        if without:
            less = copy.copy(self)
            for one in without:
                less.remove(one)
            return less.evidence()
        if self.devices == 0:
            return zero_evidence(self.basis)
        if self.basis.score == "distance":
            return self._moments(self._sums, self._coarse)
        return self._rounded(self._sums, self._coarse, {})

    def _with(self, evidence: Evidence, sign: float) -> Sums:
        self.basis.require(evidence.basis)
        arrays = pack_evidence(evidence)[1]
        arrays[_NUMBERS] = np.array([getattr(evidence, name) for name in self._numbers])
        values = {name: arrays[name].astype(np.float64).ravel() for name in self._sums}
        sums = {name: total.plus(values[name], sign) for name, total in self._sums.items()}
        if not isinstance(evidence, Moments) or not evidence.centre.any():
            return sums
        # A device asks for the sum without what it has just put.
        found = next((lift for one, lift in self._lifts if one is evidence), None)
        if found is None:
            s, count = (ExactSum(len(values[name])).plus(values[name]) for name in ("s", _NUMBERS))
            level = _rows_at(evidence.centre, count)
            found = self._lift(evidence.centre, s, s.plus_products(level), level)
            self._lifts = [*self._lifts[-3:], (evidence, found)]
        return _lifted(sums, found, sign)

    def _lift(self, c: Array, s: ExactSum, t: ExactSum, level: Parts) -> dict[str, Parts]:
        """What moments about 0 are larger by than those about c."""
        at, of_s, of_t = sliced(c), s.sliced(2), t.sliced(3)
        if mixing(self.basis) is None:
            # Of what is symmetric only the upper triangle is packed.
            upper = triangle(self.basis.inputs)
            products = {place: part[upper] for place, part in outer((at, of_s), (of_t, at)).items()}
        else:
            mixtures = (self._mixed(at), of_s), (self._mixed(of_t), at)
            products = {place: part.ravel() for place, part in outer(*mixtures).items()}
        return {"C": products, "s": level, "e": _lifted_squares(c, s, t)}

    def _mixed(self, vector: Parts) -> Parts:
        """A vector of inputs times α."""
        alpha = _slices(self.basis.hidden)
        return ExactSum(mixed(self.basis)).plus_products(through(vector, alpha)).sliced(3)

    def _moments(self, sums: Sums, coarse: int) -> Evidence:
        """The moments about 0 where rows are scaled, else about a centre near their mean."""
        centre = np.zeros(self.basis.inputs)
        if self.basis.scaling.kind == "none" and sums[_NUMBERS].rounded()[0] > 0.0:
            centre = _near_mean(sums["s"], sums["e"], sums[_NUMBERS])
            t, level = sums["s"], _rows_at(centre, sums[_NUMBERS])
            lift = self._lift(centre, t.plus_products(level, -1.0), t, level)
            sums = _lifted(sums, lift, -1.0)
        given = self._rounded(sums, coarse, {"centre": centre})
        # Of what never moved, products with others may have kept some rounding.
        return given.stilled(given.e <= 0.0) if isinstance(given, Moments) else given

    def _rounded(self, sums: Sums, coarse: int, more: dict[str, Array]) -> Evidence:
        arrays = {name: sums[name].rounded().reshape(shape) for name, shape in self._shapes.items()}
        values = np.maximum(sums[_NUMBERS].rounded(), 0.0).tolist()
        fields: dict[str, Any] = dict(zip(self._numbers, values, strict=True))
        if coarse:
            fields["resolution"] = EPSILON_32
        return unpack_evidence(self.basis, fields, arrays | more)


@lru_cache(maxsize=8)
def _slices(hidden: HiddenLayer) -> Parts:
    return sliced(hidden.alpha)


def _rows_at(c: Array, count: ExactSum) -> Parts:
    """The sum N c of so many rows at c."""
    return {place: part[0] for place, part in outer((count.sliced(2), sliced(c))).items()}


def _lifted_squares(c: Array, s: ExactSum, t: ExactSum) -> Parts:
    """What Σ x² is larger by than e."""
    at = sliced(c)
    return paired((at, s.sliced(2)), (t.sliced(3), at))


def _near_mean(t: ExactSum, squares: ExactSum, count: ExactSum) -> Array:
    """Finds a centre near the mean of the rows; however the sum came about, the same."""
    rows, mean = float(count.rounded()[0]), np.zeros(t.size)
    # Twice, so that the mean of equal numbers is that number.
    for _ in range(2):
        s = t.plus_products(_rows_at(mean, count), -1.0)
        mean = mean + s.rounded() / rows
    s = t.plus_products(_rows_at(mean, count), -1.0)
    left = squares.plus_products(_lifted_squares(mean, s, t), -1.0).rounded()
    return centre_near(mean, np.maximum(left, 0.0) / rows)


def _lifted(sums: Sums, lift: dict[str, Parts], sign: float) -> Sums:
    return sums | {name: sums[name].plus_products(lift[name], sign) for name in lift}


def _is_coarse(evidence: Evidence) -> int:
    return int(evidence.resolution > EPSILON)


def weight_in(terms: Terms, evidence: Evidence) -> float:
    """Computes how much evidence counts in a sum, above 0 and at most 1.

    With no more rows than the terms allow. Rows that are far louder than any scaling explains count
    with as much energy as others have, which is 1, and not with the most that may be: that alone
    would hide what the others know of the column. Without a scaling nobody knows how large values
    are to be: then none are too loud.
    """
    rows, most = evidence.count, terms.most_rows
    weight = most / rows if most is not None and rows > most else 1.0
    return weight / evidence.mean_square if _is_too_loud(evidence) else weight


def why_less(terms: Terms, evidence: Evidence) -> str:
    """Says why a device counts with less than it states; nothing where it does not."""
    reasons, most = list[str](), terms.most_rows
    if most is not None and evidence.count > most:
        reasons.append(f"at most {most:,.0f} rows of a device count")
    if _is_too_loud(evidence):
        reasons.append(
            f"a column's mean square is {evidence.mean_square:.3g} a row, where 1 is usual and "
            f"{MOST_ENERGY:g} the most"
        )
    return "; ".join(reasons)


def _is_too_loud(evidence: Evidence) -> bool:
    return evidence.basis.scaling.kind != "none" and evidence.mean_square > MOST_ENERGY


def weighted(terms: Terms, evidence: Evidence) -> Evidence:
    """Gives evidence as it counts in a sum; what is within bounds as it is, to the bit."""
    weight = weight_in(terms, evidence)
    return evidence if weight == 1.0 else evidence.weighted(weight)


def bounded(terms: Terms, contributions: Iterable[Contribution]) -> list[Contribution]:
    """Gives contributions as they count in a sum over them; those within bounds as they are."""
    found = []
    for one in contributions:
        weight = weight_in(terms, one.evidence)
        parts = tuple(part.weighted(weight) for part in one.parts)
        found.append(one if weight == 1.0 else replace(one, parts=parts))
    return found


class BoundedSum:
    """Σ evidence over devices by name, each as it counts by the terms."""

    def __init__(self, basis: Basis, terms: Terms = UNBOUNDED) -> None:
        self.basis = basis
        self._terms = terms
        self._running = RunningSum(basis)
        self._names = set[str]()
        #: The weight of each device that counts with less than it states, and why.
        self.less = dict[str, tuple[float, str]]()

    def __copy__(self) -> "BoundedSum":
        made = BoundedSum(self.basis, self._terms)
        made._running, made._names = copy.copy(self._running), set(self._names)
        made.less = dict(self.less)
        return made

    def __contains__(self, origin: str) -> bool:
        """Says whether a device is in the sum."""
        return origin in self._names

    @property
    def names(self) -> list[str]:
        """The devices in the sum."""
        return sorted(self._names)

    @property
    def devices(self) -> int:
        """How many devices are in the sum."""
        return len(self._names)

    @property
    def nbytes(self) -> int:
        """What it holds."""
        return self._running.nbytes

    def change(self, origin: str, before: Evidence | None, now: Evidence | None) -> None:
        """Replaces what a device contributed before, if anything, by what it contributes now."""
        # First all that can fail.
        running = copy.copy(self._running)
        running.change(*(None if one is None else self._weighted(one) for one in (before, now)))
        self._running = running
        self.less.pop(origin, None)
        if now is None:
            self._names.discard(origin)
            return
        self._names.add(origin)
        if (weight := weight_in(self._terms, now)) < 1.0:
            self.less[origin] = weight, why_less(self._terms, now)

    def evidence(self, *without: Evidence) -> Evidence:
        """Gives the sum now, without what these devices stated of it."""
        return self._running.evidence(*map(self._weighted, without))

    def _weighted(self, evidence: Evidence) -> Evidence:
        return weighted(self._terms, evidence)
