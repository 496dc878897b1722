"""Scaling of inputs: by numbers that a federation has in common, or by each device's own."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from elmgrove.algebra.linalg import EPSILON
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput

#: A column's tails count at most so much.
HEAVIEST = 30.0


@dataclass(frozen=True, eq=False)
class Levels:
    """How many rows there were, and of each column its mean and variance, in the data's units.

    ``extremes`` are the lowest and the highest value of each column; None where only sums are
    known. ``tails`` say how much heavier than a Gaussian's its tails are; None where nobody asked.
    The variance of a column that never moved is 0, and of no other.
    """

    count: float
    mean: Array
    variance: Array
    extremes: tuple[Array, Array] | None = None
    tails: Array | None = None

    @classmethod
    def of_rows(cls, X: Array, tails: bool = False) -> "Levels":
        low, high = X.min(axis=0), X.max(axis=0)
        # What is computed of a constant is rounding noise.
        still = low == high
        mean, variance = np.where(still, low, X.mean(axis=0)), np.where(still, 0.0, X.var(axis=0))
        return cls(len(X), mean, variance, (low, high), _tails(X) if tails else None)

    @classmethod
    def together(cls, several: Sequence["Levels"]) -> "Levels":
        """Finds the levels of the rows of all: those of one file, if all rows were in one.

        But for the tails: each file's are about its own median, and all have their mean, by rows.
        Where files lie at different levels, those of all rows would speak of that instead.
        """
        if len(several) == 1:
            return several[0]
        weights = np.array([one.count for one in several])
        count, weights = weights.sum(), weights / weights.sum()
        # Σx and Σx², about the first mean, so that no large offset swallows what differs.
        first = several[0].mean
        away = np.array([one.mean for one in several]) - first
        # Means that differ by less are those of one constant, summed up in two ways.
        away[np.abs(away) <= 8.0 * EPSILON * np.abs(first)] = 0.0
        mean = weights @ away
        variance = weights @ (np.array([one.variance for one in several]) + (away - mean) ** 2)
        tails = [one.tails for one in several if one.tails is not None]
        known = len(tails) == len(several)
        tail = np.clip(weights @ np.array(tails), 1.0, HEAVIEST) if known else None
        return cls(float(count), first + mean, variance, tails=tail)

    @property
    def deviation(self) -> Array:
        """How far a value of each column usually is from its mean; 0 where it never moved."""
        return np.sqrt(self.variance)

    @property
    def unit(self) -> Array:
        """The unit of each column: its deviation, or its size, at most 1, where it never moved.

        From 0.02 to 0.04 is as far as from 7 to 8.
        """
        size = np.where(self.mean == 0.0, 1.0, np.minimum(np.abs(self.mean), 1.0))
        return np.where(self.variance == 0.0, size, self.deviation)


def _tails(X: Array) -> Array:
    """The kurtosis of each column about its median, over a Gaussian's, without likely faults."""
    # The rows farthest off may be faults.
    faults = math.ceil(0.001 * len(X)) + 2
    off = np.sort(np.abs(X - np.median(X, axis=0)), axis=0)[:-faults]
    if not len(off):
        return np.ones(X.shape[1])
    # Of the largest, so that no power of it is beyond range.
    off /= np.where(off[-1] > 0.0, off[-1], 1.0)
    square = np.mean(off**2, axis=0)
    kurtosis = np.mean(off**4, axis=0) / np.where(square > 0.0, square, 1.0) ** 2
    # What moved in so few rows only may move like that again.
    kurtosis[(square == 0.0) & (np.ptp(X, axis=0) > 0.0)] = np.inf
    tails: Array = np.clip(kurtosis / 3.0, 1.0, HEAVIEST)
    return tails


#: The scaling by which each device has its own units.
OWN = "own"
#: The ways to scale columns, by name.
SCALINGS = ("none", "minmax", "standard", OWN)


@dataclass(frozen=True)
class Scaling:
    """Scales each column to (x - shift) / scale, or leaves rows as they are.

    The numbers belong to the fingerprint: evidence gathered with others can't be merged by mistake.
    In ``own`` units each device takes off its own mean and divides by its own deviation: these are
    no part of the fingerprint and never leave the device.

    ``tails`` says how much heavier than a Gaussian's the tails of each column are: its kurtosis
    divided by 3, from 1 to 30. A distance takes so many times as much of what a column has of its
    own for noise. Only rows with many columns have it.

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
        numbers = self.kind == OWN or (self.kind == "none") != bool(self.shift)
        if len(self.shift) != len(self.scale) or not numbers:
            raise BadInput(f"scaling {self.kind!r} needs a shift and a scale for each column")
        for column, (shift, scale) in enumerate(zip(self.shift, self.scale, strict=True)):
            if not (math.isfinite(shift) and math.isfinite(scale) and scale > 0):
                raise BadInput(
                    f"scaling of column {column}: shift {shift} and scale {scale} must be "
                    "finite, and the scale above 0",
                    column=column,
                )
        if self.tails and len(self.tails) != len(self.shift) and not self.lacks_numbers:
            raise BadInput(
                f"tails of {len(self.tails)} columns, where {len(self.shift)} are scaled"
            )
        for column, tail in enumerate(self.tails):
            if not 1.0 <= tail <= HEAVIEST:
                raise BadInput(
                    f"tails of column {column}: {tail} must be from 1 to {HEAVIEST:.0f}",
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
        """Makes the scaling that these rows suggest."""
        return cls.of(kind, Levels.of_rows(X, tails)) if kind != "none" else cls()

    @classmethod
    def of(cls, kind: str, levels: Levels) -> "Scaling":
        """Makes the scaling of columns at these levels, which may be those of several files.

        A constant column keeps its unit, or has its own size where that is less than a unit. What
        leaves the device, a mean and a deviation, is rounded.
        """
        if kind == "none":
            return cls()
        shift, scale = levels.mean, levels.unit
        if kind == "minmax":
            if levels.extremes is None:
                raise BadInput("minmax needs the extremes of columns, which sums do not tell")
            shift, high = levels.extremes
            scale = np.where(high > shift, high - shift, scale)
        elif kind == "standard":
            rounded = _rounded(shift, scale)
            # What is the same in every row tells nothing about one.
            shift, scale = np.where(levels.deviation > 0.0, rounded, (shift, scale))
        tails = () if levels.tails is None else _floats(levels.tails)
        return cls(kind, _floats(shift), _floats(scale), tails)

    @property
    def lacks_numbers(self) -> bool:
        """Whether each device must still find its own units."""
        return self.kind == OWN and not self.shift

    @property
    def common(self) -> "Scaling":
        """The scaling as a federation has it in common: without the numbers of own units."""
        return Scaling(OWN, tails=self.tails) if self.kind == OWN and self.shift else self

    def require_numbers(self) -> None:
        """Raises ``BadInput`` if these are own units that nobody has found yet."""
        if self.lacks_numbers:
            raise BadInput(
                "in own units each device needs its own level and deviation of each column, from "
                "rows of its own: give units_from, a day or more of normal rows"
            )

    @cached_property
    def offset(self) -> Array:
        self.require_numbers()
        return np.array(self.shift)

    @cached_property
    def rate(self) -> Array:
        return 1.0 / np.array(self.scale)

    def units(self, column: int) -> tuple[float, float]:
        """The shift and the scale of a column; 0 and 1 where there is no scaling."""
        return (0.0, 1.0) if self.kind == "none" else (self.shift[column], self.scale[column])

    def __call__(self, X: Array) -> Array:
        """Scales rows (or a row); gives X itself where there is no scaling."""
        if self.kind == "none":
            return X
        scaled = X - self.offset
        scaled *= self.rate
        return scaled

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


def _rounded(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """Rounds a mean to tenths of its deviation, and that to two digits.

    A scaling is told to others. With the exact mean of all rows they could work out a row that an
    upload holds back: it is what the mean has and the sums lack.
    """
    digit = 10.0 ** (np.floor(np.log10(deviation)) - 1.0)
    scale = np.round(deviation / digit) * digit
    step = scale / 10.0
    # Next to a large mean a step may be nothing.
    return np.where(np.abs(mean) < step * 2.0**50, np.round(mean / step) * step, mean), scale


def _floats(values: Any) -> tuple[float, ...]:
    # + 0.0 makes -0.0 into 0.0: what is equal has the same fingerprint.
    return tuple(float(value) + 0.0 for value in values)
