"""From rows as they come to inputs of the model: checked, as spectra, scaled, in windows."""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.distance import Distance
from elmgrove.algebra.moment_sums import MomentSums
from elmgrove.algebra.rows import Array, Rows
from elmgrove.algebra.spectrum import Frames, Spectrum
from elmgrove.detector.dataframes import row_by_name, rows_by_name, times_of
from elmgrove.errors import EARLIEST, LATEST, BadInput, require_time

#: The window that is chosen for time series.
USUAL = 10
# More inputs than this cost more than they tell.
_MOST_INPUTS = 1024
# Rows from which on faults can be tried on them.
_LEAST_LOOK = 300


class Choice(NamedTuple):
    """A window, and why."""

    window: int
    reason: str


def require_window(window: str) -> str:
    """Return the text if it is ``auto`` or a number of rows; else raise ``BadInput``."""
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
    # A machine that warms up each morning shows it only after many hundreds.
    return least, max(2000, least)


def choose_window(rows: Array, spectrum: Spectrum | None = None) -> Choice:
    """Decide from the rows themselves whether ten of them should be one input, or each by itself.

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
    if len(rows) < 5 * USUAL:
        return Choice(1, f"{len(rows)} rows are too few to see whether they are a time series")
    looked_at = np.asarray(rows[: rows_to_decide(columns)[1]], np.float64)
    alike = _likeness(looked_at)
    if alike < 0.3:
        return Choice(1, f"neighbouring rows are hardly alike (correlation {alike:.2f}): a table")
    if len(looked_at) >= _LEAST_LOOK:
        alone, together = (_faults_shown(looked_at, window) for window in (1, USUAL))
        # Faults that a row alone does not show can't be hidden by a window, and twenty rows' worth
        # of them may be hidden by chance.
        if alone >= 0.5 and together < alone - 20.0 / len(looked_at):
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
    """The share of faults of one sensor, six residual deviations off, that 1 % would flag.

    Learned from the first two thirds; threshold and faults are those of the last third. Faults of
    one row, and faults that last for a window: of the two, those that show less.
    """
    known, later = rows[: 2 * len(rows) // 3], rows[2 * len(rows) // 3 :]
    distance, alone = (_distance(known, size) for size in (window, 1))
    inputs = stacked(distance.basis.scaling(later), window)
    limit = np.quantile(distance.score_many(inputs), 0.99)
    moving = np.flatnonzero(known.std(axis=0) > 0.0)
    # Evenly chosen, so that equal rows give equal answers.
    sensors = moving[np.linspace(0, len(moving) - 1, min(16, len(moving))).astype(int)]
    places = np.linspace(0, len(inputs) - 1, min(16, len(inputs))).astype(int)
    column = np.tile(np.repeat(sensors, 2), len(places))
    size = 6.0 * np.tile([1.0, -1.0], len(column) // 2) * alone.residual[column]
    single = np.repeat(inputs[places], 2 * len(sensors), axis=0)
    single = single.reshape(len(column), window, rows.shape[1])
    lasting, each = single.copy(), np.arange(len(column))
    single[each, -1, column] += size
    lasting[each, :, column] += size[:, np.newaxis]
    faults = (single.reshape(len(column), -1), lasting.reshape(len(column), -1))
    return min(float(np.mean(distance.score_many(faulty) > limit)) for faulty in faults)


def _distance(rows: Array, window: int) -> Distance:
    basis = Basis.fitted(rows, None, scaling="standard", window=window)
    sums = MomentSums(basis, 1.0)
    sums.add_many(stacked(basis.scaling(rows), window))
    return Distance(sums.evidence)


#: The times of an input's oldest and newest row, in seconds; no number where it is not known.
Period = tuple[float, float]


class Window:
    """The last rows of a stream; each new row completes an input of ``size`` rows.

    ``restart`` begins again where rows do not follow each other: after a gap or a bad row.
    """

    def __init__(self, size: int, columns: int) -> None:
        self.size = size
        self._rows: Array = np.empty((size, columns))
        self._times: deque[float] = deque(maxlen=size)

    def __len__(self) -> int:
        return min(len(self._times), self.size - 1)

    def restart(self) -> None:
        self._times.clear()

    def add(self, row: Array, time: float = math.nan) -> Array | None:
        """Add a row, and return the input it completes; None where rows are missing."""
        self._times.append(time)
        self._rows[:-1] = self._rows[1:]
        self._rows[-1] = row
        # No copy: it stays valid till the next row.
        return None if len(self._times) < self.size else self._rows.reshape(-1)

    def with_next(self, row: Array) -> Array:
        """The rows up to now and this one as one input, shorter where rows are missing."""
        return np.concatenate([self.tail.reshape(-1), row])

    def add_many(self, rows: Array, times: Array | None = None) -> Array:
        joined, when = np.concatenate([self.tail, rows]), self._joined(rows, times)
        # Only the last ones are needed by what comes, and those held are among them.
        held = min(len(joined), self.size)
        self.restart()
        self._rows[self.size - held :] = joined[len(joined) - held :]
        self._times.extend(when[len(joined) - held :].tolist())
        return stacked(joined, self.size)

    @property
    def period(self) -> Period:
        return self._times[0], self._times[-1]

    def periods(self, rows: Array, times: Array) -> Array:
        """The period of each input that these rows would complete, as two columns."""
        when = self._joined(rows, times)
        inputs = max(len(when) - self.size + 1, 0)
        return np.stack([when[:inputs], when[len(when) - inputs :]], axis=1)

    def _joined(self, rows: Array, times: Array | None) -> Array:
        held = self.times
        new = np.full(len(rows), math.nan) if times is None else times
        return np.concatenate([held, new]) if len(held) else new

    @property
    def times(self) -> Array:
        """The times of the rows that the next input begins with."""
        return np.array(list(self._times)[len(self._times) - len(self) :])

    @property
    def tail(self) -> Array:
        """The rows that the next input begins with."""
        return self._rows[self.size - len(self) :]


def stacked(rows: Array, size: int) -> Array:
    """Set each row and those before it side by side; the first rows complete no input."""
    if size == 1:
        return rows
    if len(rows) < size:
        return np.empty((0, size * rows.shape[1]), rows.dtype)
    view = np.lib.stride_tricks.sliding_window_view(rows, size, axis=0)
    return np.ascontiguousarray(view.transpose(0, 2, 1)).reshape(len(rows) - size + 1, -1)


class Preparation:
    """Prepare rows as a basis says, and remember what the next one follows.

    A bad row is refused with row and column named, and changes nothing here.
    """

    def __init__(self, basis: Basis) -> None:
        basis.scaling.require_numbers()
        self.basis = basis
        names = basis.features if basis.spectrum is None else None
        self._rows = Rows(basis.layer.inputs, names)
        # Rows are scaled before they are rounded: a large mean would swallow what differs.
        self._raw = Rows(basis.columns, basis.features)
        self._scaling = basis.scaling if basis.scaling.kind != "none" else None
        #: The samples of a frame that is not complete yet; None where rows are no samples.
        self.frames = None if basis.spectrum is None else Frames(basis.spectrum, self._raw)
        #: The rows that the next input begins with.
        self.last_rows = Window(basis.window, basis.layer.inputs)
        #: The times of the oldest and the newest row of the last input.
        self.period: Period = (math.nan, math.nan)

    def restart(self) -> None:
        self.last_rows.restart()
        if self.frames is not None:
            self.frames.restart()

    # Of rows that nothing need follow

    def one(self, row: Any) -> Array:
        """Prepare one row; of samples, one whole frame."""
        if self.basis.spectrum is not None:
            samples = rows_by_name(self.basis, row)
            frame: Array = self.basis.spectrum(self._raw.many(samples)[0])
            return self._rows.one(frame if self._scaling is None else self._scaling(frame))[0]
        if not isinstance(row, np.ndarray | list | tuple):
            row = row_by_name(self.basis, row)
        if self._scaling is not None:
            row = self._raw.one(row)[0] - self._scaling.offset
            row *= self._scaling.rate
        return self._rows.one(row)[0]

    def many(self, rows: Any) -> Array:
        """Prepare rows of a stretch by itself; of samples, the frames there are in it."""
        rows = rows_by_name(self.basis, rows)
        if self.basis.spectrum is not None:
            return self._featured(Frames(self.basis.spectrum, self._raw).add(rows))
        if self._scaling is not None:
            rows = self._scaling(self._raw.many(rows)[0])
        return self._rows.many(rows)[0]

    # Of rows that follow the last ones

    def next_many(self, rows: Any, times: Any = None) -> tuple[Array, Array]:
        """Prepare rows that follow the last ones, and return the time of each, too.

        Of samples, the frames that they complete; a frame's time is that of its last sample. A
        table with dates tells the times itself.
        """
        times = times_of(rows, self.basis.features) if times is None else times
        rows = rows_by_name(self.basis, rows)
        if self.frames is None or self.basis.spectrum is None:
            X = self.many(rows)
            return X, _times(times, len(X))
        if times is None:
            X = self._featured(self.frames.add(rows))
            return X, _times(None, len(X))
        # Before the samples are taken in: all or none.
        when = _times(times, 1 if np.ndim(rows) == 1 else len(rows))
        held, spectrum = len(self.frames.pending), self.basis.spectrum
        X = self._featured(self.frames.add(rows))
        return X, when[spectrum.length - 1 - held :: spectrum.step]

    def next_input(self, row: Any, time: float | None = None) -> Array | None:
        """Return the input that a row completes, an array of its own; None if rows are missing.

        ``period`` is then that of the input.
        """
        x, when = self.one(row), math.nan if time is None else time
        if not (time is None or EARLIEST <= when <= LATEST):
            require_time(when)
        if self.basis.window == 1:
            self.period = when, when
            # The caller may use its buffer again.
            return x.copy() if self._scaling is None else x
        window = self.last_rows.add(x, when)
        self.period = self.last_rows.period
        return None if window is None else window.copy()

    @property
    def partial(self) -> Array:
        """The rows of a window that is not full yet, as one shorter input."""
        return self.last_rows.tail.reshape(-1).copy()

    def _featured(self, features: Array) -> Array:
        scaled = features if self._scaling is None else self._scaling(features)
        return self._rows.many(scaled)[0]

    # On disk

    @property
    def arrays(self) -> dict[str, Array]:
        last = {"last_rows": self.last_rows.tail.copy()}
        if not np.isnan(times := self.last_rows.times).all():
            last["last_times"] = times
        return last if self.frames is None else {**last, "samples": self.frames.pending}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        last = arrays["last_rows"]
        if last.ndim != 2 or len(last) > self.basis.window - 1:
            raise BadInput("more last rows than a window begins with")
        times = arrays.get("last_times")
        if times is not None and times.shape != (len(last),):
            raise BadInput("not one time for each of the last rows")
        self.last_rows.add_many(last, times)
        if self.frames is not None and len(self.frames.add(arrays["samples"])):
            raise BadInput("more samples than an unfinished frame has")


def _times(times: Any, rows: int) -> Array:
    """One time for each row: as given, or NaN."""
    if times is None:
        return np.full(rows, math.nan)
    known = np.asarray(times, np.float64)
    if known.shape != (rows,) or not np.isfinite(known).all():
        raise BadInput(f"times: one finite number of seconds for each of {rows} rows")
    for time in (known.min(), known.max()) if rows else ():
        require_time(float(time))
    return known
