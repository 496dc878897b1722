"""``elmgrove score``: says how anomalous the rows of a file are, and why."""

import csv
import json
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, TextIO

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array
from elmgrove.cli.options import (
    Data,
    SavedState,
    SkipBad,
    notes,
    read_for,
    tracked,
    with_file_layout,
)
from elmgrove.detector.detector import Detector
from elmgrove.detector.drift import Drift
from elmgrove.detector.drift_detector import drift_in
from elmgrove.detector.verdict import Cause
from elmgrove.errors import BadInput
from elmgrove.federation.member import Member
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import Table
from elmgrove.reading.times import told as time_told
from elmgrove.storage.disk import load

ANOMALIES_FOUND = 3
# Rows that are scored at once.
_BLOCK = 1 << 16


class Format(StrEnum):
    """The formats in which scores are printed."""

    table = "table"
    csv = "csv"
    jsonl = "jsonl"


@dataclass(frozen=True)
class Scored:
    """What the output says about one row."""

    line: int
    time: float | None
    score: float
    threshold: float
    anomalous: bool
    known: tuple[str, ...]
    causes: list[Cause]


@with_file_layout
def score(
    data: Data,
    state: SavedState,
    style: Annotated[
        Format, typer.Option("--format", "-f", help="A table of the worst rows, or every row.")
    ] = Format.table,
    worst: Annotated[int, typer.Option(help="Rows in the table.", min=1)] = 10,
    explain: Annotated[
        int,
        typer.Option(
            help="Features named for each row of the table, or in other formats each anomalous "
            "row: those whose values explain most of its score.",
            min=0,
        ),
    ] = 1,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 3 if any row is anomalous.")
    ] = False,
    skip_bad: SkipBad = False,
    *,
    layout: Layout,
) -> None:
    """Score the rows of a file, without learning them.

    Example: [bold]elmgrove score new.csv --state fan-1.elm[/]
    """
    member = load(state, Member.from_bytes)
    detector = member.detector
    table = read_for(member, data, layout, skip_bad)
    if not len(table.rows):
        raise BadInput(f"{data}: no rows to score")
    judged = Judged(detector, table)
    scores = judged.scores
    if style is Format.table:
        rows = [judged.row(place, explain) for place in judged.worst(worst)]
        _write_table(rows, sys.stdout)
    else:
        # Millions of rows are normal, and nobody asks why.
        places = tracked(range(len(scores)), "Writing")
        every = (judged.row(i, explain if judged.anomalous[i] else 0) for i in places)
        WRITERS[style](every, sys.stdout, timed=table.times is not None)
    found = int(judged.anomalous.sum())
    if detector.state == "learning":
        more = f"{detector.rows_missing} more {detector.basis.counted}"
        missing = f"{more} without an anomalous one are missing"
        notes.print(f"This state is still learning and flags nothing: {missing}.")
    else:
        known = f"; {judged.known} of them are normal elsewhere" if judged.known else ""
        notes.print(f"{found} of {len(scores)} {detector.basis.counted} are anomalous{known}.")
        if drift := judged.drift:
            notes.print(f"Drift: {drift}.")
    if check and found:
        raise typer.Exit(ANOMALIES_FOUND)


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
        self.anomalous = self._whole & (self.scores > self._limit)
        places = np.flatnonzero(self.anomalous).tolist() if len(detector.elsewhere) else []
        self._known = {place: self._asked(place) for place in tracked(places, "Asking others")}

    @property
    def known(self) -> int:
        """How many anomalous rows would have been normal elsewhere."""
        return sum(map(bool, self._known.values()))

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
        basis, table = self._detector.basis, self._table
        place = slice(start, start + basis.frames_in(len(stretch)))
        scores, anomalous = self.scores[place], self.anomalous[place]

        def line(row: int) -> str:
            return f"from line {table.lines[stretch.start + basis.span(row, row + 1).start]} on"

        def prepared(begin: int, end: int) -> Array:
            return self._detector.preparation.many(stretch[basis.span(begin, end)])

        times = None
        if table.times is not None:
            size, step = _size(basis)
            times = table.times[stretch.start + size - 1 + step * np.arange(len(scores))]
        found = drift_in(self._detector, scores, anomalous, prepared, times, line)
        return None if found is None else replace(found, known=self._known_in(place))

    def _known_in(self, place: slice) -> tuple[str, ...]:
        """Those at whom most of the anomalous rows would have been normal."""
        found = [names for row, names in self._known.items() if place.start <= row < place.stop]
        counts = Counter(name for names in found for name in names)
        return tuple(name for name, count in counts.most_common() if 2 * count > len(found))

    def worst(self, number: int) -> list[int]:
        """Finds the places of the most anomalous rows; those that are not judged come last."""
        last = np.where(self._whole, 0.0, np.inf)
        found = np.argpartition(last - self.scores, min(number, len(last)) - 1)[:number]
        order = np.lexsort((found, -self.scores[found], ~self._whole[found]))
        return list(found[order].tolist())

    def row(self, place: int, explain: int) -> Scored:
        """The row at a place for the output, with at most ``explain`` causes."""
        stretch, index = self._place(place)
        last = stretch.start + self._detector.basis.span(index, index + 1).stop - 1
        times = self._table.times
        return Scored(
            int(self._table.lines[last]),
            None if times is None else float(times[last]),
            float(self.scores[place]),
            self._limit,
            bool(self.anomalous[place]),
            self._known.get(place, ()),
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


def _size(basis: Basis) -> tuple[int, int]:
    """The rows that are one, and those between two of them: of samples, more than one."""
    return (1, 1) if basis.spectrum is None else (basis.spectrum.length, basis.spectrum.step)


def _write_table(rows: list[Scored], out: TextIO) -> None:
    timed = any(row.time is not None for row in rows)
    grid = Grid(
        title="The most anomalous row" if len(rows) == 1 else f"The {len(rows)} most anomalous rows"
    )
    for heading in ("line", *(["time"] * timed), "score", "× threshold", "anomalous", "because of"):
        grid.add_column(heading, justify="left" if heading == "because of" else "right")
    for row in rows:
        times = f"{row.score / row.threshold:.2f}" if 0 < row.threshold < np.inf else "-"
        because = ", ".join(_because(cause) for cause in row.causes)
        yes = "yes" if row.anomalous else "no"
        if row.known and row.anomalous:
            yes += f": normal at {', '.join(row.known)}"
        when = [] if row.time is None else [time_told(row.time)]
        grid.add_row(str(row.line), *when, f"{row.score:.4g}", times, yes, because)
    Console(file=out, markup=False, emoji=False).print(grid)


def _because(cause: Cause) -> str:
    text = f"{cause} {cause.share:.0%}"
    if not cause.ago:
        return text
    return f"{text}, {cause.ago} row{'s' if cause.ago > 1 else ''} ago"


def _write_csv(rows: Iterable[Scored], out: TextIO, *, timed: bool) -> None:
    writer = csv.writer(out, lineterminator="\n")
    first = ["line", *(["time"] * timed), "score", "threshold"]
    writer.writerow([*first, "anomalous", "known", "causes"])
    for row in rows:
        causes = " ".join(f"{cause.feature}={cause.share:.4f}" for cause in row.causes)
        known = "; ".join(row.known)
        verdict = [int(row.anomalous), known, causes]
        when = [row.time] if timed else []
        writer.writerow([row.line, *when, row.score, row.threshold, *verdict])


def _write_jsonl(rows: Iterable[Scored], out: TextIO, *, timed: bool) -> None:
    for row in rows:
        limit = row.threshold if np.isfinite(row.threshold) else None
        fields: dict[str, Any] = {"line": row.line, **({"time": row.time} if timed else {})}
        fields |= {"score": row.score, "threshold": limit}
        causes = [cause._asdict() for cause in row.causes]
        fields |= {"anomalous": row.anomalous, "known": row.known}
        out.write(json.dumps({**fields, "causes": causes}) + "\n")


WRITERS = {Format.csv: _write_csv, Format.jsonl: _write_jsonl}
