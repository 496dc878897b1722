"""``elmgrove score``: says how strange the rows of a file are, and why."""

import csv
import json
import sys
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TextIO

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra import Array
from elmgrove.cli.options import Data, SavedState, SkipBad, notes, read, tracked
from elmgrove.detector import Cause, Detector, Drift, drift_in
from elmgrove.federation import Member
from elmgrove.reading import Table
from elmgrove.storage import load

ANOMALIES_FOUND = 3


class Format(StrEnum):
    """The formats in which scores are printed."""

    table = "table"
    csv = "csv"
    jsonl = "jsonl"


@dataclass(frozen=True)
class Scored:
    """What the output says about one row."""

    line: int
    score: float
    threshold: float
    strange: bool
    known: tuple[str, ...]
    anomalous: bool
    causes: list[Cause]


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
            help="Features named for each row: those whose values explain most of its score.",
            min=0,
        ),
    ] = 1,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 3 if any row is anomalous.")
    ] = False,
    skip_bad: SkipBad = False,
) -> None:
    """Say how strange each row is, without learning it.

    Example: [bold]elmgrove score new.csv --state fan-1.elm[/]
    """
    detector = load(state, Member.from_bytes).detector
    table = read(data, detector.basis, (), skip_bad)
    judged = Judged(detector, table)
    scores = judged.scores
    shown = judged.worst(worst) if style is Format.table else np.arange(len(scores))
    rows = [judged.row(place, explain) for place in tracked(shown.tolist(), "Explaining")]
    WRITERS[style](rows, sys.stdout)
    found = int(judged.anomalous.sum())
    if detector.state == "learning":
        more = f"{detector.rows_missing} more {detector.basis.counted}"
        missing = f"{more} without a strange one are missing"
        notes.print(f"This state is still learning and flags nothing: {missing}.")
    else:
        excused = int(judged.strange.sum()) - found
        known = f"; {excused} more are strange here, but known elsewhere" if excused else ""
        notes.print(f"{found} of {len(scores)} {detector.basis.counted} are anomalous{known}.")
        if judged.drift is not None:
            notes.print(f"Drift: {judged.drift}.")
    if check and found:
        raise typer.Exit(ANOMALIES_FOUND)


class Judged:
    """The rows of a file, scored; those that complete no window are not judged.

    Where rows are samples, there is a score for each frame, named by the line of its last sample.
    """

    def __init__(self, detector: Detector, table: Table) -> None:
        self._detector = detector
        self._table = table
        self._stretches = table.stretches
        scores = [detector.score_many(table.rows[stretch]) for stretch in self._stretches]
        self.scores = np.concatenate([np.empty(0), *scores])
        # Where the scores of each stretch begin.
        self._starts = np.cumsum([0, *map(len, scores)])[:-1].tolist()
        whole = [np.arange(len(one)) >= detector.basis.window - 1 for one in scores]
        self._whole = np.concatenate([np.empty(0, bool), *whole])
        self._limit = detector.threshold
        self.strange = self._whole & (self.scores > self._limit)
        places = np.flatnonzero(self.strange).tolist() if len(detector.elsewhere) else []
        self._known = {place: self._asked(place) for place in tracked(places, "Asking others")}
        self.anomalous = self.strange.copy()
        if detector.excused:
            self.anomalous[[place for place, names in self._known.items() if names]] = False

    @property
    def drift(self) -> Drift | None:
        """The longest lasting change within a stretch; None if there is none."""
        found = [self._drift_in(number) for number in range(len(self._stretches))]
        return max(filter(None, found), key=lambda drift: drift.rows, default=None)

    def _drift_in(self, number: int) -> Drift | None:
        stretch, start = self._stretches[number], self._starts[number]
        basis, table, rows = self._detector.basis, self._table, self._table.rows[stretch]
        place = slice(start, start + basis.frames_in(len(rows)))
        scores, strange = self.scores[place], self.strange[place]
        last = [stretch.start + basis.span(row, row + 1).stop - 1 for row in range(len(scores))]

        def line(row: int) -> str:
            return f"from line {table.lines[stretch.start + basis.span(row, row + 1).start]} on"

        def prepared(begin: int, end: int) -> Array:
            return self._detector.preparation.many(rows[basis.span(begin, end)])

        times = None if table.times is None else np.asarray(table.times)[last]
        return drift_in(self._detector, scores, strange, prepared, times, line)

    def worst(self, number: int) -> Array:
        """Finds the places of the strangest rows; those that are not judged come last."""
        order: Array = np.lexsort((-self.scores, ~self._whole))[:number]
        return order

    def row(self, place: int, explain: int) -> Scored:
        """Tells what the output says about the row at a place, with so many causes."""
        stretch, index = self._place(place)
        last = self._detector.basis.span(index, index + 1).stop - 1
        return Scored(
            int(self._table.lines[stretch.start + last]),
            float(self.scores[place]),
            self._limit,
            bool(self.strange[place]),
            self._known.get(place, ()),
            bool(self.anomalous[place]),
            self._blamed(stretch, index, explain) if explain else [],
        )

    def _place(self, place: int) -> tuple[slice, int]:
        """The stretch in which a place lies, and its number there."""
        # The last that begins there: those before it, if any, are too short for one.
        at = bisect_right(self._starts, place) - 1
        return self._stretches[at], place - self._starts[at]

    def _asked(self, place: int) -> tuple[str, ...]:
        stretch, index = self._place(place)
        return self._detector.known_at(self._table.rows[stretch], index)

    def _blamed(self, stretch: slice, index: int, explain: int) -> list[Cause]:
        return self._detector.blame_at(self._table.rows[stretch], index, explain)


def _write_table(rows: list[Scored], out: TextIO) -> None:
    grid = Grid(title=f"The {len(rows)} strangest rows")
    for heading in ("line", "score", "× threshold", "anomalous", "because of"):
        grid.add_column(heading, justify="left" if heading == "because of" else "right")
    for row in rows:
        times = f"{row.score / row.threshold:.2f}" if 0 < row.threshold < np.inf else "-"
        because = ", ".join(_because(cause) for cause in row.causes)
        yes = "yes" if row.anomalous else "no"
        if row.known and row.strange:
            yes += f": normal at {', '.join(row.known)}"
        grid.add_row(str(row.line), f"{row.score:.4g}", times, yes, because)
    Console(file=out, markup=False, emoji=False).print(grid)


def _because(cause: Cause) -> str:
    said = f"{cause.feature} {cause.seen:.4g} (not {cause.expected:.4g}) {cause.share:.0%}"
    if not cause.ago:
        return said
    return f"{said}, {cause.ago} row{'s' if cause.ago > 1 else ''} ago"


def _write_csv(rows: list[Scored], out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["line", "score", "threshold", "strange", "known", "anomalous", "causes"])
    for row in rows:
        causes = " ".join(f"{cause.feature}={cause.share:.4f}" for cause in row.causes)
        known = "; ".join(row.known)
        told = [int(row.strange), known, int(row.anomalous), causes]
        writer.writerow([row.line, row.score, row.threshold, *told])


def _write_jsonl(rows: list[Scored], out: TextIO) -> None:
    for row in rows:
        limit = row.threshold if np.isfinite(row.threshold) else None
        fields: dict[str, Any] = {"line": row.line, "score": row.score, "threshold": limit}
        causes = [cause._asdict() for cause in row.causes]
        fields |= {"strange": row.strange, "known": row.known, "anomalous": row.anomalous}
        out.write(json.dumps({**fields, "causes": causes}) + "\n")


WRITERS: dict[Format, Callable[[list[Scored], TextIO], None]] = {
    Format.table: _write_table,
    Format.csv: _write_csv,
    Format.jsonl: _write_jsonl,
}
