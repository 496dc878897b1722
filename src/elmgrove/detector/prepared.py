"""Rows of a file as a model is given them, all at once: prepared, in stretches, by place."""

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from elmgrove.algebra import Array

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector


class Prepared:
    """The rows of a file, prepared and scored, without being learned.

    ``gaps`` are the places of rows that do not follow the one before. Where rows are samples, there
    is a place for each whole frame. A place is ``whole`` where its row completes a window: the
    others are scored by as many rows as there are, and not judged.
    """

    def __init__(self, detector: "Detector", rows: Any, gaps: Iterable[int] = ()) -> None:
        self.basis = basis = detector.basis
        first, step = (
            basis.span(0, 1).stop - 1,
            1 if basis.spectrum is None else basis.spectrum.step,
        )
        prepared, scores, last = [], [], []
        for start, end in pairwise(sorted({0, *gaps, len(rows)})):
            prepared.append(detector.preparation.many(rows[start:end]))
            scores.append(detector.score_many(rows[start:end]))
            last.append(np.arange(start + first, end, step))
        lengths = [len(one) for one in scores]
        starts = np.cumsum([0, *lengths])[:-1]
        #: The rows, or the features of frames, and their scores.
        self.rows: Array = np.concatenate([np.empty((0, basis.layer.inputs)), *prepared])
        self.scores: Array = np.concatenate([np.empty(0), *scores])
        #: Where each stands in the file: the last of its samples, if it is a frame.
        self.last: Array = np.concatenate([np.empty(0, int), *last])
        #: The places that do not follow the one before.
        self.gaps: list[int] = sorted({*starts.tolist()} - {0, len(self.rows)})
        self.whole: Array = np.arange(len(self.rows)) - np.repeat(starts, lengths) >= (
            basis.window - 1
        )

    def inputs(self, places: Array) -> Array:
        """Gives the inputs at places that are whole: windows of rows, side by side."""
        back = np.arange(self.basis.window - 1, -1, -1)
        side_by_side: Array = self.rows[places[:, np.newaxis] - back]
        return side_by_side.reshape(len(places), self.basis.inputs)

    def any_of(self, labels: Array) -> Array:
        """Gives the label of each place: that of its row, or of any sample of its frame."""
        if self.basis.spectrum is None:
            return labels[self.last]
        first = self.last - self.basis.spectrum.length + 1
        spans = zip(first.tolist(), self.last.tolist(), strict=True)
        return np.array([labels[a : b + 1].any() for a, b in spans], bool)
