"""Gaps in time: where a row comes several times later than usual, it does not follow the last."""

from collections import deque
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

#: A gap is so many times as long as the usual interval, which is the median.
SEVERAL = 5.0
# Intervals that say what is usual: at least, and the last so many at most.
_LEAST, _MOST = 8, 101
# Where more than one of so many intervals runs back, times are in no order.
_UNSORTED = 3


def usual_interval(intervals: Sequence[float] | NDArray[np.float64]) -> float | None:
    """Finds the usual interval between rows; None where too few rows tell it."""
    known = np.asarray(intervals, np.float64)
    known = known[known > 0.0]
    return float(np.median(known)) if len(known) >= _LEAST else None


def gaps_in(times: NDArray[np.float64]) -> NDArray[np.intp]:
    """Finds the places of rows that come after a gap, or before the row in front of them."""
    intervals = np.diff(times)
    usual = usual_interval(intervals)
    late = np.zeros(len(intervals), bool) if usual is None else intervals > SEVERAL * usual
    return np.flatnonzero(late | (intervals < 0.0)) + 1


def first_back(intervals: Sequence[float] | NDArray[np.float64]) -> int | None:
    """Finds the first interval that runs back, where so many do that rows are in no order of time.

    None where they are in order: a clock that was set back once, or now and then, is a gap.
    """
    back = np.flatnonzero(np.asarray(intervals, np.float64) < 0.0)
    many = len(back) > 1 and _UNSORTED * len(back) > len(intervals)
    return int(back[0]) if many else None


class Gaps:
    """Says of rows as they come whether each follows the last one in time."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._intervals: deque[float] = deque(maxlen=_MOST)
        self._usual: float | None = None
        self._seen = 0
        #: Gaps up to now, and how long the last one was, in seconds.
        self.count, self.length = 0, 0.0

    def follows(self, time: float | None) -> bool:
        """Takes the time of the next row; False where it comes after a gap."""
        last, self._last = self._last, time
        if last is None or time is None:
            return True
        interval = time - last
        gap = interval < 0.0 or (self._usual is not None and interval > SEVERAL * self._usual)
        if gap:
            self.count, self.length = self.count + 1, interval
        self._intervals.append(interval)
        # The median of a hundred changes little with one more: it is not found for each row.
        self._seen += 1
        if self._seen <= 2 * _LEAST or self._seen % _LEAST == 0:
            self._usual = usual_interval(self._intervals)
        return not gap

    @property
    def backwards(self) -> bool:
        """Whether the last rows run backwards in time, or in no order at all."""
        return len(self._intervals) >= _LEAST and first_back(self._intervals) is not None

    @property
    def last(self) -> float | None:
        """The time of the last row; None before the first one."""
        return self._last

    @property
    def state(self) -> list[Any]:
        """What is known, as JSON holds it."""
        return [self._last, self._seen, self._usual, list(self._intervals)]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> Self:
        """Goes on from what was known."""
        made = cls()
        made._last, made._seen, made._usual, intervals = state
        made._intervals.extend(intervals)
        return made

    @property
    def usual(self) -> float | None:
        """The usual interval in seconds; None where too few rows tell it."""
        return self._usual
