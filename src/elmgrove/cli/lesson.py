"""A lesson: a file is learned, and its last part shows what was learned in the first."""

from collections.abc import Iterable
from itertools import pairwise

from elmgrove.cli.options import tracked
from elmgrove.detector import Detector, Flagged, Progress
from elmgrove.storage import Table

#: One row in so many is in the last part.
PART = 5
# Rows of the last part are scored before they are learned, but so many at a time at most.
_BLOCK = 256


class Lesson:
    """Learns a file; its last part shows what alarms the part before would have brought.

    The threshold is the one that the first part gave, and each row is scored before it is learned.
    With a gate, strange rows are left out.
    """

    def __init__(self, detector: Detector, table: Table, gate: bool) -> None:
        self._detector = detector
        self._rows = table.rows
        self._stretches = table.stretches
        self._gate = gate
        self._cut = len(table.rows) - len(table.rows) // PART
        self._counted = Progress(None, 0.0, detector.basis.window)
        self._limit: float | None = None
        #: The rows that were left out.
        self.strange = 0

    def take(self) -> None:
        """Learns all rows; none follows a gap, nor the first one what was learned before."""
        for stretch in self._stretches:
            self._detector.interrupt()
            for start, end in tracked(self._blocks(stretch), "Learning"):
                if self._limit is None and start >= self._cut:
                    self._limit = _limit(self._detector)
                self._learn(start, end, stretch.start)

    @property
    def learned(self) -> int:
        """The rows that were not left out."""
        return len(self._rows) - self.strange

    @property
    def seen(self) -> Flagged:
        """The count of the last part's rows; of none, where the first part gave no threshold."""
        return self._counted.seen

    def _blocks(self, stretch: slice) -> list[tuple[int, int]]:
        """Where to begin and to end; few rows at a time in the part that is counted."""
        step = min(max(self._cut // 64, 1), _BLOCK)
        early = range(stretch.start, min(self._cut, stretch.stop), 16 * _BLOCK)
        late = range(max(self._cut, stretch.start), stretch.stop, step)
        return list(pairwise(sorted({*early, *late, stretch.stop})))

    def _learn(self, start: int, end: int, first: int) -> None:
        detector, rows, size = self._detector, self._rows[start:end], self._detector.basis.window
        scores: Iterable[float] = ()
        if self._gate:
            verdicts = detector.observe_many(rows)
            self.strange += sum(verdict.anomalous for verdict in verdicts)
            scores = [one.score for one in verdicts if len(one.row) == detector.basis.inputs]
        else:
            if self._limit is not None:
                # The rows before complete the windows.
                begin = max(start - size + 1, first)
                whole = max(start, begin + size - 1) - begin
                scores = detector.score_many(self._rows[begin:end])[whole:]
            detector.learn_many(rows)
        if self._limit is not None:
            for score in scores:
                self._counted.count(not score <= self._limit)


def _limit(detector: Detector) -> float | None:
    """The threshold by all scores up to now, whether it is relied on or not yet."""
    if len(detector.gate.recent) < max(detector.gate.policy.minimum, 1):
        return None
    return detector.gate.policy.limit(detector.gate.recent)
