"""From rows as they come to inputs of the model: checked, as spectra, scaled, side by side."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array, Rows
from elmgrove.algebra.spectrum import Frames
from elmgrove.detector.frames import row_by_name, rows_by_name, times_of
from elmgrove.detector.windows import Period, Window
from elmgrove.errors import BadInput, require_time


class Preparation:
    """Prepares rows as a basis says, and remembers what the next one follows.

    A bad row is refused with row and column named, and changes nothing here.
    """

    def __init__(self, basis: Basis, dtype: np.dtype[Any]) -> None:
        basis.scaling.require_numbers()
        self.basis = basis
        names = basis.features if basis.spectrum is None else None
        self._rows = Rows(basis.layer.inputs, dtype, names)
        # Rows are scaled before they are rounded: a large mean would swallow what differs.
        self._raw = Rows(basis.columns, np.float64, basis.features)
        self._scaling = basis.scaling if basis.scaling.kind != "none" else None
        #: The samples of a frame that is not complete yet; None where rows are no samples.
        self.frames = None if basis.spectrum is None else Frames(basis.spectrum, self._raw)
        #: The rows that the next input begins with.
        self.last_rows = Window(basis.window, basis.layer.inputs, dtype)
        #: The times of the oldest and the newest row of the last input.
        self.period: Period = (math.nan, math.nan)

    def restart(self) -> None:
        """Forgets what came: the next row does not follow it."""
        self.last_rows.restart()
        if self.frames is not None:
            self.frames.restart()

    # Of rows that nothing need follow

    def one(self, row: Any) -> Array:
        """Prepares one row; of samples, one whole frame."""
        if self.basis.spectrum is not None:
            samples = rows_by_name(self.basis, row)
            frame: Array = self.basis.spectrum(self._raw.many(samples)[0])
            return self._rows.one(frame if self._scaling is None else self._scaling(frame))[0]
        if type(row) is not np.ndarray:
            row = row_by_name(self.basis, row)
        if self._scaling is not None:
            row = self._raw.one(row)[0] - self._scaling.offset
            row *= self._scaling.rate
        return self._rows.one(row)[0]

    def many(self, rows: Any) -> Array:
        """Prepares rows of a stretch by itself; of samples, the frames there are in it."""
        rows = rows_by_name(self.basis, rows)
        if self.basis.spectrum is not None:
            return self._featured(Frames(self.basis.spectrum, self._raw).add(rows))
        if self._scaling is not None:
            rows = self._scaling(self._raw.many(rows)[0])
        return self._rows.many(rows)[0]

    def unscaled(self, rows: Any) -> Array:
        """Checks rows, and leaves them as they are."""
        return self._raw.many(rows_by_name(self.basis, rows))[0]

    # Of rows that follow the last ones

    def next_many(self, rows: Any, times: Any = None) -> tuple[Array, Array]:
        """Prepares rows that follow the last ones, and gives the time of each.

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
        """Makes the input that a row completes, an array of its own; None if rows are missing.

        ``period`` is then that of the input.
        """
        x, when = self.one(row), math.nan if time is None else require_time(time)
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
        """Spectra, scaled and checked."""
        scaled = features if self._scaling is None else self._scaling(features)
        return self._rows.many(scaled)[0]

    # On disk

    @property
    def arrays(self) -> dict[str, Array]:
        """What the next row follows, to be saved."""
        last = {"last_rows": self.last_rows.tail.copy()}
        if not np.isnan(times := self.last_rows.times).all():
            last["last_times"] = times
        return last if self.frames is None else {**last, "samples": self.frames.pending}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from ``arrays``."""
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
    """One time for each row: as told, or no number."""
    if times is None:
        return np.full(rows, math.nan)
    known = np.asarray(times, np.float64)
    if known.shape != (rows,) or not np.isfinite(known).all():
        raise BadInput(f"times: one finite number of seconds for each of {rows} rows")
    for time in (known.min(), known.max()) if rows else ():
        require_time(float(time))
    return known
