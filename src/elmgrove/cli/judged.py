"""The rows of a file as a state judges them, some at a time: scores, who knows them, and why."""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra import Array
from elmgrove.cli.options import tracked
from elmgrove.detector import Cause, Detector, Drift, drift_in
from elmgrove.reading import Table

# Rows that are scored at once.
_BLOCK = 1 << 16


@dataclass(frozen=True)
class Scored:
    """What the output says about one row."""

    line: int
    time: float | None
    score: float
    threshold: float
    strange: bool
    known: tuple[str, ...]
    anomalous: bool
    causes: list[Cause]


class Stretch:
    """The rows of a table that follow each other, which give slices as they do."""

    def __init__(self, table: Table, place: slice) -> None:
        self._rows = table.rows
        self.start, self.end = place.start, place.stop

    def __len__(self) -> int:
        return int(self.end - self.start)

    def __getitem__(self, rows: slice) -> Array:
        first, end, _ = rows.indices(len(self))
        return self._rows[self.start + first : self.start + end]


class Judged:
    """The rows of a file, scored; those that complete no window are not judged.

    Where rows are samples, there is a score for each frame, named by the line of its last sample.
    """

    def __init__(self, detector: Detector, table: Table) -> None:
        self._detector = detector
        self._table = table
        self._stretches = [Stretch(table, place) for place in table.stretches]
        counts = [detector.basis.frames_in(len(stretch)) for stretch in self._stretches]
        # Where the scores of each stretch begin.
        self._starts = np.cumsum([0, *counts])[:-1].tolist()
        self.scores, self._whole = np.empty(sum(counts)), np.ones(sum(counts), bool)
        self._score(counts)
        self._limit = detector.threshold
        self.strange = self._whole & (self.scores > self._limit)
        places = np.flatnonzero(self.strange).tolist() if len(detector.elsewhere) else []
        self._known = {place: self._asked(place) for place in tracked(places, "Asking others")}
        self.anomalous = self.strange.copy()
        if detector.excused:
            self.anomalous[[place for place, names in self._known.items() if names]] = False

    def _score(self, counts: list[int]) -> None:
        """Scores all stretches, some rows at a time; with them go those that their windows need."""
        basis, before = self._detector.basis, self._detector.basis.window - 1
        blocks = [
            (place, first)
            for place, count in enumerate(counts)
            for first in range(0, count, _BLOCK)
        ]
        for place, first in tracked(blocks, "Scoring"):
            end, lead = min(first + _BLOCK, counts[place]), min(first, before)
            rows = self._stretches[place][basis.span(first - lead, end)]
            begin = self._starts[place]
            self.scores[begin + first : begin + end] = self._detector.score_many(rows)[lead:]
            self._whole[begin : begin + before] &= first > 0

    @property
    def drift(self) -> Drift | None:
        """The longest lasting change within a stretch; None if there is none."""
        found = [self._drift_in(number) for number in range(len(self._stretches))]
        return max(filter(None, found), key=lambda drift: drift.rows, default=None)

    def _drift_in(self, number: int) -> Drift | None:
        stretch, start = self._stretches[number], self._starts[number]
        basis = self._detector.basis
        place = slice(start, start + basis.frames_in(len(stretch)))

        def line(row: int) -> str:
            return (
                f"from line {self._table.lines[stretch.start + basis.span(row, row + 1).start]} on"
            )

        def prepared(begin: int, end: int) -> Array:
            return self._detector.preparation.many(stretch[basis.span(begin, end)])

        scores, strange = self.scores[place], self.strange[place]
        return drift_in(self._detector, scores, strange, prepared, place=line)

    def worst(self, number: int) -> list[int]:
        """Finds the places of the strangest rows; those that are not judged come last."""
        last = np.where(self._whole, 0.0, np.inf)
        found = np.argpartition(last - self.scores, min(number, len(last)) - 1)[:number]
        order = np.lexsort((found, -self.scores[found], ~self._whole[found]))
        return list(found[order].tolist())

    def row(self, place: int, explain: int) -> Scored:
        """Tells what the output says about the row at a place, with so many causes."""
        stretch, index = self._place(place)
        last = stretch.start + self._detector.basis.span(index, index + 1).stop - 1
        times = self._table.times
        return Scored(
            int(self._table.lines[last]),
            None if times is None else float(times[last]),
            float(self.scores[place]),
            self._limit,
            bool(self.strange[place]),
            self._known.get(place, ()),
            bool(self.anomalous[place]),
            self._blamed(stretch, index, explain) if explain else [],
        )

    def _place(self, place: int) -> tuple[Stretch, int]:
        """The stretch in which a place lies, and its number there."""
        # The last that begins there: those before it, if any, are too short for one.
        at = bisect_right(self._starts, place) - 1
        return self._stretches[at], place - self._starts[at]

    def _asked(self, place: int) -> tuple[str, ...]:
        stretch, index = self._place(place)
        return self._detector.known_at(stretch, index)

    def _blamed(self, stretch: Stretch, index: int, explain: int) -> list[Cause]:
        return self._detector.blame_at(stretch, index, explain)
