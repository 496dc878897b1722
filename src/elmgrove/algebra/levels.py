"""Levels: what sums over rows say of each column by itself, and those of several files as one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra.rows import Array, RowStore, in_blocks

#: A column's tails count at most so much.
HEAVIEST = 30.0
# The rows farthest off may be faults: this share of all, and so many more, say nothing of tails.
_FAULTS, _MORE_FAULTS = 0.001, 2
# Means that differ by less are those of one constant, summed up in two ways.
_ROUNDING = 8.0 * float(np.finfo(float).eps)


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
    def of_rows(cls, X: RowStore, tails: bool = False) -> "Levels":
        """Finds the levels of these rows; block by block if they are not in memory."""
        if not isinstance(X, np.ndarray):
            return cls.together([cls.of_rows(X[block], tails) for block in in_blocks(X)])
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
        weights = weights / weights.sum()
        # Σx and Σx², about the first mean, so that no large offset swallows what differs.
        first = several[0].mean
        away = np.array([one.mean for one in several]) - first
        away[np.abs(away) <= _ROUNDING * np.abs(first)] = 0.0
        mean = weights @ away
        variance = weights @ (np.array([one.variance for one in several]) + (away - mean) ** 2)
        extremes = [one.extremes for one in several if one.extremes is not None]
        tails = [one.tails for one in several if one.tails is not None]
        return cls(
            sum(one.count for one in several),
            first + mean,
            variance,
            _widest(extremes) if len(extremes) == len(several) else None,
            np.clip(weights @ np.array(tails), 1.0, HEAVIEST)
            if len(tails) == len(several)
            else None,
        )

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


def _widest(extremes: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    lows, highs = (np.array(some) for some in zip(*extremes, strict=True))
    return lows.min(axis=0), highs.max(axis=0)


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
    tails: Array = np.clip(kurtosis / 3.0, 1.0, HEAVIEST)
    return tails
