"""The loan: how others' readings move together, for a device that has seen few rows itself."""

from collections.abc import Iterable

import numpy as np

from elmgrove.algebra.covariance import correlated, mixed_products
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.moments import Moments, zero_evidence

# Of so many lenders one can be told to be the odd one out.
_ENOUGH = 3


def lent(evidence: Evidence) -> Moments | None:
    """Makes what a device lends to others: how its readings move together, as one row's worth.

    Where they lie, and how far they move, is left out: the sums are about the device's own mean,
    and no column moves by more than a unit (of the scaling; without one, each moves by 1). So what
    is lent by several devices can be added, each counts as much as another, and one that sends
    wrong sums can't drown the others. A device with fewer rows than inputs counts for less. A loss
    has no such sums: there None is lent.
    """
    if not isinstance(evidence, Moments):
        return None
    nothing = zero_evidence(evidence.basis)
    assert isinstance(nothing, Moments), "a distance is made of moments"
    if not evidence.count > 1.0:
        return nothing
    found = correlated(evidence)
    moves = np.minimum(found.deviation, 1.0)
    if evidence.basis.scaling.kind == "none":
        moves = (found.deviation > 0.0).astype(float)
    C = mixed_products(evidence.basis, found.L, found.own, moves)
    weight = evidence.count / (evidence.count + evidence.basis.inputs)
    zero = np.zeros(evidence.basis.inputs)
    return Moments(evidence.basis, weight * C, zero, weight * moves**2, weight)


def lent_together(loans: Iterable[Moments | None]) -> Moments | None:
    """Adds up what several lend; None where nobody lends anything."""
    shares = _shares(loans)
    if not shares:
        return None
    total = Evidence.sum(shares)
    assert isinstance(total, Moments), "a sum of moments"
    return total


def agreed(loans: Iterable[Moments | None]) -> Moments | None:
    """Adds up what several lend, without the one that is least like the rest.

    One lender among a dozen that made its sums up can hide a fault from a device that has seen few
    rows: it lends that what the fault moves moves together. Who is least like the rest is told by
    the median of all, each entry of C by itself. It is one and no more: of two liars one stays, and
    weighs as much as any lender. Of two lenders neither is left out.
    """
    shares = _shares(loans)
    if len(shares) >= _ENOUGH:
        C = np.stack([share.C / share.count for share in shares])
        apart = np.sum((C - np.median(C, axis=0)) ** 2, axis=(1, 2))
        del shares[int(np.argmax(apart))]
    return lent_together(shares)


def _shares(loans: Iterable[Moments | None]) -> list[Moments]:
    return [loan for loan in loans if loan is not None and loan.count > 0.0]
