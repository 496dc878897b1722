"""``elmgrove federate`` and ``predict``: a federation in rounds, and what its model predicts."""

import csv
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import zip_longest
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.layer import ACTIVATIONS, DISTRIBUTIONS
from elmgrove.cli.federate_rows import FleetFiles, FleetRows, Pairs, choose_target, fitted, hold_out
from elmgrove.cli.options import Data, SkipBad, bar, notes, read, with_layout
from elmgrove.errors import BadInput, require_extra
from elmgrove.federation.merged import Merged
from elmgrove.reading.cells import is_missing
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import ColumnCells, Table
from elmgrove.rounds.evaluation import Exam, models_of
from elmgrove.rounds.loop import RoundReport
from elmgrove.rounds.plan import Plan, RuleName, run_plan
from elmgrove.rounds.predictor import Predictor, Projection, Target
from elmgrove.storage.disk import load, save


class EngineName(StrEnum):
    """The engines that carry the messages."""

    local = "local"
    flower = "flower"


class ScalingName(StrEnum):
    """The ways to scale columns before they are learned."""

    none = "none"
    standard = "standard"
    minmax = "minmax"


class Predict(StrEnum):
    """What a target is predicted as."""

    classes = "classes"
    number = "number"


@dataclass(frozen=True)
class Marks:
    """How the results of an exam are printed: the measure, its unit, and a baseline.

    For classes it is the share that is right, for numbers the root of the mean squared error in
    their own unit, and for a detector's rows the mean squared error of scaled columns.
    """

    target: Target | None
    exam: Exam
    basis: Basis

    @property
    def by_class(self) -> bool:
        return self.target is not None and bool(self.target.classes)

    @property
    def heading(self) -> str:
        """The name of what is measured, for a table."""
        return "accuracy" if self.by_class else "test error"

    def text(self, value: float) -> str:
        """A result in per cent, or in the target's own unit."""
        if self.by_class:
            return f"{100.0 * value:.1f} %"
        if self.target is not None:
            value = float(np.sqrt(value)) * self.target.unit
        return f"{value:.4g}"

    def sentence(self, value: float) -> str:
        """A sentence on how a model does, beside the baseline."""
        rows, found = len(self.exam.X), self.text(value)
        plain = self.text(self.exam.baseline(self.basis))
        if self.exam.classes:
            assert self.exam.T is not None
            common = self.exam.classes[int(self.exam.T.mean(axis=0).argmax())]
            return (
                f"{found} of {rows} rows are predicted right; always {common!r} would be {plain}."
            )
        if self.target is not None:
            return (
                f"{self.target.column} of {rows} rows is off by {found} (root mean square); "
                f"always their mean would be off by {plain}."
            )
        return (
            f"{rows} rows are explained with a mean squared error of {found}; their mean "
            f"alone would leave {plain}."
        )


def show_rounds(plan: Plan, reports: Sequence[RoundReport], merged: Merged, marks: Marks) -> None:
    """Print what happened in each round, who was left out and why, and what came of it."""
    Console().print(_grid(reports, marks))
    for reason, names in _left_out(reports).items():
        rest = f" and {len(names) - 5} more" if len(names) > 5 else ""
        notes.print(f"Left out {', '.join(names[:5])}{rest}: {reason}")
    found = f" {len(merged.parts)} groups of clients were found." if merged.apart else ""
    out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    out.print(f"{merged.devices} of {len(plan.rows)} clients took part.{found}")
    last = reports[-1].evaluation
    assert last is not None, "a client took part, so there is a model"
    for place, value in enumerate(last.groups):
        rows = f"{merged.parts[place].count:,.0f} rows"
        out.print(f"Test of group {place + 1}, of {rows}: {marks.text(value)}")
    mean = "groups, in the mean weighted by rows" if last.groups else "global model"
    out.print(f"Test of the {mean}: {marks.sentence(last.value)}")


def _grid(reports: Sequence[RoundReport], marks: Marks) -> Grid:
    """Make a table with one line for each round."""
    # Without frames between them, all columns have room on a narrow screen.
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    headings = ("round", "asked", "answered", "left out", "bytes down", "bytes up", "seconds")
    for heading in (*headings, marks.heading):
        grid.add_column(heading, justify="right", no_wrap=True)
    for report in reports:
        clients = (len(report.asked), len(report.answered), len(report.left_out))
        cells = [str(report.number), *map(str, clients), f"{report.down:,}", f"{report.up:,}"]
        found = "-" if report.evaluation is None else marks.text(report.evaluation.value)
        grid.add_row(*cells, f"{report.seconds:.2f}", found)
    return grid


def _left_out(reports: Sequence[RoundReport]) -> dict[str, list[str]]:
    """Names by when and why they were left out; of each client the last time only."""
    last, found = dict[str, str](), dict[str, list[str]]()
    for report in reports:
        at = f"in round {report.number}"
        last |= {name: f"{at}, {reason}" for name, reason in report.left_out.items()}
    for name in sorted(last):
        found.setdefault(last[name], []).append(name)
    return found


@with_layout("columns", "drop", "categories", "decimal")
def federate(
    engine: Annotated[
        EngineName,
        typer.Option(help="In this process, or on Flower's simulation (elmgrove\\[flower])."),
    ] = EngineName.local,
    rule: Annotated[
        RuleName,
        typer.Option(
            help="The sum (E²LM), averages (Fed-ELMS), or a sum for each group of clients (MLMG)."
        ),
    ] = RuleName.e2lm,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file, cut into a piece for each client, or a folder with a CSV file for "
            "each \\[default: handwritten digits, about two of the ten for each].",
            exists=True,
        ),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(help="Clients \\[default: 100, or a folder's number of files].", min=1),
    ] = None,
    rounds: Annotated[
        int, typer.Option(help="Rounds; each brings an equal part of a client's rows.", min=1)
    ] = 1,
    fraction: Annotated[
        float, typer.Option(help="The share of clients drawn each round.", min=0.0, max=1.0)
    ] = 1.0,
    bits: Annotated[
        int,
        typer.Option(help="Bits of a number in the messages of --rule fedavg: 64, or 8 (compact)."),
    ] = 64,
    seed: Annotated[int, typer.Option(help="Seed of layer, split and draw.", min=0)] = 0,
    units: Annotated[
        int | None,
        typer.Option(
            help="Hidden units \\[default: a quarter of the columns, half of fewer than 16, at "
            "most 128; for a target a quarter of the rows, at most 256].",
            min=1,
        ),
    ] = None,
    activation: Annotated[
        str | None,
        typer.Option(help=f"{', '.join(ACTIVATIONS)} \\[default: identity; for a target relu]."),
    ] = None,
    weights: Annotated[
        str, typer.Option(help=f"How the layer's weights are drawn: {', '.join(DISTRIBUTIONS)}.")
    ] = "uniform",
    scaling: Annotated[
        ScalingName | None,
        typer.Option(help="How columns are scaled \\[default: standard; the digits are not]."),
    ] = None,
    pca: Annotated[
        float | None,
        typer.Option(
            help="Learn the principal components that keep this share of the variance of the "
            "scaled columns, like 0.9; they are not scaled themselves.",
            min=0.0,
            max=1.0,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="The column to predict, a class or a number \\[default: none, detectors]."
        ),
    ] = None,
    predict: Annotated[
        Predict | None,
        typer.Option(
            help="What the target is predicted as \\[default: classes if it holds words or few "
            "whole numbers; says which].",
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="Rows on which the server tests the model after every round \\[default: a fifth "
            "of the rows, which nobody learns].",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    skip_bad: SkipBad = False,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The state or model to write.", dir_okay=False),
    ] = Path("federation.elm"),
    *,
    layout: Layout,
) -> None:
    """Run a federation of clients on this machine, and save the model they end with.

    That is a state for elmgrove score, or with --target a model for elmgrove predict. All engines
    send the same messages and end with the same model. All rows are on this machine, so the upload
    guard is off, and scaling is fitted to all of them.

    Example: [bold]elmgrove federate --data fleet --target mode --rounds 5 --test test.csv[/]
    """
    run = _engine(engine)
    if predict is not None and target is None:
        raise BadInput("--predict says what --target is predicted as, and there is none")
    if pca is not None and target is None:
        raise BadInput("--pca needs --target: a detector names the columns that moved")
    files = FleetFiles(layout, target, skip_bad)
    fleet = FleetRows.read(data, clients, seed, files)
    aim = None
    if target is not None:
        cells = [cell for column in fleet.cells for cell in column.cells]
        aim = choose_target(target, cells, layout.decimal, predict)
        fleet = fleet.aimed(aim, files)
    if test is None:
        fleet, held = hold_out(fleet, 0.2, seed)
    if scaling is not None:
        fleet = replace(fleet, scaling=scaling.value)
    projection: Projection | None = None
    if pca is not None:
        projection, fleet = fleet.projected(pca)
    activation = activation or ("identity" if target is None else "relu")
    basis = fleet.basis(units, seed, activation=activation, weights=weights)
    if test is not None:
        held = files.test(test, projection or basis, aim)
    if projection is not None:
        held = Pairs(projection(held.X), held.T)
    aim, fleet, exam = fitted(aim, fleet, held)
    fleet, batch = fleet.with_batch(2 * basis.layer.units * (rule is RuleName.fedavg), seed)
    plan = Plan(
        rule,
        basis,
        fleet.rows,
        rounds=rounds,
        fraction=fraction,
        seed=seed,
        batch=batch.X,
        bits=bits,
        targets=fleet.targets,
        batch_targets=batch.T,
        exam=exam,
    )
    marks, reports = Marks(aim, exam, basis), list[RoundReport]()
    merged = _with_progress(run, plan, reports, marks)
    if aim is None:
        save(output, plan.member(merged))
    else:
        models = models_of(merged, plan.ridge)
        save(output, Predictor(basis, aim, models, layout.fields, projection))
    show_rounds(plan, reports, merged, marks)
    notes.print(f"Saved {output}.")


Run = Callable[[Plan, Callable[[RoundReport], None]], Merged]


def _engine(name: EngineName) -> Run:
    if name is EngineName.local:
        return run_plan
    require_extra("flwr", "flower")
    # Only now: without Flower, the error above says how to install it.
    from elmgrove.rounds.flower import simulate

    return simulate


def _with_progress(run: Run, plan: Plan, reports: list[RoundReport], marks: Marks) -> Merged:
    with bar() as progress:
        task = progress.add_task("Starting", total=plan.rounds)

        def tell(report: RoundReport) -> None:
            reports.append(report)
            text = f"Round {report.number}"
            if report.evaluation is not None:
                text += f", {marks.heading} {marks.text(report.evaluation.value)}"
            progress.update(task, advance=1, description=text)

        return run(plan, tell)


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
    """Note how right the predictions are, beside what needs no model."""
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
