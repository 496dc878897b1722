"""The last inputs that were learned, as they are, and when they came."""

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
UNKNOWN: Mark = (math.nan, math.nan, 0)


def marks_of(periods: Array, learned: int) -> list[Mark]:
    """Gives the marks of the inputs that were learned last, as many as are kept."""
    last = periods[-ROWS:]
    numbers = range(learned - len(last) + 1, learned + 1)
    return list(zip(*last.T.tolist(), numbers, strict=True))


class LastRows:
    """The last inputs that were learned, one after the other, and their marks."""

    def __init__(self, width: int, dtype: np.dtype[Any]) -> None:
        self._rows: Array = np.empty((ROWS, width), dtype)
        self._added = 0
        self._marks: deque[Mark] = deque(maxlen=ROWS)

    def add(self, row: Array, mark: Mark) -> None:
        """Takes in one row."""
        self._rows[self._added % ROWS] = row
        self._added += 1
        self._marks.append(mark)

    def add_many(self, rows: Array, marks: Sequence[Mark] | None = None) -> None:
        """Takes in many rows; of the marks, those of the last ones will do."""
        last = rows[-ROWS:]
        places = (self._added + len(rows) - len(last) + np.arange(len(last))) % ROWS
        self._rows[places] = last
        self._added += len(rows)
        self._marks.extend([UNKNOWN] * len(last) if marks is None else marks)

    @property
    def rows(self) -> Array:
        """The rows, oldest first."""
        if self._added < ROWS:
            return self._rows[: self._added]
        return np.roll(self._rows, -(self._added % ROWS), axis=0)

    @property
    def marks(self) -> Array:
        """The marks of the rows, in three columns."""
        return np.array(self._marks).reshape(-1, 3)

    def keep(self, wanted: Array) -> None:
        """Keeps the rows that are marked as wanted, and no others."""
        rows, marks = self.rows[wanted], list(compress(self._marks, wanted))
        self._added = 0
        self._marks.clear()
        self.add_many(rows, marks)

    # On disk

    @property
    def arrays(self) -> dict[str, Array]:
        """All of it, to be saved; marks only where times are known."""
        marks = {} if np.isnan(self.marks[:, 1]).all() else {"recent_marks": self.marks}
        return {"recent": self.rows, **marks}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from ``arrays``."""
        rows, marks = arrays["recent"], arrays.get("recent_marks")
        if len(rows) > ROWS:
            raise BadInput(f"{len(rows)} recent rows, where {ROWS} are the most")
        if marks is not None and marks.shape != (len(rows), 3):
            raise BadInput("not one mark for each recent row")
        told = None if marks is None else [(*mark[:2], int(mark[2])) for mark in marks.tolist()]
        self._added = 0
        self._marks.clear()
        self.add_many(rows, told)
