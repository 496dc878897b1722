"""The check of rows from outside: bad ones are refused, with row and column named."""

import math
import sys
from decimal import Decimal
from numbers import Real
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ddot

from elmgrove.algebra.linalg import one_thread
from elmgrove.errors import BadInput

#: An array of numbers of any shape and dtype.
Array = NDArray[Any]
# The square root of the largest number.
_MOST_ENERGY = math.sqrt(sys.float_info.max)


class Rows:
    """The shape that rows must have, and the names of their columns; rows are in float64.

    Taking in a row also gives its energy Σ xᵢ², whose being finite shows in one pass that every
    value is. Rows whose energy lies beyond the square root of float64's range are refused as well:
    their squares, summed over many rows, would overflow.
    """

    def __init__(self, width: int, names: tuple[str, ...] | None = None) -> None:
        self.width = width
        self.names = names
        self._shape = (width,)

    def one(self, x: Any) -> tuple[Array, float]:
        """Checks one row; gives it as an array, and its energy."""
        # Any other object takes the slow way, which ends here as well or says what is wrong.
        if type(x) is not np.ndarray or x.dtype != np.float64 or x.shape != self._shape:
            x = self._converted(x, 1)
        energy: float = ddot(x, x)
        if not energy <= _MOST_ENERGY:
            self._refuse(x[np.newaxis])
        return x, energy

    def many(self, X: Any) -> tuple[Array, float]:
        """Checks rows; gives them as one contiguous array, and the sum of their energies."""
        if type(X) is not np.ndarray or X.dtype != np.float64 or X.shape[1:] != self._shape:
            X = self._converted(X, 2)
        X = np.ascontiguousarray(X)
        flat = X.reshape(-1)
        # From 10,000 values on OpenBLAS would spread even this over threads, and wait for them.
        with one_thread:
            energy = float(ddot(flat, flat)) if flat.size else 0.0
        # Many rows may add up to more than one row may have.
        if not energy <= _MOST_ENERGY and not np.einsum("ij,ij->i", X, X).max() <= _MOST_ENERGY:
            self._refuse(X)
        return X, energy

    def name(self, column: int) -> str:
        return f"column {column}" + (f" ({self.names[column]!r})" if self.names else "")

    def _converted(self, X: Any, dimensions: int) -> Array:
        self._require_order(getattr(X, "columns" if dimensions == 2 else "index", None))
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)
        try:
            made: Array = np.asarray(X)
            # Text, dates and complex numbers would convert as well, into something else.
            if made.dtype.kind not in "biuf":
                self._refuse_text(X, dimensions)
            # What overflows is not finite, which is refused with row and column.
            with np.errstate(over="ignore"):
                made = made.astype(np.float64, copy=False)
        except (ValueError, TypeError, OverflowError) as error:
            self._refuse_text(X, dimensions)
            raise BadInput(f"not rows of numbers: {error}") from error
        if made.ndim != dimensions or made.shape[-1] != self.width:
            shape = " × ".join(map(str, made.shape)) or "a single value"
            what = "a row" if dimensions == 1 else "rows"
            raise BadInput(f"expected {what} of {self.width} columns, got {shape}")
        return made

    def _require_order(self, labels: Any) -> None:
        """A table or a series with names must have them in our order."""
        if labels is None or callable(labels) or self.names is None:
            return
        found = list(labels)
        if all(isinstance(label, str) for label in found) and found != list(self.names):
            raise BadInput(f"expected columns {list(self.names)}, got {found}")

    def _refuse(self, X: Array) -> NoReturn:
        finite = np.isfinite(X)
        if not finite.all():
            row, column = (int(i) for i in np.argwhere(~finite)[0])
            what = f"{X[row, column]} is not a finite number"
            raise BadInput(f"row {row}, {self.name(column)}: {what}", row, column)
        row, column = (int(i) for i in np.unravel_index(np.abs(X).argmax(), X.shape))
        raise BadInput(
            f"row {row}, {self.name(column)}: {X[row, column]:g} is too large; scale the inputs",
            row,
            column,
        )

    def _refuse_text(self, X: Any, dimensions: int) -> None:
        """Raises for the first row that has the wrong length or a value that is no number."""
        for row, values in enumerate(
            [X] if dimensions == 1 else np.atleast_1d(np.asarray(X, object))
        ):
            cells = list(values) if np.iterable(values) else [values]
            if len(cells) != self.width:
                raise BadInput(f"row {row}: expected {self.width} columns, got {len(cells)}", row)
            for column, cell in enumerate(cells):
                if not _is_number(cell):
                    raise BadInput(
                        f"row {row}, {self.name(column)}: {cell!r:.60} is not a number",
                        row,
                        column,
                    )


def _is_number(cell: Any) -> bool:
    if isinstance(cell, np.timedelta64) or not isinstance(cell, Real | Decimal | None):
        return False
    try:
        float(cell or 0.0)
    except OverflowError:
        return False
    return True
