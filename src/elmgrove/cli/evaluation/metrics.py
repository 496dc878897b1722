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
    """What events made of labelled stretches.

    ``found`` stretches have an event that opened in them, or at most a tolerance before them;
    ``false_events`` opened anywhere else, however long they lasted. ``alarmed_outside`` is the
    share of unlabelled rows that lie inside events. ``delays`` are rows from a stretch's begin to
    the alarm, ``seconds`` the same as times where rows have them.
    """

    stretches: int
    found: int
    false_events: int
    alarmed_outside: float
    delays: list[int]
    seconds: list[float] | None


def stretches_of(labels: Array, calm: int) -> list[slice]:
    """Finds labelled rows that belong together; fewer than ``calm`` others may lie between them.

    No alarm rule tells stretches apart that are closer than the calm that ends an event.

    >>> stretches_of(np.array([True, True, False, True, False, False, True]), calm=2)
    [slice(0, 4, None), slice(6, 7, None)]
    """
    rows = np.flatnonzero(labels)
    parts = np.split(rows, np.flatnonzero(np.diff(rows) > calm) + 1)
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]


def found_by(
    spells: Sequence[Spell], labels: Array, calm: int, tolerance: int, times: Array | None = None
) -> Found:
    """Compares events with labels: an event finds a stretch only if it opened for it.

    What opened more than ``tolerance`` rows before a stretch is false, even where it lasts into it:
    else one event without an end would find everything.
    """
    stretches = stretches_of(labels, calm)
    opened = [
        [spell for spell in spells if stretch.start - tolerance <= spell.first < stretch.stop]
        for stretch in stretches
    ]
    right = {spell for some in opened for spell in some}
    inside = np.zeros(len(labels), bool)
    for spell in spells:
        inside[spell.first : spell.last + 1] = True
    # Of an alarm just before the stretch the delay is none.
    first = [
        (stretch.start, max(min(spell.told for spell in some), stretch.start))
        for stretch, some in zip(stretches, opened, strict=True)
        if some
    ]
    return Found(
        len(stretches),
        len(first),
        len({*spells} - right),
        float(inside[~labels].mean()),
        [told - start for start, told in first],
        None if times is None else [float(times[told] - times[start]) for start, told in first],
    )
