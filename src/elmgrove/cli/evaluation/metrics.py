"""What is measured: how well scores tell rows apart, and what alarms make of labelled stretches."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector import Spell


class Ranking:
    """Rows in the order of their scores, strangest first; those with one score come together.

    ``found`` and ``false`` count the labelled and the other rows up to each score.
    """

    def __init__(self, labels: Array, scores: Array) -> None:
        order = np.argsort(-scores, kind="stable")
        ranked = scores[order]
        last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
        self._labelled, self._normal = int(labels.sum()), int((~labels).sum())
        self.found: Array = np.cumsum(labels[order])[last]
        self.false: Array = last + 1 - self.found

    @property
    def recall(self) -> Array:
        """The share of labelled rows among the strangest so many."""
        return np.asarray(self.found / self._labelled)

    @property
    def false_alarms(self) -> Array:
        """The share of normal rows among them."""
        return np.asarray(self.false / self._normal)

    @property
    def precision(self) -> Array:
        """The share of them that is labelled."""
        return np.asarray(self.found / (self.found + self.false))

    @cached_property
    def auc(self) -> float:
        """The area under the ROC curve: the share of pairs in which the labelled row is stranger.

        >>> Ranking(np.array([True, False, True]), np.array([3.0, 2.0, 2.0])).auc
        0.75
        """
        recall = np.append(0.0, self.recall)
        width = np.diff(self.false_alarms, prepend=0.0)
        return float(np.sum(width * (recall[1:] + recall[:-1]) / 2.0))

    @cached_property
    def average_precision(self) -> float:
        """The mean precision, weighted by how much recall grows with each score."""
        return float(np.sum(np.diff(self.recall, prepend=0.0) * self.precision))


@dataclass(frozen=True)
class Found:
    """What events made of labelled stretches: how many they touch, and how long that took.

    ``delays`` are rows from a stretch's begin to the first alarm of an event that touches it,
    ``seconds`` the same as times where rows have them. ``false_events`` touch no stretch.
    """

    stretches: int
    touched: int
    false_events: int
    delays: list[int]
    seconds: list[float] | None


def stretches_of(labels: Array, gaps: Sequence[int] = ()) -> list[slice]:
    """Finds labelled rows that follow each other.

    >>> stretches_of(np.array([False, True, True, False, True]))
    [slice(1, 3, None), slice(4, 5, None)]
    """
    before = np.append(False, labels[:-1])
    before[list(gaps)] = False
    after = np.append(labels[1:], False)
    after[[gap - 1 for gap in gaps]] = False
    starts, last = np.flatnonzero(labels & ~before), np.flatnonzero(labels & ~after)
    return [slice(a, b + 1) for a, b in zip(starts.tolist(), last.tolist(), strict=True)]


def found_by(spells: Sequence[Spell], stretches: Sequence[slice], times: Array | None) -> Found:
    """Counts the stretches that events touch, and how long after a stretch's begin they are told.

    What was told before, and still goes on when a stretch begins, is no delay.
    """
    delays, touched = list[int](), 0
    seconds: list[float] | None = None if times is None else []
    for stretch in stretches:
        told = [max(one.told, stretch.start) for one in spells if _touches(one, stretch)]
        if told:
            first = min(told)
            touched += 1
            delays.append(first - stretch.start)
            if seconds is not None and times is not None:
                seconds.append(float(times[first] - times[stretch.start]))
    false = sum(not any(_touches(one, stretch) for stretch in stretches) for one in spells)
    return Found(len(stretches), touched, false, delays, seconds)


def _touches(spell: Spell, stretch: slice) -> bool:
    return bool(spell.first < stretch.stop and spell.last >= stretch.start)
