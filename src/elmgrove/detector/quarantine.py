"""Anomalous rows, kept aside until somebody says what they are."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array
from elmgrove.detector.history import Span
from elmgrove.detector.inputs import Period
from elmgrove.errors import require_whole

_UNKNOWN: Period = (math.nan, math.nan)


@dataclass(frozen=True, eq=False)
class Waiting:
    """An anomalous row that waits, as an input of the model, with its time and score.

    ``since`` is the time of the oldest row in its window. What is not known is None.
    """

    time: float | None
    score: float | None
    row: Array
    since: float | None

    def within(self, span: Span | None) -> bool:
        """Says whether its time lies in a span; all of them lie in None."""
        return span is None or (self.time is not None and span.holds(self.time))

    def touches(self, span: Span | None) -> bool:
        """Says whether any of its rows lies in a span."""
        if span is None or self.time is None or self.since is None:
            return span is None
        return span.meets(self.since, self.time)


class Quarantine:
    """The last ``capacity`` anomalous rows.

    A gate that never learns what it finds anomalous would lock out a new normal for ever. So
    anomalous rows wait here until the user accepts or rejects them: no rule can tell a new normal
    from a fault that stays.
    """

    def __init__(self, width: int, capacity: int) -> None:
        self._width = width
        self._waiting: deque[Waiting] = deque(maxlen=require_whole("quarantine", capacity, 1))
        #: Whether somebody said that this is no new normal; until rows are normal again.
        self.rejected = False

    @property
    def capacity(self) -> int:
        """The most rows it holds."""
        return self._waiting.maxlen or 0

    @property
    def waiting(self) -> list[Waiting]:
        """The rows that wait, oldest first, each with its time and score."""
        return list(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, row: Array, score: float | None = None, period: Period = _UNKNOWN) -> None:
        """Adds an anomalous row that follows the last one directly."""
        since, time = (None if math.isnan(when) else when for when in period)
        self._waiting.append(Waiting(time, score, row.copy(), since))

    def rows(self, last: int | None = None) -> Array:
        """Lists the rows, oldest first; only the last ones if a number is given."""
        kept = self.waiting[-last:] if last else self.waiting
        return self.inputs(kept)

    def inputs(self, waiting: Sequence[Waiting]) -> Array:
        """Gives rows that wait as one array."""
        return np.array([one.row for one in waiting]).reshape(len(waiting), self._width)

    def release(self, wanted: Callable[[Waiting], bool] = lambda one: True) -> list[Waiting]:
        """Takes the wanted rows out: all, unless stated."""
        kept, released = list[Waiting](), list[Waiting]()
        for one in self._waiting:
            (released if wanted(one) else kept).append(one)
        if released:
            self._waiting.clear()
            self._waiting.extend(kept)
        return released

    def put_back(self, released: Sequence[Waiting]) -> None:
        """Lets rows wait again that were released before those that wait now."""
        waiting = [*released, *self._waiting]
        self._waiting.clear()
        self._waiting.extend(waiting)

    # On disk

    def pack(self) -> Packed:
        """Packs its size, its rule and its rows."""
        fields = {
            "quarantine": self.capacity,
            **({"rejected": True} if self.rejected else {}),
        }
        stamps = np.array([(one.since, one.time, one.score) for one in self._waiting], np.float64)
        known = {} if np.isnan(stamps).all() else {"quarantine_stamps": stamps}
        return fields, {"quarantine": self.rows(), **known}

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from what was packed; size and rule were given when it was made."""
        rows = arrays["quarantine"]
        stamps = arrays.get("quarantine_stamps", np.full((len(rows), 3), math.nan))
        for row, (since, time, score) in zip(rows, stamps.tolist(), strict=True):
            self.add(row, None if math.isnan(score) else score, (since, time))
        self.rejected = fields.get("rejected", False)
