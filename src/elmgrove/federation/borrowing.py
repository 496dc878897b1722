"""Borrowing: how much a device rests on what others know and lend, and what that changes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra import Distance, Evidence, Moments, rows_lent
from elmgrove.detector import SingleModel
from elmgrove.errors import SingularSystem
from elmgrove.federation.member import Member

# Less than this many rows' worth is nothing that anybody would notice.
_LEAST = 0.5


@dataclass(frozen=True)
class Borrowing:
    """So many rows' worth, from so many devices, and how wide one's normal is by that.

    ``width`` is how many times as wide the Gaussian is along its own axes, in the mean, as it would
    be alone: below 1, others have shown that readings move together, and what breaks that is
    stranger than a few rows of one's own could show. Of several patterns, that with the most.
    """

    rows: float
    lenders: int
    width: float

    def __str__(self) -> str:
        if self.rows < _LEAST:
            return "nothing" + (": it has seen enough itself" if self.lenders else "")
        rows = "1 row's" if round(self.rows) == 1 else f"{self.rows:.0f} rows'"
        many = f"{self.lenders} device{'s' * (self.lenders != 1)}"
        changed = f"its normal is {self.width:.2f} times as wide by that"
        return f"{rows} worth from {many}; {changed}"


def borrowing(
    parts: Sequence[Evidence], loan: Callable[[], Moments | None], lenders: int
) -> Borrowing:
    """Finds what a device that learned these parts borrows of a loan, which only few rows need."""
    learned = [part for part in parts if isinstance(part, Moments)]
    least = min(learned, key=lambda part: part.count, default=None)
    if least is None or not lenders:
        return Borrowing(0.0, 0, 1.0)
    rows = rows_lent(least.count, least.basis.inputs)
    lent = loan() if rows >= _LEAST else None
    if lent is None:
        return Borrowing(0.0, lenders, 1.0)
    # The mean of log σ² is twice that of log σ.
    wider = Distance(least, loan=lent).width - Distance(least).width
    return Borrowing(rows, lenders, math.exp(wider / 2.0))


def borrowed_by(member: Member) -> Borrowing:
    """Finds what a member borrows now."""
    loan, told = member.detector.loan, 0 if member.merged is None else member.merged.devices
    lenders = 0 if loan is None else len(member.ledger) or told
    return borrowing([part.evidence for part in member.detector.parts], lambda: loan, lenders)


def share_of_others(member: Member, borrowed: float) -> float:
    """Finds how much of what decides about a row comes from others, from 0 to 1, by rows.

    Of one model of everybody that is the others' part of its rows; of a device that has
    ``borrowed`` so many rows' worth, their part in the pattern that borrows most.
    """
    detector = member.detector
    own, received = detector.evidence.count, detector.received
    others = 0.0 if received is None else max(received.count, 0.0)
    if not others:
        others = borrowed
        own = min((part.evidence.count for part in detector.parts), default=0.0)
    return others / (others + max(own, 0.0)) if others else 0.0


def own_score(member: Member) -> float | None:
    """Computes how strange a device's own rows are to its model, in the mean, without a row.

    By distance they lie so many times as far from it as rows that are typical of it: 1 where it is
    made of them alone, about 1 with what it borrows, more where one model of everybody is not like
    them. By loss it is their mean squared error. None where there are no rows, or no number.
    """
    models = [model for model in member.detector.model.models if model.evidence.count > 0.0]
    try:
        # What is beyond range is no number below.
        with np.errstate(over="ignore", invalid="ignore"):
            found = [(_own_score(member, model), model.evidence.count) for model in models]
    except SingularSystem:
        return None
    rows = sum(count for _, count in found)
    mean = sum(score * count for score, count in found) / rows if rows else math.nan
    return mean if math.isfinite(mean) else None


def _own_score(member: Member, model: SingleModel) -> float:
    own, total, basis = model.evidence, model.total, model.basis
    if not isinstance(own, Moments):
        error = own.error_of(total.solve(model.ridge))
        return max(error, 0.0) / (own.count * basis.outputs)
    lends = member.detector.loan is not None and rows_lent(own.count, basis.inputs) >= _LEAST
    if total.count == own.count and not lends:
        return 1.0
    _, distance = model.explainer(np.zeros(basis.inputs, model.dtype))
    return float(distance.mean_score(Distance(own)))
