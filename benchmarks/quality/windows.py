"""Windows: several consecutive rows side by side as one input, equal for every method."""

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
#: True: anomalous, or flagged.
Labels = NDArray[np.bool_]


def stacked(rows: Matrix, window: int) -> Matrix:
    """Puts each ``window`` consecutive rows side by side; there are ``window`` - 1 fewer.

    >>> stacked(np.array([[1.0], [2.0], [3.0]]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    if window == 1:
        return rows
    views = np.lib.stride_tricks.sliding_window_view(rows, window, axis=0)
    return np.ascontiguousarray(views.transpose(0, 2, 1).reshape(len(views), -1))


def stacked_each(rows: Matrix, window: int) -> Matrix:
    """Makes a window that ends at each row; before the first row, that row is repeated.

    >>> stacked_each(np.array([[1.0], [2.0], [3.0]]), 2).tolist()
    [[1.0, 1.0], [1.0, 2.0], [2.0, 3.0]]
    """
    before = np.repeat(rows[:1], window - 1, axis=0)
    return stacked(np.vstack([before, rows]), window)
