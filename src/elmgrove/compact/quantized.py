"""A matrix as whole numbers of 8 bits with a scale."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.errors import BadInput

Array = NDArray[Any]
#: The largest value; −128 is not used, so that a matrix and its negative are alike.
LARGEST = 127


@dataclass(frozen=True, eq=False)
class Quantized:
    """``values`` · ``scale``, where values are int8 from −127 to 127, and the scale is float32.

    The scale is 1 × 1, or 1 × columns where columns differ much in size. Each entry is off by half
    a scale at most, so what is small beside the largest entry under the same scale is lost.
    """

    values: NDArray[np.int8]
    scale: NDArray[np.float32]

    def __post_init__(self) -> None:
        columns = self.values.shape[1] if self.values.ndim == 2 else 0
        if self.values.dtype != np.int8 or self.scale.dtype != np.float32:
            raise BadInput("values must be int8 and their scale float32")
        if not columns or self.scale.shape not in ((1, 1), (1, columns)):
            raise BadInput("values must be a matrix, with one scale or one for each column")
        if not (np.isfinite(self.scale).all() and (self.scale > 0).all()):
            raise BadInput("a scale must be a finite number above 0")
        if (self.values == -128).any():
            raise BadInput("a value of -128, which is never written")

    @classmethod
    def of(cls, matrix: Array, *, by_column: bool = False) -> "Quantized":
        """The nearest; ``BadInput`` for numbers that are not finite, or not within float32."""
        with np.errstate(over="ignore"):
            largest = np.abs(matrix).max(axis=0 if by_column else None, keepdims=True)
            exact = (largest / LARGEST).astype(np.float32)
        # A little more, so that the largest entry stays within 127, and 0 has a scale as well.
        scale = np.nextafter(exact, np.float32(np.inf))
        if not np.isfinite(scale).all():
            raise BadInput("can't quantize numbers that are not finite in float32")
        values = np.rint(matrix / scale.astype(np.float64)).astype(np.int8)
        return cls(values, scale)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """In float64, exactly what is stored."""
        return self.values.astype(np.float64) * self.scale.astype(np.float64)
