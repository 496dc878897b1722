"""Fewer points for a line, without losing a peak, and breaks in it where rows are missing."""

from collections.abc import Sequence

import numpy as np

from elmgrove.algebra import Array

#: Parts of a line of which the highest and the lowest point are drawn; a picture has fewer columns.
PARTS = 1500


def thinned(values: Array, parts: int = PARTS) -> Array:
    """Chooses places of which a line looks like that of all: each part's highest and lowest.

    The first and the last are among them. What is no number counts as nothing.

    >>> thinned(np.array([0.0, 0, 9, 0, 0, 0, -7, 0]), parts=2).tolist()
    [0, 2, 4, 6, 7]
    """
    count = len(values)
    if count <= 2 * parts:
        return np.arange(count)
    size = -(-count // parts)
    padded = np.full(size * -(-count // size), np.nan)
    padded[:count] = values
    table = padded.reshape(-1, size)
    starts = np.arange(0, count, size)
    highest = starts + np.where(np.isnan(table), -np.inf, table).argmax(axis=1)
    lowest = starts + np.where(np.isnan(table), np.inf, table).argmin(axis=1)
    return np.unique(np.concatenate([[0], highest, lowest, [count - 1]]))


def broken(places: Array, gaps: Sequence[int], *values: Array) -> list[Array]:
    """Puts a NaN into lines through these places wherever a gap lies between two of them.

    >>> broken(np.array([0, 1, 2, 3]), [2], np.array([5.0, 6.0, 7.0, 8.0]))[0].tolist()
    [5.0, 6.0, nan, 7.0, 8.0]
    """
    cuts = np.unique(np.searchsorted(places, np.asarray(gaps, int)))
    cuts = cuts[(cuts > 0) & (cuts < len(places))]
    return [np.insert(np.asarray(one, np.float64), cuts, np.nan) for one in values]
