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


@dataclass(frozen=True)
class Scaling:
    """Scales each column to (x - shift) / scale, or leaves rows as they are.

    The numbers are fixed when a device starts and belong to the fingerprint: evidence gathered
    with other numbers can't be merged by mistake. Values outside stated bounds are not clipped,
    since how far outside they lie is what a detector should see.

    >>> Scaling.minmax([0, 10], [1, 30])(np.array([0.5, 20.0])).tolist()
    [0.5, 0.5]
    """

    kind: str = "none"
    shift: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in SCALINGS:
            raise BadInput(f"scaling must be one of {', '.join(SCALINGS)}, not {self.kind!r}")
        for name in ("shift", "scale"):
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
    def fitted(cls, kind: str, X: Array) -> "Scaling":
        """Makes the scaling that these rows suggest; a constant column keeps its unit."""
        if kind == "none":
            return cls()
        low, spread = X.min(axis=0), np.ptp(X, axis=0)
        shift, scale = (low, spread) if kind == "minmax" else (X.mean(axis=0), X.std(axis=0))
        # The computed deviation of a constant column is rounding noise, not zero.
        return cls(kind, _floats(shift), _floats(np.where(spread > 0, scale, 1.0)))

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
        return {"kind": self.kind, "shift": list(self.shift), "scale": list(self.scale)}

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> "Scaling":
        """Makes a scaling of what ``fields`` gave."""
        return cls(fields["kind"], _floats(fields["shift"]), _floats(fields["scale"]))


def _floats(values: Any) -> tuple[float, ...]:
    # + 0.0 makes -0.0 into 0.0: what is equal has the same fingerprint.
    return tuple(float(value) + 0.0 for value in values)
