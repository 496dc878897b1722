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
Stamp = tuple[float, float, int]
UNKNOWN: Stamp = (math.nan, math.nan, 0)


def stamps_of(periods: Array, learned: int) -> list[Stamp]:
    """Gives the stamps of the inputs that were learned last, as many as are kept."""
    last = periods[-ROWS:]
    numbers = range(learned - len(last) + 1, learned + 1)
    return list(zip(*last.T.tolist(), numbers, strict=True))


class LastRows:
    """The last inputs that were learned, one after the other, and their stamps."""

    def __init__(self, width: int, dtype: np.dtype[Any]) -> None:
        self._rows: Array = np.empty((ROWS, width), dtype)
        self._added = 0
        self._stamps: deque[Stamp] = deque(maxlen=ROWS)

    def add(self, row: Array, stamp: Stamp) -> None:
        """Takes in one row."""
        self._rows[self._added % ROWS] = row
        self._added += 1
        self._stamps.append(stamp)

    def add_many(self, rows: Array, stamps: Sequence[Stamp] | None = None) -> None:
        """Takes in many rows; of the stamps, those of the last ones will do."""
        last = rows[-ROWS:]
        places = (self._added + len(rows) - len(last) + np.arange(len(last))) % ROWS
        self._rows[places] = last
        self._added += len(rows)
        self._stamps.extend([UNKNOWN] * len(last) if stamps is None else stamps)

    @property
    def rows(self) -> Array:
        """The rows, oldest first."""
        if self._added < ROWS:
            return self._rows[: self._added]
        return np.roll(self._rows, -(self._added % ROWS), axis=0)

    @property
    def stamps(self) -> Array:
        """The stamps of the rows, in three columns."""
        return np.array(self._stamps).reshape(-1, 3)

    def keep(self, wanted: Array) -> None:
        """Keeps the rows that are marked as wanted, and no others."""
        rows, stamps = self.rows[wanted], list(compress(self._stamps, wanted))
        self._added = 0
        self._stamps.clear()
        self.add_many(rows, stamps)

    # On disk

    @property
    def arrays(self) -> dict[str, Array]:
        """All of it, to be saved; stamps only where times are known."""
        stamps = {} if np.isnan(self.stamps[:, 1]).all() else {"recent_stamps": self.stamps}
        return {"recent": self.rows, **stamps}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from ``arrays``."""
        rows, stamps = arrays["recent"], arrays.get("recent_stamps")
        if len(rows) > ROWS:
            raise BadInput(f"{len(rows)} recent rows, where {ROWS} are the most")
        if stamps is not None and stamps.shape != (len(rows), 3):
            raise BadInput("not one stamp for each recent row")
        told = (
            None if stamps is None else [(*stamp[:2], int(stamp[2])) for stamp in stamps.tolist()]
        )
        self._added = 0
        self._stamps.clear()
        self.add_many(rows, told)
