"""Windows: the last rows side by side as one input, and whether rows need them."""

import math
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.rows import Array, RowStore
from elmgrove.algebra.spectrum import Spectrum
from elmgrove.algebra.summing import MomentSums
from elmgrove.errors import BadInput

#: The window that is chosen for time series.
USUAL = 10
# More inputs than this cost more than they tell.
_MOST_INPUTS = 1024
# Fewer rows than so many windows do not show what neighbours have to do with each other.
_LEAST_WINDOWS = 5
# The correlation of a column with its last value from which on rows are a time series.
_ALIKE = 0.3
# Rows from which on faults can be tried on them, and the most that are looked at: a machine that
# warms up each morning shows it only after many hundreds.
_LEAST_LOOK, _LOOK = 300, 2000
# The faults to try: how many residual deviations a sensor is off, how many sensors, how many times.
_FAULT, _SENSORS, _TIMES = 6.0, 16, 16
# Faults that a row alone does not show can't be hidden by a window. And so many rows' worth of them
# may be hidden by chance.
_SHOWN, _HIDDEN = 0.5, 20.0
_ROOM = 256


class Choice(NamedTuple):
    """A window, and why."""

    window: int
    reason: str


def require_window(window: str) -> str:
    """Raises ``BadInput`` unless the text is ``auto`` or a number of rows; gives the text."""
    if window != "auto" and not (window.isdecimal() and int(window)):
        raise BadInput(f"window: auto or a number from 1 on, not {window!r}")
    return window


def rows_to_decide(columns: int) -> tuple[int, int]:
    """The first rows from which a window can be decided, and those after which it is final.

    None where the columns alone decide.
    """
    if USUAL * columns > _MOST_INPUTS:
        return 0, 0
    least = max(_LEAST_LOOK, USUAL * columns)
    return least, max(_LOOK, least)


def choose_window(rows: RowStore, spectrum: Spectrum | None = None) -> Choice:
    """Decides from the rows themselves whether ten of them should be one input, or each by itself.

    Ten where neighbours are alike (a time series), there are rows enough to see how, not too many
    columns, and faults of one sensor do not drown among ten rows: that is tried on the last third
    of the rows. One for tables, whose order means nothing. With a ``spectrum`` the rows are
    samples, and their spectra decide.

    Only the first rows are looked at (``rows_to_decide``), so that a machine gets the same window
    from its first rows, as they come, and from a file that begins with them.
    """
    if spectrum is not None:
        rows = spectrum.rows_of(rows)
    columns = rows.shape[1]
    if columns * USUAL > _MOST_INPUTS:
        return Choice(1, f"{columns} columns are too many to set {USUAL} rows side by side")
    if len(rows) < _LEAST_WINDOWS * USUAL:
        return Choice(1, f"{len(rows)} rows are too few to see whether they are a time series")
    looked_at = np.asarray(rows[: rows_to_decide(columns)[1]], np.float64)
    alike = _likeness(looked_at)
    if alike < _ALIKE:
        return Choice(1, f"neighbouring rows are hardly alike (correlation {alike:.2f}): a table")
    if len(looked_at) >= _LEAST_LOOK:
        alone, together = (_faults_shown(looked_at, window) for window in (1, USUAL))
        if alone >= _SHOWN and together < alone - _HIDDEN / len(looked_at):
            return Choice(
                1,
                f"a fault of one sensor would show in {alone:.0%} of cases by a row alone, and in "
                f"{together:.0%} among {USUAL} rows",
            )
    return Choice(USUAL, f"neighbouring rows are alike (correlation {alike:.2f}): a time series")


def _likeness(rows: Array) -> float:
    """The median correlation of the columns that vary with their own last value; 0 if none does."""
    Y = rows - rows.mean(axis=0)
    power = np.einsum("ij,ij->j", Y, Y)
    moving = power > 1e-18 * np.maximum(np.einsum("ij,ij->j", rows, rows), 1e-300)
    if not moving.any():
        return 0.0
    return float(np.median(np.einsum("ij,ij->j", Y[1:], Y[:-1])[moving] / power[moving]))


def _faults_shown(rows: Array, window: int) -> float:
    """The share of faults of one sensor that a threshold at 1 % would flag.

    Learned from the first two thirds; threshold and faults are those of the last third. Faults of
    one row, and faults that last for a window: of the two, those that show less.
    """
    known, later = rows[: 2 * len(rows) // 3], rows[2 * len(rows) // 3 :]
    distance, alone = (_distance(known, size) for size in (window, 1))
    inputs = stacked(distance.basis.scaling(later), window)
    limit = np.quantile(distance.score_many(inputs), 0.99)
    moving = np.flatnonzero(known.std(axis=0) > 0.0)
    # Evenly chosen, so that equal rows give equal answers.
    sensors = moving[np.linspace(0, len(moving) - 1, min(_SENSORS, len(moving))).astype(int)]
    places = np.linspace(0, len(inputs) - 1, min(_TIMES, len(inputs))).astype(int)
    column = np.tile(np.repeat(sensors, 2), len(places))
    size = _FAULT * np.tile([1.0, -1.0], len(column) // 2) * alone.residual[column]
    single = np.repeat(inputs[places], 2 * len(sensors), axis=0)
    single = single.reshape(len(column), window, rows.shape[1])
    lasting, each = single.copy(), np.arange(len(column))
    single[each, -1, column] += size
    lasting[each, :, column] += size[:, np.newaxis]
    faults = (single.reshape(len(column), -1), lasting.reshape(len(column), -1))
    return min(float(np.mean(distance.score_many(faulty) > limit)) for faulty in faults)


def _distance(rows: Array, window: int) -> Distance:
    basis = Basis.fitted(rows, None, scaling="standard", window=window)
    sums = MomentSums(basis, 1.0, np.dtype(np.float64))
    sums.add_many(stacked(basis.scaling(rows), window))
    return Distance(sums.evidence)


#: The times of an input's oldest and newest row, in seconds; no number where it is not known.
Period = tuple[float, float]


class Window:
    """The last rows of a stream; each new row completes an input of ``size`` rows.

    ``restart`` begins again where rows do not follow each other: after a gap or a bad row.
    """

    def __init__(self, size: int, columns: int, dtype: np.dtype[Any]) -> None:
        self.size = size
        self._rows: Array = np.empty((size - 1 + _ROOM, columns), dtype)
        self._end = 0
        self._times: deque[float] = deque(maxlen=size)

    def __len__(self) -> int:
        return min(self._end, self.size - 1)

    def restart(self) -> None:
        """Forgets the rows up to now."""
        self._end = 0
        self._times.clear()

    def add(self, row: Array, time: float = math.nan) -> Array | None:
        """Takes in a row; gives the input it completes, or None where rows are missing."""
        self._times.append(time)
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

    def add_many(self, rows: Array, times: Array | None = None) -> Array:
        """Takes in rows; gives the inputs they complete, one a row."""
        joined, when = np.concatenate([self.tail, rows]), self._joined(rows, times)
        # Only the last ones are needed by what comes, and those held are among them.
        self.restart()
        for place in range(max(len(joined) - self.size + 1, 0), len(joined)):
            self.add(joined[place], float(when[place]))
        return stacked(joined, self.size)

    @property
    def period(self) -> Period:
        """The period of the last input."""
        return self._times[0], self._times[-1]

    def periods(self, rows: Array, times: Array) -> Array:
        """Gives the period of each input that these rows would complete, as two columns."""
        when = self._joined(rows, times)
        inputs = max(len(when) - self.size + 1, 0)
        return np.stack([when[:inputs], when[len(when) - inputs :]], axis=1)

    def _joined(self, rows: Array, times: Array | None) -> Array:
        """The times of the rows held, and of these."""
        held = self.times
        told = np.full(len(rows), math.nan) if times is None else times
        return np.concatenate([held, told]) if len(held) else told

    @property
    def times(self) -> Array:
        """The times of the rows that the next input begins with."""
        return np.array(list(self._times)[len(self._times) - len(self) :])

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
