"""Anomalous rows, kept aside until somebody says what they are."""

import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array
from elmgrove.detector.history import Span
from elmgrove.detector.inputs import Period
from elmgrove.detector.model import Model
from elmgrove.errors import BadInput, require_whole

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
    anomalous rows wait here, and are promoted into the model or dropped by the user, or by a
    rule: ``promote_after`` anomalous rows in a row that would be normal had the others been
    learned. The rule is off by default. It can't tell a new normal from a fault that stays: a
    sensor that is stuck explains itself very well. Once it was told that rows are no new normal, it
    is off until rows are normal again.
    """

    def __init__(self, width: int, capacity: int, promote_after: int | None) -> None:
        self._width = width
        self._waiting: deque[Waiting] = deque(maxlen=require_whole("quarantine", capacity, 1))
        self.promote_after = self.require_promotable(promote_after)
        #: How many anomalous rows came one after another, up to now; a normal one makes it 0.
        self.run = 0
        #: Whether somebody said that what is anomalous now is no new normal.
        self.rejected = False

    @property
    def capacity(self) -> int:
        """The most rows it holds."""
        return self._waiting.maxlen or 0

    @property
    def waiting(self) -> list[Waiting]:
        """The rows that wait, oldest first, each with its time and score."""
        return list(self._waiting)

    def require_promotable(self, rows: int | None) -> int | None:
        """Raises ``BadInput`` unless so many rows in a row can wait here; gives their number."""
        if rows is None:
            return None
        rows = require_whole("promote_after", rows, 2)
        if rows > self.capacity:
            raise BadInput(f"promote_after {rows} is more than the {self.capacity} kept")
        return rows

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, row: Array, score: float | None = None, period: Period = _UNKNOWN) -> None:
        """Adds an anomalous row that follows the last one directly."""
        since, time = (None if math.isnan(when) else when for when in period)
        self._waiting.append(Waiting(time, score, row.copy(), since))
        self.run += 1

    def calm(self, changing: bool) -> None:
        """Takes note of a normal row; while the machine is changing it may be so by chance."""
        self.run = 0
        self.rejected = self.rejected and changing

    def clear(self) -> None:
        """Drops all rows."""
        self._waiting.clear()
        self.run = 0

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
            self.clear()
            self._waiting.extend(kept)
        return released

    def put_back(self, released: Sequence[Waiting]) -> None:
        """Lets rows wait again that were released before those that wait now."""
        waiting = [*released, *self._waiting]
        self._waiting.clear()
        self._waiting.extend(waiting)

    def release_new_normal(self, model: Model, threshold: float) -> list[Waiting]:
        """Takes those rows of the present run out that make a new normal: none, or most of it.

        The model says which (``new_normal``). Older rows stay, and so do rows of the run that the
        others do not explain: they have nothing to do with it.
        """
        wanted = self.promote_after
        if wanted is None or self.run == 0 or self.run % wanted or self.rejected:
            return []
        size = min(self.run, len(self))
        normal = model.new_normal(self.rows(size), threshold)
        if normal.mean() < 0.5:
            return []
        promoted = set(map(id, compress(self.waiting[-size:], normal)))
        return self.release(lambda one: id(one) in promoted)

    # On disk

    def pack(self) -> Packed:
        """Packs its size, its rule and its rows."""
        fields = {
            "quarantine": self.capacity,
            "quarantine_run": self.run,
            "promote_after": self.promote_after,
            **({"rejected": True} if self.rejected else {}),
        }
        stamps = np.array([(one.since, one.time, one.score) for one in self._waiting], np.float64)
        known = {} if np.isnan(stamps).all() else {"quarantine_stamps": stamps}
        return fields, {"quarantine": self.rows(), **known}

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from what was packed; size and rule were given when it was made."""
        if fields["quarantine_run"] < 0:
            raise BadInput(f"quarantine_run can't be {fields['quarantine_run']}")
        rows = arrays["quarantine"]
        stamps = arrays.get("quarantine_stamps", np.full((len(rows), 3), math.nan))
        for row, (since, time, score) in zip(rows, stamps.tolist(), strict=True):
            self.add(row, None if math.isnan(score) else score, (since, time))
        self.run = fields["quarantine_run"]
        self.rejected = fields.get("rejected", False)
