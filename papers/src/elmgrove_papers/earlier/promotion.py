"""A rule that learns anomalous rows by itself where they are typical of each other.

It is for streams in which each new pattern is normal. It can't tell one from a fault that stays.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra import Array, Basis, Distance
from elmgrove.detector import Detector

#: Deviations of a new normal are at most twice those of a known one, as the logarithm of variances.
WIDER = float(np.log(4.0))
#: Rows beyond so many times the threshold are not among those that a trial is made of.
FAR = 4.0
#: How often such rows are looked for; it settles sooner.
STEPS = 8
#: A block of neighbours can be left out where there are so many windows.
WINDOWS = 5


class Promoting:
    """Patterns to which one is added where ``after`` anomalous rows in a row are alike."""

    def __init__(self, detector: Detector, after: int) -> None:
        self.detector, self._after, self._run = detector, after, 0

    def learn(self, rows: Array) -> None:
        for row in rows:
            verdict = self.detector.observe(row)
            self._run = self._run + 1 if verdict.anomalous else 0
            if self._run and self._run % self._after == 0:
                self._promote(verdict.threshold)

    def _promote(self, threshold: float) -> None:
        waiting = self.detector.quarantine.waiting[-self._run :]
        normal = self._new_normal(np.array([one.row for one in waiting]), threshold)
        if normal.mean() >= 0.5:
            chosen = {id(one) for one, wanted in zip(waiting, normal, strict=True) if wanted}
            self.detector.adopt(self.detector.quarantine.release(lambda one: id(one) in chosen))
            self._run = 0

    def _new_normal(self, rows: Array, threshold: float) -> NDArray[np.bool_]:
        """Marks which rows are typical of each other, and no wider than a pattern that is known."""
        basis = self.detector.basis
        if basis.score == "loss":
            return np.asarray(_trial(basis, rows).model.left_out(rows) <= threshold)
        marked = typical_of_each_other(basis, rows, threshold)
        chosen = rows[marked]
        wide = [part.evidence for part in self.detector.parts if part.evidence.count]
        if len(chosen) and not any(_as_wide(basis, chosen, one) for one in wide):
            marked[:] = False
        return marked


def _as_wide(basis: Basis, rows: Array, known: Any) -> bool:
    like = Distance(known.weighted(len(rows) / known.count))
    made: Any = _trial(basis, rows).evidence
    return Distance(made).width <= like.width + WIDER


def _trial(basis: Basis, rows: Array) -> Detector:
    """A detector that has learned these inputs and no others."""
    made = Detector.for_basis(basis)
    made.model.learn_all(rows)
    return made


def typical_of_each_other(basis: Basis, rows: Array, threshold: float) -> NDArray[np.bool_]:
    """Marks the rows that are normal to a trial of most of them, blocks of it left out.

    The trial begins with the half in the middle, so that a few rows that have nothing to do with
    the others do not spoil it, and takes in all that are not far from it.
    """
    chosen, none = _middle(rows), np.zeros(len(rows), bool)
    for _ in range(STEPS):
        found = _trial(basis, rows[chosen]).model.scores(rows) <= FAR * threshold
        if (found == chosen).all():
            break
        chosen = found if found.sum() >= 2 else chosen
    if basis.window > 1 and chosen.sum() < WINDOWS * basis.window:
        return none
    made = _trial(basis, rows[chosen]).model
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
