"""A lesson: a file is learned, and its last part shows what was learned in the first."""

import math
from itertools import combinations, pairwise

import numpy as np

from elmgrove.algebra import Array
from elmgrove.cli.options import notes, tracked
from elmgrove.detector import Detector, Flagged, Progress, when_text
from elmgrove.reading import Table, within

#: One row in so many is in the last part.
PART = 5
# Rows of the last part are scored before they are learned, but so many at a time at most.
_BLOCK = 256
# Of the 45 pairs of tenths so many more rise than fall in one series of a hundred without a trend.
_TENTHS, _RISING = 10, 27


def not_yet_learned(detector: Detector, table: Table) -> Table:
    """Gives the rows whose times lie in no time that was learned already, and notes the others."""
    if table.times is None:
        return table
    known = within(table.times, detector.increments.spans)
    if known.any():
        until = when_text(float(table.times[known][-1]))
        notes.print(f"Skipped {known.sum():,} rows that were learned already (up to {until}).")
    return table.without(known)


class Lesson:
    """Learns a file; its last part shows what alarms the part before would have brought.

    The threshold is the one that the first part gave, and each row is scored before it is learned.
    With a gate, anomalous rows are left out, and all rows of an event. Where rows are samples,
    frames are what is learned, counted or left out.
    """

    def __init__(self, detector: Detector, table: Table, gate: bool) -> None:
        self._detector = detector
        self._basis = detector.basis
        self._rows, self._times = table.rows, table.times
        self._stretches = table.stretches
        self._gate = gate
        self._cut = len(table.rows) - len(table.rows) // PART
        self._counted = Progress(None, 0.0, detector.basis.window)
        self._limit: float | None = None
        # The scores of the last part by what the first taught: a model that follows hides a trend.
        self._foreseen = np.empty(0)
        #: The rows, or frames, that were left out.
        self.left_out = 0

    def take(self) -> None:
        """Learns all rows; none follows a gap, nor the first one what was learned before."""
        for stretch in self._stretches:
            self._detector.interrupt()
            for start, end in tracked(self._blocks(stretch), "Learning"):
                if self._limit is None and start >= self._cut:
                    self._limit = _limit(self._detector)
                    if self._limit is not None:
                        self._foreseen = self._scores_from(start)
                self._learn(start, end, stretch.start)
        if self._gate:
            self._detector.progress.teach(self.learned)

    def require_solution(self) -> None:
        """Raises ``SingularSystem`` if the model has no solution, and so can't score a row."""
        detector = self._detector
        detector.score_many(self._rows[self._basis.span(0, 1)])
        if self._basis.score == "loss":
            # With a ridge of 0 it would take each row for strange by its size, until more come.
            detector.evidence.factor(detector.model.ridge)

    @property
    def learned(self) -> int:
        """The rows, or frames, that were not left out."""
        given = (stretch.stop - stretch.start for stretch in self._stretches)
        return sum(map(self._basis.frames_in, given)) - self.left_out

    @property
    def seen(self) -> Flagged:
        """The count of the last part's rows; of none, where the first part gave no threshold."""
        return self._counted.seen

    @property
    def trend(self) -> bool:
        """Whether scores rose through the last part, by Mann and Kendall's test on its tenths."""
        if len(self._foreseen) < 2 * _TENTHS:
            return False
        levels = [float(np.median(tenth)) for tenth in np.array_split(self._foreseen, _TENTHS)]
        rising = sum(np.sign(later - earlier) for earlier, later in combinations(levels, 2))
        return bool(rising >= _RISING)

    def _blocks(self, stretch: slice) -> list[tuple[int, int]]:
        """Where to begin and to end; few rows, or frames, at a time in the part that is counted."""
        size = 1 if self._basis.spectrum is None else self._basis.spectrum.step
        step = min(max(self._cut // size // 64, 1), _BLOCK)
        early = range(stretch.start, min(self._cut, stretch.stop), 16 * _BLOCK * size)
        late = range(max(self._cut, stretch.start), stretch.stop, step * size)
        return list(pairwise(sorted({*early, *late, stretch.stop})))

    def _learn(self, start: int, end: int, first: int) -> None:
        detector, rows = self._detector, self._rows[start:end]
        times = None if self._times is None else self._times[start:end]
        scores = np.empty(0)
        if self._gate:
            verdicts = detector.observe_many(rows, times)
            judged = [one for one in verdicts if len(one.row) == self._basis.inputs]
            self.left_out += sum(not one.learned for one in judged)
            scores = np.array([one.score for one in judged])
        else:
            if self._limit is not None:
                scores = self._scores(start - first, end - first, first)
            detector.learn_many(rows, times)
        if self._limit is not None:
            self._counted.count_many(~(scores <= self._limit))

    def _scores_from(self, row: int) -> Array:
        """Scores this row and all after it, of which none is learned yet."""
        later = [one for one in self._stretches if one.stop > row]
        starts = [max(row, one.start) - one.start for one in later]
        return np.concatenate(
            [
                self._scores(start, one.stop - one.start, one.start)
                for start, one in zip(starts, later, strict=True)
            ]
        )

    def _scores(self, start: int, end: int, first: int) -> Array:
        """Scores what these rows of a stretch complete; the rows before belong to it."""
        known, last = self._basis.frames_in(start), self._basis.frames_in(end)
        before = self._basis.window - 1
        span = self._basis.span(max(known - before, 0), last)
        rows = self._rows[first + span.start : first + span.stop]
        return self._detector.score_many(rows)[before:]


def _limit(detector: Detector) -> float | None:
    """The threshold by all scores up to now; None where there is none yet."""
    limit = detector.gate.limit()
    return limit if math.isfinite(limit) else None
