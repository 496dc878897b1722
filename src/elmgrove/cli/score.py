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

from elmgrove.algebra import Array
from elmgrove.cli.options import Data, SavedState, SkipBad, notes, read, tracked
from elmgrove.detector import Cause, Detector
from elmgrove.federation import Member
from elmgrove.storage import Table, load

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
    detector = load(state, Member.from_bytes).detector
    table = read(data, detector.basis, (), skip_bad)
    scores = detector.score_many(table.rows)
    shown = np.argsort(-scores)[:worst] if style is Format.table else np.arange(len(scores))
    WRITERS[style](_scored(detector, table, scores, shown, explain), sys.stdout)
    found = int((scores > detector.threshold).sum())
    if detector.state == "learning":
        notes.print("This state is still learning: it has no threshold yet and flags nothing.")
    else:
        notes.print(f"{found} of {len(scores)} rows are anomalous.")
    if check and found:
        raise typer.Exit(ANOMALIES_FOUND)


def _scored(
    detector: Detector, table: Table, scores: Array, shown: Array, explain: int
) -> list[Scored]:
    limit = detector.threshold
    return [
        Scored(
            table.lines[i],
            float(scores[i]),
            limit,
            bool(scores[i] > limit),
            detector.blame(table.rows[i], explain) if explain else [],
        )
        for i in tracked(shown.tolist(), "Explaining")
    ]


def _write_table(rows: list[Scored], out: TextIO) -> None:
    grid = Grid(title=f"The {len(rows)} strangest rows")
    for heading in ("line", "score", "× threshold", "anomalous", "because of"):
        grid.add_column(heading, justify="left" if heading == "because of" else "right")
    for row in rows:
        times = f"{row.score / row.threshold:.2f}" if 0 < row.threshold < np.inf else "-"
        because = ", ".join(_because(cause) for cause in row.causes)
        yes = "yes" if row.anomalous else "no"
        grid.add_row(str(row.line), f"{row.score:.4g}", times, yes, because)
    Console(file=out, markup=False, emoji=False).print(grid)


def _because(cause: Cause) -> str:
    return f"{cause.feature} {cause.seen:.4g} (not {cause.expected:.4g}) {cause.share:.0%}"


def _write_csv(rows: list[Scored], out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["line", "score", "threshold", "anomalous", "causes"])
    for row in rows:
        causes = " ".join(f"{cause.feature}={cause.share:.4f}" for cause in row.causes)
        writer.writerow([row.line, row.score, row.threshold, int(row.anomalous), causes])


def _write_jsonl(rows: list[Scored], out: TextIO) -> None:
    for row in rows:
        limit = row.threshold if np.isfinite(row.threshold) else None
        fields = {"line": row.line, "score": row.score, "threshold": limit}
        causes = [cause._asdict() for cause in row.causes]
        out.write(json.dumps({**fields, "anomalous": row.anomalous, "causes": causes}) + "\n")


WRITERS: dict[Format, Callable[[list[Scored], TextIO], None]] = {
    Format.table: _write_table,
    Format.csv: _write_csv,
    Format.jsonl: _write_jsonl,
}
