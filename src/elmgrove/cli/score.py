"""``elmgrove score``: how strange the rows of a file are, and why."""

import csv
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, TextIO

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import Data, SavedState, SkipBad, notes, read, tracked
from elmgrove.detector import Detector
from elmgrove.files import load_member
from elmgrove.tables import Table
from elmgrove.verdict import Cause

ANOMALIES_FOUND = 3


class Format(StrEnum):
    """How scores are printed."""

    table = "table"
    csv = "csv"
    jsonl = "jsonl"


@dataclass(frozen=True)
class Scored:
    """One row's line in the output."""

    line: int
    score: float
    threshold: float
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
            help="Features named for each row: those that would, with another value, explain most.",
            min=0,
        ),
    ] = 1,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 3 if any row is anomalous.")
    ] = False,
    skip_bad: SkipBad = False,
) -> None:
    """Say how strange each row is; learns nothing.

    Example: [bold]elmgrove score new.csv --state fan-1.elm[/]
    """
    detector = load_member(state).detector
    table = read(data, detector.basis, (), skip_bad)
    rows = _scored(detector, table, explain)
    WRITERS[style](rows, worst, sys.stdout)
    found = sum(row.anomalous for row in rows)
    if detector.state == "learning":
        notes.print("This state is still learning: it has no threshold yet and flags nothing.")
    else:
        notes.print(f"{found} of {len(rows)} rows are anomalous.")
    if check and found:
        raise typer.Exit(ANOMALIES_FOUND)


def _scored(detector: Detector, table: Table, explain: int) -> list[Scored]:
    scores, limit = detector.score_many(table.rows), detector.threshold
    rows = list(zip(table.lines, scores, table.rows, strict=True))
    return [
        Scored(line, float(s), limit, bool(s > limit), detector.blame(row, explain))
        for line, s, row in tracked(rows, "Explaining")
    ]


def _write_table(rows: list[Scored], worst: int, out: TextIO) -> None:
    grid = Grid(title=f"The {min(worst, len(rows))} strangest of {len(rows)} rows")
    for heading in ("line", "score", "× threshold", "anomalous", "because of"):
        grid.add_column(heading, justify="left" if heading == "because of" else "right")
    for row in sorted(rows, key=lambda row: -row.score)[:worst]:
        times = f"{row.score / row.threshold:.2f}" if 0 < row.threshold < np.inf else "-"
        because = ", ".join(_because(cause) for cause in row.causes)
        yes = "yes" if row.anomalous else "no"
        grid.add_row(str(row.line), f"{row.score:.4g}", times, yes, because)
    Console(file=out, markup=False, emoji=False).print(grid)


def _because(cause: Cause) -> str:
    return f"{cause.feature} {cause.seen:.4g} (not {cause.expected:.4g}) {cause.share:.0%}"


def _write_csv(rows: list[Scored], worst: int, out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["line", "score", "threshold", "anomalous", "causes"])
    for row in rows:
        causes = " ".join(f"{cause.feature}={cause.share:.4f}" for cause in row.causes)
        writer.writerow([row.line, row.score, row.threshold, int(row.anomalous), causes])


def _write_jsonl(rows: list[Scored], worst: int, out: TextIO) -> None:
    for row in rows:
        limit = row.threshold if np.isfinite(row.threshold) else None
        fields = {"line": row.line, "score": row.score, "threshold": limit}
        causes = [cause._asdict() for cause in row.causes]
        out.write(json.dumps({**fields, "anomalous": row.anomalous, "causes": causes}) + "\n")


WRITERS: dict[Format, Callable[[list[Scored], int, TextIO], None]] = {
    Format.table: _write_table,
    Format.csv: _write_csv,
    Format.jsonl: _write_jsonl,
}
