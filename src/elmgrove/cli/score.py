"""``elmgrove score``: says how anomalous the rows of a file are, and why."""

import csv
import json
import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property, partial
from typing import Annotated, Any, Literal, TextIO

import numpy as np
import typer
from rich.table import Table as Grid

from elmgrove.algebra.rows import Array
from elmgrove.cli.options import (
    Data,
    SavedState,
    SkipBad,
    notes,
    option,
    print_result,
    read_for,
    right,
    tracked,
)
from elmgrove.detector.detector import Detector
from elmgrove.detector.drift import Drift
from elmgrove.detector.drift_detector import drift_in
from elmgrove.detector.mixture import Mixture
from elmgrove.detector.replay import ScoredRows
from elmgrove.detector.verdict import Cause
from elmgrove.errors import BadInput
from elmgrove.federation.member import Member
from elmgrove.reading.table import Table
from elmgrove.reading.times import format_time
from elmgrove.storage.disk import load


def score(
    data: Data,
    state: SavedState,
    style: Annotated[
        Literal["table", "csv", "jsonl"],
        option("A table of the worst rows, or every row.", "--format", "-f"),
    ] = "table",
    worst: Annotated[int, option("Rows in the table.", min=1)] = 10,
    check: Annotated[bool, option("Exit with 3 if any row is anomalous.", "--check")] = False,
    skip_bad: SkipBad = False,
) -> None:
    """Score the rows of a file, without learning them.

    Example: [bold]elmgrove score new.csv --state fan-1.elm[/]
    """
    member = load(state, Member.from_bytes)
    detector = member.detector
    table = read_for(member, data, skip_bad)
    if not len(table.rows):
        raise BadInput(f"{data}: no rows to score")
    judged = Judged(detector, table)
    scores = judged.scores
    if style == "table":
        # There is no row at all where samples are fewer than a frame.
        if rows := [judged.row(place, 1) for place in judged.worst(worst)]:
            print_result(_table(rows))
    else:
        # Millions of rows are normal, and nobody asks why.
        places = tracked(range(len(scores)), "Writing")
        every = (judged.row(i, 3 if judged.anomalous[i] else 0) for i in places)
        write = _write_csv if style == "csv" else _write_jsonl
        write(every, judged.columns, sys.stdout)
    found = int(judged.anomalous.sum())
    if detector.state == "learning":
        more = f"{detector.rows_missing} more {detector.basis.counted}"
        missing = f"{more} without an anomalous one are missing"
        notes.print(f"This state is still learning and flags nothing: {missing}.")
    else:
        elsewhere = sum(map(bool, judged.known.values()))
        known = f"; {elsewhere} of them are normal elsewhere" if elsewhere else ""
        notes.print(f"{found} of {len(scores)} {detector.basis.counted} are anomalous{known}.")
        if drift := judged.drift:
            notes.print(f"Drift: {drift}.")
    if judged.patterns is not None:
        notes.print(_patterns_in_words(judged.patterns[judged.whole], detector.basis.counted))
    if check and found:
        raise typer.Exit(3)


class Judged:
    """The rows of a file, scored; those that complete no window are not judged.

    Where rows are samples, there is a score for each frame, named by the line of its last sample.
    """

    def __init__(self, detector: Detector, table: Table) -> None:
        self._detector, self._table = detector, table
        self._rows = ScoredRows(
            detector, table.rows, table.gaps, lambda blocks: tracked(blocks, "Scoring")
        )
        self.scores, self.whole = self._rows.scores, self._rows.whole
        self.anomalous = self._rows.whole & (self.scores > detector.threshold)
        places = np.flatnonzero(self.anomalous).tolist() if len(detector.elsewhere) else []
        self.known = {place: self._rows.known(place) for place in tracked(places, "Asking others")}

    @cached_property
    def patterns(self) -> Array | None:
        """The number of the pattern that explains each row best; None where there is one model."""
        model, rows = self._detector.model, self._rows
        if not isinstance(model, Mixture):
            return None
        found, whole = np.zeros(len(self.scores), int), np.flatnonzero(rows.whole)
        for places in np.array_split(whole, -(-len(whole) // 4096) or 1):
            found[places] = model.numbers_of(rows.inputs(places))
        return found

    @property
    def drift(self) -> Drift | None:
        """The longest lasting change within a stretch; None if there is none."""
        found = [self._drift_in(given, places) for given, places in self._rows.stretches]
        return max(filter(None, found), key=lambda drift: drift.rows, default=None)

    def _drift_in(self, given: slice, places: slice) -> Drift | None:
        table, basis = self._table, self._detector.basis

        def line(row: int) -> str:
            return f"from line {table.lines[given.start + basis.span(row, row + 1).start]} on"

        found = drift_in(
            self._detector,
            self.scores[places],
            self.anomalous[places],
            partial(self._rows.prepared, given),
            None if table.times is None else table.times[self._rows.last[places]],
            line,
        )
        return None if found is None else replace(found, known=self._known_in(places))

    def _known_in(self, places: slice) -> tuple[str, ...]:
        """Those at whom most of the anomalous rows would have been normal."""
        found = [names for row, names in self.known.items() if places.start <= row < places.stop]
        counts = Counter(name for names in found for name in names)
        return tuple(name for name, count in counts.most_common() if 2 * count > len(found))

    def worst(self, number: int) -> list[int]:
        """Find the places of the most anomalous rows; those that are not judged come last."""
        return list(np.lexsort((-self.scores, ~self.whole))[:number].tolist())

    @property
    def columns(self) -> list[str]:
        first = ["line", "time", "score"] if self._table.times is not None else ["line", "score"]
        last = ["causes"] if self.patterns is None else ["pattern", "causes"]
        return [*first, "threshold", "anomalous", "known", *last]

    def row(self, place: int, explain: int) -> dict[str, Any]:
        last, times = self._rows.last[place], self._table.times
        pattern = None
        if self.patterns is not None and self.whole[place]:
            pattern = int(self.patterns[place])
        found = {
            "line": int(self._table.lines[last]),
            "time": None if times is None else float(times[last]),
            "score": float(self.scores[place]),
            "threshold": self._detector.threshold,
            "anomalous": bool(self.anomalous[place]),
            "known": self.known.get(place, ()),
            "pattern": pattern,
            "causes": self._rows.causes(place, explain) if explain else [],
        }
        return {name: found[name] for name in self.columns}


def _patterns_in_words(numbers: Array, counted: str) -> str:
    counts = Counter(numbers.tolist())
    each = [f"{counts[n]:,} of number {n}" for n in sorted(counts) if n >= 0]
    if foreign := sum(count for number, count in counts.items() if number < 0):
        each.append(f"{foreign:,} of those that only others know")
    return f"{counted.capitalize()} by the pattern that explains them best: {', '.join(each)}."


def _table(rows: list[dict[str, Any]]) -> Grid:
    timed, patterned = "time" in rows[0], "pattern" in rows[0]
    headings = ["line", *["time"] * timed, *["pattern"] * patterned]
    headings += ["score", "× threshold", "anomalous"]
    title = "The most anomalous row" if len(rows) == 1 else f"The {len(rows)} most anomalous rows"
    grid = Grid(*right(*headings), "because of", title=title)
    for row in rows:
        score, threshold = row["score"], row["threshold"]
        times = f"{score / threshold:.2f}" if 0 < threshold < np.inf else "-"
        yes = "yes" if row["anomalous"] else "no"
        if row["known"] and row["anomalous"]:
            yes += f": normal at {', '.join(row['known'])}"
        when = [format_time(row["time"])] if timed else []
        pattern = ["" if row["pattern"] is None else str(row["pattern"])] if patterned else []
        because = ", ".join(map(_because, row["causes"]))
        grid.add_row(str(row["line"]), *when, *pattern, f"{score:.4g}", times, yes, because)
    return grid


def _because(cause: Cause) -> str:
    text = f"{cause} {cause.share:.0%}"
    if not cause.ago:
        return text
    return f"{text}, {cause.ago} row{'s' if cause.ago > 1 else ''} ago"


def _write_csv(rows: Iterable[dict[str, Any]], columns: list[str], out: TextIO) -> None:
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        row |= {"anomalous": int(row["anomalous"]), "known": "; ".join(row["known"])}
        row["causes"] = " ".join(f"{one.feature}={one.share:.4f}" for one in row["causes"])
        writer.writerow(row)


def _write_jsonl(rows: Iterable[dict[str, Any]], _: list[str], out: TextIO) -> None:
    for row in rows:
        row["threshold"] = row["threshold"] if np.isfinite(row["threshold"]) else None
        row["causes"] = [cause.fields for cause in row["causes"]]
        out.write(json.dumps(row) + "\n")
