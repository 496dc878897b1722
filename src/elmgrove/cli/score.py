"""``elmgrove score``: says how strange the rows of a file are, and why."""

import csv
import json
import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, TextIO

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.judged import Judged, Scored
from elmgrove.cli.options import SavedState, notes, tracked
from elmgrove.cli.reading_options import Data, SkipBad, read_for, with_layout
from elmgrove.detector import Cause
from elmgrove.federation import Member
from elmgrove.reading import Layout, time_told
from elmgrove.storage import load

ANOMALIES_FOUND = 3


class Format(StrEnum):
    """The formats in which scores are printed."""

    table = "table"
    csv = "csv"
    jsonl = "jsonl"


@with_layout
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
            help="Features named for each row of the table, or in other formats each strange row: "
            "those whose values explain most of its score.",
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
    """Say how strange each row is, without learning it.

    Example: [bold]elmgrove score new.csv --state fan-1.elm[/]
    """
    member = load(state, Member.from_bytes)
    detector = member.detector
    table = read_for(member, data, layout, skip_bad)
    judged = Judged(detector, table)
    scores = judged.scores
    if style is Format.table:
        rows = [judged.row(place, explain) for place in judged.worst(worst)]
        _write_table(rows, sys.stdout)
    else:
        # Millions of rows are normal, and nobody asks why.
        told = tracked(range(len(scores)), "Writing")
        every = (judged.row(i, explain if judged.strange[i] else 0) for i in told)
        WRITERS[style](every, sys.stdout, timed=table.times is not None)
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


def _write_table(rows: list[Scored], out: TextIO) -> None:
    timed = any(row.time is not None for row in rows)
    grid = Grid(title=f"The {len(rows)} strangest rows")
    for heading in ("line", *(["time"] * timed), "score", "× threshold", "anomalous", "because of"):
        grid.add_column(heading, justify="left" if heading == "because of" else "right")
    for row in rows:
        times = f"{row.score / row.threshold:.2f}" if 0 < row.threshold < np.inf else "-"
        because = ", ".join(_because(cause) for cause in row.causes)
        yes = "yes" if row.anomalous else "no"
        if row.known and row.strange:
            yes += f": normal at {', '.join(row.known)}"
        when = [] if row.time is None else [time_told(row.time)]
        grid.add_row(str(row.line), *when, f"{row.score:.4g}", times, yes, because)
    Console(file=out, markup=False, emoji=False).print(grid)


def _because(cause: Cause) -> str:
    said = f"{cause.feature} {cause.seen:.4g} (not {cause.expected:.4g}) {cause.share:.0%}"
    if not cause.ago:
        return said
    return f"{said}, {cause.ago} row{'s' if cause.ago > 1 else ''} ago"


def _write_csv(rows: Iterable[Scored], out: TextIO, *, timed: bool) -> None:
    writer = csv.writer(out, lineterminator="\n")
    first = ["line", *(["time"] * timed), "score", "threshold"]
    writer.writerow([*first, "strange", "known", "anomalous", "causes"])
    for row in rows:
        causes = " ".join(f"{cause.feature}={cause.share:.4f}" for cause in row.causes)
        known = "; ".join(row.known)
        told = [int(row.strange), known, int(row.anomalous), causes]
        when = [row.time] if timed else []
        writer.writerow([row.line, *when, row.score, row.threshold, *told])


def _write_jsonl(rows: Iterable[Scored], out: TextIO, *, timed: bool) -> None:
    for row in rows:
        limit = row.threshold if np.isfinite(row.threshold) else None
        fields: dict[str, Any] = {"line": row.line, **({"time": row.time} if timed else {})}
        fields |= {"score": row.score, "threshold": limit}
        causes = [cause._asdict() for cause in row.causes]
        fields |= {"strange": row.strange, "known": row.known, "anomalous": row.anomalous}
        out.write(json.dumps({**fields, "causes": causes}) + "\n")


WRITERS = {Format.csv: _write_csv, Format.jsonl: _write_jsonl}
