"""Windows: the last rows side by side as one input, and whether rows need them."""

from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra import Array

#: The window that is chosen for time series.
USUAL = 10
# More inputs than this cost more than they tell.
_MOST_INPUTS = 1024
# Fewer rows than so many windows do not show what neighbours have to do with each other.
_LEAST_WINDOWS = 5
# The correlation of a column with its last value from which on rows are a time series.
_ALIKE = 0.3
# Rows that are looked at.
_LOOK = 10_000
_ROOM = 256


class Choice(NamedTuple):
    """A window, and why."""

    window: int
    reason: str


def choose_window(rows: Array) -> Choice:
    """Decides from the rows themselves whether ten of them should be one input, or each by itself.

    Ten where neighbours are alike (a time series), there are rows enough to see how, and not too
    many columns; one for tables, whose order means nothing.
    """
    columns = rows.shape[1]
    if columns * USUAL > _MOST_INPUTS:
        return Choice(1, f"{columns} columns are too many to set {USUAL} rows side by side")
    if len(rows) < _LEAST_WINDOWS * USUAL:
        return Choice(1, f"{len(rows)} rows are too few to see whether they are a time series")
    alike = _likeness(np.asarray(rows[-_LOOK:], np.float64))
    if alike < _ALIKE:
        return Choice(1, f"neighbouring rows are hardly alike (correlation {alike:.2f}): a table")
    return Choice(USUAL, f"neighbouring rows are alike (correlation {alike:.2f}): a time series")


def _likeness(rows: Array) -> float:
    """The median correlation of the columns that vary with their own last value; 0 if none does."""
    Y = rows - rows.mean(axis=0)
    power = np.einsum("ij,ij->j", Y, Y)
    moving = power > 1e-18 * np.maximum(np.einsum("ij,ij->j", rows, rows), 1e-300)
    if not moving.any():
        return 0.0
    return float(np.median(np.einsum("ij,ij->j", Y[1:], Y[:-1])[moving] / power[moving]))


class Window:
    """The last rows of a stream; each new row completes an input of ``size`` rows.

    ``restart`` begins again where rows do not follow each other: after a gap or a bad row.
    """

    def __init__(self, size: int, columns: int, dtype: np.dtype[Any]) -> None:
        self.size = size
        self._rows: Array = np.empty((size - 1 + _ROOM, columns), dtype)
        self._end = 0

    def __len__(self) -> int:
        return min(self._end, self.size - 1)

    def restart(self) -> None:
        """Forgets the rows up to now."""
        self._end = 0

    def add(self, row: Array) -> Array | None:
        """Takes in a row; gives the input it completes, or None where rows are missing."""
        if self._end == len(self._rows):
            self._rows[: self.size - 1] = self._rows[self._end - self.size + 1 :]
            self._end = self.size - 1
        self._rows[self._end] = row
        self._end += 1
        if self._end < self.size:
            return None
        # The rows lie one behind the other, so this is no copy, and stays valid till the next row.
        window: Array = self._rows[self._end - self.size : self._end].reshape(-1)
        return window

    def with_next(self, row: Array) -> Array:
        """Gives the rows up to now and this one as one input, shorter where rows are missing."""
        return np.concatenate([self.tail.reshape(-1), row])

    def add_many(self, rows: Array) -> Array:
        """Takes in rows; gives the inputs they complete, one a row."""
        joined = np.concatenate([self.tail, rows])
        # Only the last ones are needed by what comes.
        last = joined[max(len(joined) - self.size + 1, 0) :]
        self._rows[: len(last)], self._end = last, len(last)
        return stacked(joined, self.size)

    @property
    def tail(self) -> Array:
        """The rows that the next input begins with."""
        held = len(self)
        return self._rows[self._end - held : self._end]


def stacked(rows: Array, size: int) -> Array:
    """Sets each row and those before it side by side; the first rows complete no input."""
    if size == 1:
        return rows
    if len(rows) < size:
        return np.empty((0, size * rows.shape[1]), rows.dtype)
    view = np.lib.stride_tricks.sliding_window_view(rows, size, axis=0)
    return np.ascontiguousarray(view.transpose(0, 2, 1)).reshape(len(rows) - size + 1, -1)
