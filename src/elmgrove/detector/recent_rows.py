"""The last rows that a device accepted, without a gap, and when each was learned."""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove.errors import BadInput

#: Rows to keep at most, for scoring them again when the model changes.
ROWS = 512
#: The period of an input that was learned, and how many were when it had been.
Mark = tuple[float, float, int]
#: The mark of a row of which nobody said when it was learned.
UNKNOWN: Mark = (math.nan, math.nan, 0)


class RecentRows:
    """The last rows, at most ``ROWS``, each with its mark."""

    def __init__(self, width: int, dtype: np.dtype[Any]) -> None:
        self._rows: Array = np.empty((ROWS, width), dtype)
        self._kept = 0
        self._marks: deque[Mark] = deque(maxlen=ROWS)

    def add(self, row: Array, mark: Mark) -> None:
        """Adds one row."""
        self._rows[self._kept % ROWS] = row
        self._kept += 1
        self._marks.append(mark)

    def add_many(self, rows: Array, marks: Sequence[Mark] | None) -> None:
        """Adds many rows, as ``add`` adds one."""
        last = rows[-ROWS:]
        places = (self._kept + len(rows) - len(last) + np.arange(len(last))) % ROWS
        self._rows[places] = last
        self._kept += len(rows)
        self._marks.extend([UNKNOWN] * len(rows) if marks is None else marks)

    @property
    def rows(self) -> Array:
        """The rows, oldest first."""
        if self._kept < ROWS:
            return self._rows[: self._kept]
        return np.roll(self._rows, -(self._kept % ROWS), axis=0)

    @property
    def marks(self) -> Array:
        """Their marks, in three columns."""
        return np.array(self._marks).reshape(-1, 3)

    def keep(self, wanted: Array) -> None:
        """Drops all rows but those that are marked so."""
        rows, marks = self.rows[wanted], list(compress(self._marks, wanted))
        self._kept = 0
        self._marks.clear()
        self.add_many(rows, marks)

    # On disk

    @property
    def arrays(self) -> dict[str, Array]:
        """All of it as arrays, to be saved."""
        marks = {} if np.isnan(self.marks[:, 1]).all() else {"recent_marks": self.marks}
        return {"recent": self.rows, **marks}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from ``arrays``."""
        rows, marks = arrays["recent"], arrays.get("recent_marks")
        if len(rows) > ROWS:
            raise BadInput(f"{len(rows)} recent rows, where {ROWS} are the most")
        if marks is not None and marks.shape != (len(rows), 3):
            raise BadInput("not one mark for each recent row")
        told = [] if marks is None else marks.tolist()
        known = [(since, time, int(number)) for since, time, number in told]
        self.add_many(rows, known or None)
