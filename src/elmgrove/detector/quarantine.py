"""Anomalous rows, kept aside until somebody says what they are."""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra.rows import Array
from elmgrove.detector.history import Span
from elmgrove.detector.inputs import Period
from elmgrove.errors import BadInput, require_whole


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
        """Whether its time lies in a span; all of them lie in None."""
        return span is None or (self.time is not None and span.holds(self.time))

    def touches(self, span: Span | None) -> bool:
        """Whether any of its rows lies in a span."""
        if span is None or self.time is None or self.since is None:
            return span is None
        return span.meets(self.since, self.time)


class Quarantine:
    """The last ``capacity`` anomalous rows.

    A gate that never learns what it finds anomalous would lock out a new normal for ever. So
    anomalous rows wait here until the user accepts or rejects them: no rule can tell a new normal
    from a fault that stays.
    """

    _rows: deque[Array]
    # Of each the time of its oldest row, its own, and its score; no numbers where not known.
    _stamps: deque[tuple[float, float, float]]
    #: Whether somebody said that this is no new normal; until rows are normal again.
    rejected: bool

    def __init__(self, width: int, capacity: int) -> None:
        self._width = width
        self.capacity = require_whole("quarantine", capacity, 1)
        self._rows, self._stamps = deque(maxlen=capacity), deque(maxlen=capacity)
        self.rejected = False

    @property
    def waiting(self) -> list[Waiting]:
        """The rows that wait, oldest first, each with its time and score."""
        known = [[None if math.isnan(one) else one for one in stamp] for stamp in self._stamps]
        return [
            Waiting(time, score, row, since)
            for row, (since, time, score) in zip(self._rows, known, strict=True)
        ]

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, row: Array, score: float = math.nan, period: Period = (math.nan, math.nan)
    ) -> None:
        self._rows.append(row.copy())
        self._stamps.append((*period, score))

    def rows(self) -> Array:
        return np.array(self._rows).reshape(len(self), self._width)

    def release(self, wanted: Callable[[Waiting], bool] = lambda one: True) -> list[Waiting]:
        """Takes the wanted rows out: all, unless stated."""
        waiting = self.waiting
        released = [one for one in waiting if wanted(one)]
        self._hold([one for one in waiting if one not in released])
        return released

    def put_back(self, released: Sequence[Waiting]) -> None:
        """Lets rows wait again that were released before those that wait now."""
        self._hold([*released, *self.waiting])

    def _hold(self, waiting: Sequence[Waiting]) -> None:
        self._rows.clear()
        self._stamps.clear()
        for one in waiting:
            known = (math.nan if x is None else x for x in (one.since, one.time, one.score))
            since, time, score = known
            self.add(one.row, score, (since, time))

    def like(self, waiting: Sequence[Waiting]) -> "Quarantine":
        """A quarantine with these rows."""
        made = Quarantine(self._width, self.capacity)
        made.put_back(waiting)
        return made

    def complete(self) -> None:
        if len(self._stamps) != len(self) or self.rows().shape[1:] != (self._width,):
            raise BadInput("the rows in quarantine do not fit the model, or have no stamps")
