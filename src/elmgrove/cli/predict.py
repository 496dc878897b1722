"""``elmgrove predict``: says the class or the number of each row, by a model of federate."""

import csv
import json
import sys
from dataclasses import replace
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from elmgrove.cli.federate import Marks
from elmgrove.cli.options import Data, SkipBad, notes, read
from elmgrove.errors import BadInput
from elmgrove.reading.cells import is_missing
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import ColumnCells, Table
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.predictor import Predictor
from elmgrove.storage.disk import load


class RowFormat(StrEnum):
    """The formats in which predictions are printed."""

    csv = "csv"
    jsonl = "jsonl"


def predict(
    data: Data,
    model: Annotated[
        Path,
        typer.Option(
            "--model", "-m", help="What federate --target saved.", exists=True, dir_okay=False
        ),
    ],
    group: Annotated[
        int | None,
        typer.Option(
            help="The group whose model answers, as federate --rule groups numbered them "
            "\\[default: that with the most rows].",
            min=1,
        ),
    ] = None,
    style: Annotated[
        RowFormat, typer.Option("--format", "-f", help="How rows are printed.")
    ] = RowFormat.csv,
    skip_bad: SkipBad = False,
) -> None:
    """Predict the class or the number of each row, and say how right that is where it is known.

    Columns are found by name. If the file has the target's column as well, both are printed side by
    side, and how many are right, or how far off they are, is said at the end.

    Example: [bold]elmgrove predict new.csv --model federation.elm > predicted.csv[/]
    """
    predictor = load(model, Predictor.from_bytes)
    place = _place(predictor, group)
    layout = Layout().after(predictor.layout)
    # A row whose target is missing is one to predict, and a file may have none at all.
    remembered = layout.remembered | {"beside"}
    layout = replace(layout, beside=predictor.target.column, remembered=remembered)
    table = read(data, predictor.reads, layout, skip_bad)
    if not len(table.rows):
        raise BadInput(f"{data}: no rows to predict")
    said, column = predictor.predict(table.rows, place), table.beside
    actual = () if column is None else column.cells
    columns = ("line", "predicted", "actual")[: 2 if column is None else 3]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    if style is RowFormat.csv:
        writer.writerow(columns)
    for line, predicted, cell in zip_longest(table.lines.tolist(), said, actual):
        known = None if is_missing(cell) else str(cell).strip()
        row = (line, predicted, known)[: len(columns)]
        if style is RowFormat.csv:
            writer.writerow(row)
        else:
            sys.stdout.write(json.dumps(dict(zip(columns, row, strict=True))) + "\n")
    if column is not None:
        _note_marks(predictor, place, table, column, layout.decimal)


def _place(predictor: Predictor, group: int | None) -> int:
    """The place of the model that answers."""
    count = len(predictor.models)
    if group is not None and group > count:
        raise BadInput(f"--group {group}: this model has {count} group{'s' * (count > 1)}")
    place = predictor.largest if group is None else group - 1
    if count > 1:
        rows = f"{predictor.models[place].rows:,.0f} rows"
        notes.print(f"Group {place + 1} of {count} answers, of {rows} (--group chooses).")
    return place


def _note_marks(
    predictor: Predictor, place: int, table: Table, column: ColumnCells, decimal: str
) -> None:
    """Notes how right the predictions are, beside what needs no model."""
    target = predictor.target
    there = np.array([not is_missing(cell) for cell in column.cells], bool)
    fits = target.fits(column.cells, decimal)
    unknown = there & ~fits
    if unknown.any():
        first = column.where(int(np.flatnonzero(unknown)[0]))
        notes.print(
            f"{int(unknown.sum())} rows have a {target.column} that was never learned or is no "
            f"number, and are not counted below. The first: {first}"
        )
    if not fits.any():
        return
    T = target.scaled(target.coded(column.at(fits), decimal))
    exam = Exam(predictor.inputs(table.rows[fits]), T, target.classes)
    found = exam.evaluate(predictor.basis, [predictor.models[place]])
    assert found is not None
    notes.print(Marks(target, exam, predictor.basis).sentence(found.value))
