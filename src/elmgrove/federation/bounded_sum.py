"""A bounded sum: a running sum over devices in which none weighs more than the terms allow."""

import copy

from elmgrove.algebra import Basis, Evidence
from elmgrove.federation.influence import Claim, Influence
from elmgrove.federation.running_sum import RunningSum
from elmgrove.federation.terms import UNBOUNDED, Terms


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
