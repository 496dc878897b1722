"""Borrowing: how much a device rests on what others lend, and what that changes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from elmgrove.algebra import Distance, Evidence, Moments, rows_lent
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
