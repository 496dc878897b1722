"""Sums over many devices, kept ready while they come and go, in which none weighs too much."""

import copy
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.exact import ExactSum, Parts
from elmgrove.algebra.linalg import EPSILON, EPSILON_32
from elmgrove.algebra.moments import (
    Moments,
    centre_near,
    lifted_products,
    lifted_squares,
    pack_evidence,
    rows_at,
    unpack_evidence,
    zero_evidence,
)
from elmgrove.algebra.rows import Array
from elmgrove.federation.contribution import Contribution
from elmgrove.federation.terms import UNBOUNDED, Terms

Sums = dict[str, ExactSum]
# Beside the arrays, by name: the numbers that are added up as well.
_NUMBERS = "numbers"


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

    def evidence(self, without: Evidence | None = None) -> Evidence:
        """Gives the sum now, without one device that is in it."""
        sums, devices, coarse = self._sums, self.devices, self._coarse
        if without is not None:
            sums = self._with(without, -1.0)
            devices, coarse = devices - 1, coarse - _is_coarse(without)
        if devices == 0:
            return zero_evidence(self.basis)
        if self.basis.score == "distance":
            return self._moments(sums, coarse)
        return self._rounded(sums, coarse, {})

    def _with(self, evidence: Evidence, sign: float) -> Sums:
        self.basis.require(evidence.basis)
        arrays = pack_evidence(evidence)[1]
        arrays[_NUMBERS] = np.array([getattr(evidence, name) for name in self._numbers])
        values = {name: arrays[name].astype(np.float64).ravel() for name in self._sums}
        sums = {name: total.plus(values[name], sign) for name, total in self._sums.items()}
        if not isinstance(evidence, Moments) or not evidence.centre.any():
            return sums
        s, count = (ExactSum(len(values[name])).plus(values[name]) for name in ("s", _NUMBERS))
        level = rows_at(evidence.centre, count)
        return self._lifted(sums, evidence.centre, s, s.plus_products(level), level, sign)

    def _lifted(
        self, sums: Sums, c: Array, s: ExactSum, t: ExactSum, level: Parts, sign: float
    ) -> Sums:
        """Adds what moments about 0 are larger by than those about c, or subtracts it."""
        return sums | {
            "C": sums["C"].plus_products(lifted_products(self.basis, c, s, t), sign),
            "s": sums["s"].plus_products(level, sign),
            "e": sums["e"].plus_products(lifted_squares(c, s, t), sign),
        }

    def _moments(self, sums: Sums, coarse: int) -> Evidence:
        """The moments about 0 where rows are scaled, else about a centre near their mean."""
        centre = np.zeros(self.basis.inputs)
        if self.basis.scaling.kind == "none" and sums[_NUMBERS].rounded()[0] > 0.0:
            centre = _near_mean(sums["s"], sums["e"], sums[_NUMBERS])
            t, level = sums["s"], rows_at(centre, sums[_NUMBERS])
            sums = self._lifted(sums, centre, t.plus_products(level, -1.0), t, level, -1.0)
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


def _near_mean(t: ExactSum, squares: ExactSum, count: ExactSum) -> Array:
    """Finds a centre near the mean of the rows; however the sum came about, the same."""
    rows, mean = float(count.rounded()[0]), np.zeros(t.size)
    # Twice, so that the mean of equal numbers is that number.
    for _ in range(2):
        s = t.plus_products(rows_at(mean, count), -1.0)
        mean = mean + s.rounded() / rows
    s = t.plus_products(rows_at(mean, count), -1.0)
    left = squares.plus_products(lifted_squares(mean, s, t), -1.0).rounded()
    return centre_near(mean, np.maximum(left, 0.0) / rows)


def _is_coarse(evidence: Evidence) -> int:
    return int(evidence.resolution > EPSILON)


#: A middle of fewer rows counts as one of so many: young devices are no measure of old ones.
LEAST_MIDDLE = 100.0


@dataclass(frozen=True)
class Claim:
    """What a device states: its rows, and the mean square a row of its loudest column."""

    rows: float
    energy: float

    @classmethod
    def of(cls, evidence: Evidence) -> "Claim":
        """Reads off evidence what bounds are held against.

        Without a scaling nobody knows how large values are to be: then no energy is too much.
        """
        scaled = evidence.basis.scaling.kind != "none"
        return cls(evidence.count, evidence.mean_square if scaled else 0.0)

    def rows_by(self, terms: Terms) -> float:
        """Gives the rows that may count by themselves."""
        return self.rows if terms.most_rows is None else min(self.rows, terms.most_rows)

    def weight_by(self, terms: Terms) -> float:
        """Gives the weight that leaves no more rows, and no more energy, than may count.

        Rows that are too loud count with as much energy as others have, which is 1, and not with
        the most that may be: that alone would hide what the others know of the column.
        """
        rows, most = self.rows_by(terms), terms.most_energy
        weight = rows / self.rows if rows < self.rows else 1.0
        too_loud = most is not None and self.energy > max(most, 1.0)
        return weight / self.energy if too_loud else weight

    def tier_by(self, terms: Terms) -> int:
        """Numbers the tier: devices with at most 2ᵏ rows, and more than half of that, are in k.

        All that are never too many are in the lowest one.
        """
        if terms.most_times is None:
            return 0
        fraction, exponent = math.frexp(self.rows_by(terms))
        return max(exponent - (fraction == 0.5), _exponent(terms.most_times * LEAST_MIDDLE))


def _exponent(rows: float) -> int:
    """The k of the largest power of two that is not above."""
    return math.frexp(rows)[1] - 1


@dataclass(frozen=True)
class Influence:
    """The weight of each device in a sum over those with these claims.

    By ``most_times`` it is a power of two: so it takes nothing from a sum but size, and devices of
    one tier weigh alike. They are kept as one sum, weighted when it is asked for (``BoundedSum``),
    and a middle that moves costs nothing.
    """

    terms: Terms
    claims: Mapping[str, Claim]

    @cached_property
    def middle(self) -> float:
        """The rows of the device in the middle, of two those of the larger.

        Devices without rows are none.
        """
        rows = [claim.rows_by(self.terms) for claim in self.claims.values() if claim.rows > 0.0]
        return max(statistics.median_high(rows), LEAST_MIDDLE) if rows else LEAST_MIDDLE

    @cached_property
    def most(self) -> float:
        """The rows of one device that may count beside the others: a power of two."""
        times = self.terms.most_times
        rows = math.inf if times is None else times * self.middle
        return math.ldexp(1.0, _exponent(rows)) if rows < math.inf else math.inf

    def tier_weight(self, tier: int) -> float:
        """Gives the weight of a tier beside the others."""
        return 1.0 if self.most == math.inf else min(1.0, math.ldexp(self.most, -tier))

    def weight(self, origin: str) -> float:
        """Gives the weight of a device's part, above 0 and at most 1."""
        claim = self.claims[origin]
        return claim.weight_by(self.terms) * self.tier_weight(claim.tier_by(self.terms))

    def rows(self, origin: str) -> float:
        """Gives the rows that a device counts as."""
        return self.weight(origin) * self.claims[origin].rows

    @cached_property
    def bounded(self) -> dict[str, float]:
        """The weights of the devices that count with less than they state."""
        weights = ((origin, self.weight(origin)) for origin in sorted(self.claims))
        return {origin: weight for origin, weight in weights if weight < 1.0}

    def why(self, origin: str) -> str:
        """Says why a device counts with less than it states; nothing where it does not."""
        claim, terms, reasons = self.claims[origin], self.terms, list[str]()
        if claim.rows_by(terms) < claim.rows:
            reasons.append(f"at most {terms.most_rows:,.0f} rows of a device count")
        if self.tier_weight(claim.tier_by(terms)) < 1.0:
            reasons.append(
                f"at most {self.most:,.0f} rows of a device count where the one in the middle has "
                f"{self.middle:,.0f} or fewer"
            )
        if claim.weight_by(replace(terms, most_rows=None)) < 1.0:
            reasons.append(
                f"a column's mean square is {claim.energy:.3g} a row, where 1 is usual and "
                f"{terms.most_energy:g} the most"
            )
        return "; ".join(reasons)


def influence(terms: Terms, contributions: Iterable[Contribution]) -> Influence:
    """Finds how much each of these contributions counts in a sum over them."""
    return Influence(terms, {one.origin: Claim.of(one.evidence) for one in contributions})


def bounded(terms: Terms, contributions: Iterable[Contribution]) -> list[Contribution]:
    """Gives contributions as they count in a sum over them; those within bounds as they are."""
    held = list(contributions)
    weights = influence(terms, held).bounded
    return [
        replace(one, parts=tuple(part.weighted(weights[one.origin]) for part in one.parts))
        if one.origin in weights
        else one
        for one in held
    ]


class BoundedSum:
    """Σ evidence over devices, each as it counts beside the others (``Influence``).

    What a device weighs depends on those that are there. So devices with about as many rows are
    kept in one running sum, a tier, and tiers are weighted when the sum is asked for: nobody's
    coming or leaving makes work of the others, and the same devices give the same sum.
    """

    def __init__(self, basis: Basis, terms: Terms = UNBOUNDED) -> None:
        self.basis = basis
        self._terms = terms
        self._tiers = dict[int, RunningSum]()
        self._claims = dict[str, Claim]()
        # How much each counts, as long as it was asked for and nothing changed.
        self._influence: Influence | None = None

    def __copy__(self) -> "BoundedSum":
        made = BoundedSum(self.basis, self._terms)
        made._tiers = {tier: copy.copy(running) for tier, running in self._tiers.items()}
        made._claims = dict(self._claims)
        return made

    def __contains__(self, origin: str) -> bool:
        """Says whether a device is in the sum."""
        return origin in self._claims

    @property
    def devices(self) -> int:
        """How many devices are in the sum."""
        return len(self._claims)

    @property
    def nbytes(self) -> int:
        """What it holds."""
        return sum(running.nbytes for running in self._tiers.values())

    @property
    def influence(self) -> Influence:
        """How much each device counts in the sum over all."""
        if self._influence is None:
            self._influence = Influence(self._terms, dict(self._claims))
        return self._influence

    def change(self, origin: str, before: Evidence | None, now: Evidence | None) -> None:
        """Replaces what a device contributed before, if anything, by what it contributes now."""
        self._influence = None
        self._claims.pop(origin, None)
        # First what comes, so that a single device's replacement does not end its tier.
        if now is not None:
            claim = self._claims[origin] = Claim.of(now)
            tier = claim.tier_by(self._terms)
            if tier not in self._tiers:
                self._tiers[tier] = RunningSum(self.basis)
            self._tiers[tier].add(self._weighted(now, claim))
        if before is not None:
            claim = Claim.of(before)
            tier = claim.tier_by(self._terms)
            self._tiers[tier].remove(self._weighted(before, claim))
            if not self._tiers[tier].devices:
                del self._tiers[tier]

    def evidence(self, without: tuple[str, Evidence] | None = None) -> Evidence:
        """Gives the sum now, without one device that is in it, and what that one stated of it."""
        weights, left_out = self.influence, dict[int, Evidence]()
        if without is not None:
            claims = dict(self._claims)
            claim = claims.pop(without[0])
            left_out[claim.tier_by(self._terms)] = self._weighted(without[1], claim)
            weights = Influence(self._terms, claims)
        parts = [
            weighted(running.evidence(left_out.get(tier)), weights.tier_weight(tier))
            for tier, running in sorted(self._tiers.items())
            if running.devices > (tier in left_out)
        ]
        if len(parts) == 1:
            return parts[0]
        total = RunningSum(self.basis)
        for part in parts:
            total.add(part)
        return total.evidence()

    def _weighted(self, evidence: Evidence, claim: Claim) -> Evidence:
        return weighted(evidence, claim.weight_by(self._terms))


def weighted(evidence: Evidence, weight: float) -> Evidence:
    """Gives evidence of this weight; that of weight 1 as it is, to the bit."""
    return evidence if weight == 1.0 else evidence.weighted(weight)
