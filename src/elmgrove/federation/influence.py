"""Influence: how much of what each device contributed counts in a sum, and why.

Two bounds hold for a contribution by itself: its rows (``most_rows``), and their energy
(``most_energy``). The third, ``most_times``, is held against the device in the middle of those that
are added up. A device that asks for the sum over the others is not among them: what it learned
itself never counts less for it, nor is it what the others are measured by.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from elmgrove.algebra import Evidence
from elmgrove.federation.entries import Contribution
from elmgrove.federation.terms import Terms

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
