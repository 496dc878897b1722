"""The times of all that was ever learned, as a few spans: what is new is outside of them."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove.errors import BadInput

#: The most spans that are kept; the nearest are then joined.
MOST_SPANS = 32


class LearnedTimes:
    """Spans of time in which rows were learned, taken out again or not.

    Only a gap of more than ``gap`` seconds parts two spans. So a clock that was once ahead leaves a
    span in the future, and what comes after it is right again lies before that and is new. Where
    spans are joined, more rows count as learned before than were: never fewer.
    """

    def __init__(self, gap: float, spans: Iterable[Sequence[float]] = ()) -> None:
        self._gap = gap
        #: First and last time of each, in order.
        self.spans: list[tuple[float, float]] = []
        for first, last in spans:
            if not -math.inf < first <= last < math.inf:
                raise BadInput(f"rows can't have been learned from {first!r} to {last!r}")
            self.add(first, last)

    def __contains__(self, time: float) -> bool:
        return any(first <= time <= last for first, last in self.spans)

    def hold(self, times: Array) -> Array:
        """Say of each time whether it is in a span."""
        held: Array = np.zeros(times.shape, bool)
        for first, last in self.spans:
            held |= (first <= times) & (times <= last)
        return held

    def next_after(self, time: float) -> float:
        """Find where the next span begins; infinite if none does."""
        return min((first for first, _ in self.spans if first > time), default=math.inf)

    def add(self, first: float, last: float) -> None:
        """Add a span; times that are not known (NaN) add nothing."""
        if not first <= last:
            return
        apart = list[tuple[float, float]]()
        for one in self.spans:
            if one[1] + self._gap < first or last + self._gap < one[0]:
                apart.append(one)
            else:
                first, last = min(first, one[0]), max(last, one[1])
        self.spans = sorted([*apart, (first, last)])
        while len(self.spans) > MOST_SPANS:
            gaps = [b[0] - a[1] for a, b in zip(self.spans, self.spans[1:], strict=False)]
            place = gaps.index(min(gaps))
            joined = (self.spans[place][0], self.spans[place + 1][1])
            self.spans[place : place + 2] = [joined]

    @property
    def fields(self) -> list[Any]:
        """The spans as JSON holds them."""
        return [list(span) for span in self.spans]
