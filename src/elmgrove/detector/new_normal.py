"""Which anomalous rows are a new normal: those that are typical of each other."""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.rows import Array

#: The most that a new normal may be wider than a known one: twice the deviations, as logarithm.
WIDER = math.log(4.0)
# Rows beyond so many times the threshold are not among those that a trial is made of.
_FAR = 4.0
# How often such rows are looked for; it settles sooner.
_STEPS = 8
# A block of neighbours can be left out where there are so many windows.
_WINDOWS = 5


class _Trial(Protocol):
    def scores(self, X: Array) -> Array: ...
    def left_out(self, X: Array) -> Array: ...


def typical_of_each_other(
    rows: Array, threshold: float, window: int, trial: Callable[[Array], _Trial]
) -> NDArray[np.bool_]:
    """Marks the rows that are normal to a ``trial`` of most of them, blocks of it left out.

    The trial begins with the half in the middle, so that a few rows that have nothing to do with
    the others do not spoil it, and takes in all that are not far from it.
    """
    chosen, none = _middle(rows), np.zeros(len(rows), bool)
    for _ in range(_STEPS):
        found = trial(rows[chosen]).scores(rows) <= _FAR * threshold
        if (found == chosen).all():
            break
        chosen = found if found.sum() >= 2 else chosen
    if window > 1 and chosen.sum() < _WINDOWS * window:
        return none
    made = trial(rows[chosen])
    scores = made.scores(rows)
    scores[chosen] = made.left_out(rows[chosen])
    return np.asarray(scores <= threshold)


def _middle(rows: Array) -> NDArray[np.bool_]:
    """Marks the half of the rows that is nearest to the median, each column by its own measure."""
    away = np.abs(rows - np.median(rows, axis=0))
    away /= np.maximum(np.median(away, axis=0), np.finfo(float).tiny)
    order = np.minimum(away, 10.0).sum(axis=1).argsort(kind="stable")
    marked = np.zeros(len(rows), bool)
    marked[order[: len(rows) // 2 + 1]] = True
    return marked
