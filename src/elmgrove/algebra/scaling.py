"""Scaling of inputs by numbers that are equal on every device of a federation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput

#: The ways to scale columns, by name.
SCALINGS = ("none", "minmax", "standard")
# A column's tails count at most so much.
_HEAVIEST = 30.0
# The rows farthest off may be faults: this share of all, and so many more, say nothing of tails.
_FAULTS, _MORE_FAULTS = 0.001, 2


@dataclass(frozen=True)
class Scaling:
    """Scales each column to (x - shift) / scale, or leaves rows as they are.

    The numbers are fixed when a device starts and belong to the fingerprint: evidence gathered
    with other numbers can't be merged by mistake. Values outside stated bounds are not clipped,
    since how far outside they lie is what a detector should see.

    ``tails`` says how much heavier than a Gaussian's the tails of each column are: its kurtosis
    divided by 3, from 1 to 30. A distance takes so many times as much of what a column has of its
    own for noise (``Covariance``). Only rows with many columns have it.

    >>> Scaling.minmax([0, 10], [1, 30])(np.array([0.5, 20.0])).tolist()
    [0.5, 0.5]
    """

    kind: str = "none"
    shift: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    tails: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in SCALINGS:
            raise BadInput(f"scaling must be one of {', '.join(SCALINGS)}, not {self.kind!r}")
        for name in ("shift", "scale", "tails"):
            object.__setattr__(self, name, _floats(getattr(self, name)))
        if len(self.shift) != len(self.scale) or (self.kind == "none") != (not self.shift):
            raise BadInput(f"scaling {self.kind!r} needs a shift and a scale for each column")
        for column, (shift, scale) in enumerate(zip(self.shift, self.scale, strict=True)):
            if not (math.isfinite(shift) and math.isfinite(scale) and scale > 0):
                raise BadInput(
                    f"scaling of column {column}: shift {shift} and scale {scale} must be "
                    "finite, and the scale above 0",
                    column=column,
                )
        if self.tails and len(self.tails) != len(self.shift):
            raise BadInput(
                f"tails of {len(self.tails)} columns, where {len(self.shift)} are scaled"
            )
        for column, tail in enumerate(self.tails):
            if not 1.0 <= tail <= _HEAVIEST:
                raise BadInput(
                    f"tails of column {column}: {tail} must be from 1 to {_HEAVIEST:.0f}",
                    column=column,
                )

    @classmethod
    def minmax(cls, low: Sequence[float], high: Sequence[float]) -> "Scaling":
        """Makes a scaling that maps low to 0 and high to 1 in each column."""
        lows, highs = _floats(low), _floats(high)
        if len(lows) != len(highs):
            raise BadInput(f"{len(lows)} lower bounds, but {len(highs)} upper ones")
        return cls("minmax", lows, tuple(b - a for a, b in zip(lows, highs, strict=True)))

    @classmethod
    def standard(cls, mean: Sequence[float], deviation: Sequence[float]) -> "Scaling":
        """Makes a scaling that subtracts the mean and divides by the standard deviation."""
        return cls("standard", _floats(mean), _floats(deviation))

    @classmethod
    def fitted(cls, kind: str, X: Array, tails: bool = False) -> "Scaling":
        """Makes the scaling that these rows suggest.

        A constant column keeps its unit, or has its own size where that is less than a unit: from
        0.02 to 0.04 is as far as from 7 to 8.
        """
        if kind == "none":
            return cls()
        low, spread = X.min(axis=0), np.ptp(X, axis=0)
        shift, scale = (low, spread) if kind == "minmax" else (X.mean(axis=0), X.std(axis=0))
        # The computed deviation of a constant column is rounding noise, not zero.
        size = np.where(low == 0.0, 1.0, np.minimum(np.abs(low), 1.0))
        scales = _floats(np.where(spread > 0, scale, size))
        return cls(kind, _floats(shift), scales, _floats(_tails(X)) if tails else ())

    @cached_property
    def _shift(self) -> Array:
        return np.array(self.shift)

    @cached_property
    def _rate(self) -> Array:
        return 1.0 / np.array(self.scale)

    def __call__(self, X: Array) -> Array:
        """Scales rows (or a row), in the dtype of X; gives X itself where there is no scaling."""
        if self.kind == "none":
            return X
        scaled = X - self._shift
        scaled *= self._rate
        return scaled if scaled.dtype is X.dtype else scaled.astype(X.dtype, copy=False)

    @property
    def fields(self) -> dict[str, Any]:
        """The scaling as JSON holds it; floats come back from there exactly."""
        known = {"kind": self.kind, "shift": list(self.shift), "scale": list(self.scale)}
        return known | {"tails": list(self.tails)} if self.tails else known

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Scaling":
        """Makes a scaling of what ``fields`` gave."""
        return cls(
            fields["kind"],
            _floats(fields["shift"]),
            _floats(fields["scale"]),
            _floats(fields.get("tails", ())),
        )


def _tails(X: Array) -> Array:
    """The kurtosis of each column about its median, over a Gaussian's, without likely faults."""
    faults = math.ceil(_FAULTS * len(X)) + _MORE_FAULTS
    off = np.sort(np.abs(X - np.median(X, axis=0)), axis=0)[:-faults]
    if not len(off):
        return np.ones(X.shape[1])
    # Of the largest, so that no power of it is beyond range.
    off /= np.where(off[-1] > 0.0, off[-1], 1.0)
    square = np.mean(off**2, axis=0)
    kurtosis = np.mean(off**4, axis=0) / np.where(square > 0.0, square, 1.0) ** 2
    # What moved in so few rows only may move like that again.
    kurtosis[(square == 0.0) & (np.ptp(X, axis=0) > 0.0)] = np.inf
    tails: Array = np.clip(kurtosis / 3.0, 1.0, _HEAVIEST)
    return tails


def _floats(values: Any) -> tuple[float, ...]:
    # + 0.0 makes -0.0 into 0.0: what is equal has the same fingerprint.
    return tuple(float(value) + 0.0 for value in values)
