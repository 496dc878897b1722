"""``elmgrove federate`` and ``predict``: a federation in rounds, and what its model predicts."""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from rich.table import Table as Grid

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.layer import ACTIVATIONS, DISTRIBUTIONS
from elmgrove.cli.federate_data import FleetFiles, FleetRows, Pairs, choose_target, fitted, hold_out
from elmgrove.cli.options import (
    Data,
    SkipBad,
    bar,
    file_option,
    notes,
    option,
    print_result,
    read,
    right,
    with_layout,
)
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
        if self.exam.classes and self.exam.T is not None:
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
    print_result(_grid(reports, marks))
    # Of each client the last time only.
    latest, left_out = dict[str, str](), dict[str, list[str]]()
    for report in reports:
        at = f"in round {report.number}"
        latest |= {name: f"{at}, {reason}" for name, reason in report.left_out.items()}
    for name in sorted(latest):
        left_out.setdefault(latest[name], []).append(name)
    for reason, names in left_out.items():
        rest = f" and {len(names) - 5} more" if len(names) > 5 else ""
        notes.print(f"Left out {', '.join(names[:5])}{rest}: {reason}")
    found = f" {len(merged.parts)} groups of clients were found." if merged.apart else ""
    print_result(f"{merged.devices} of {len(plan.rows)} clients took part.{found}")
    last = reports[-1].evaluation
    assert last is not None, "a client took part, so there is a model"
    for place, value in enumerate(last.groups):
        rows = f"{merged.parts[place].count:,.0f} rows"
        print_result(f"Test of group {place + 1}, of {rows}: {marks.text(value)}")
    mean = "groups, in the mean weighted by rows" if last.groups else "global model"
    print_result(f"Test of the {mean}: {marks.sentence(last.value)}")


def _grid(reports: Sequence[RoundReport], marks: Marks) -> Grid:
    # Without frames between them, all columns have room on a narrow screen.
    headings = ("round", "asked", "answered", "left out", "bytes down", "bytes up", "seconds")
    columns = right(*headings, marks.heading, no_wrap=True)
    grid = Grid(*columns, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for report in reports:
        clients = (len(report.asked), len(report.answered), len(report.left_out))
        cells = [str(report.number), *map(str, clients), f"{report.down:,}", f"{report.up:,}"]
        found = "-" if report.evaluation is None else marks.text(report.evaluation.value)
        grid.add_row(*cells, f"{report.seconds:.2f}", found)
    return grid


@with_layout("columns", "drop", "categories", "decimal")
def federate(
    engine: Annotated[
        Literal["local", "flower"], option("This process, or Flower's simulation.")
    ] = "local",
    rule: Annotated[
        RuleName, option("Sums (E²LM), averages (Fed-ELMS), or a sum for each group (MLMG).")
    ] = RuleName.e2lm,
    data: Annotated[
        Path | None,
        option(
            "A CSV file to cut into pieces, or a folder with one for each client \\[default: "
            "handwritten digits, about two of the ten for each].",
            exists=True,
        ),
    ] = None,
    clients: Annotated[
        int | None, option("Clients \\[default: 100, or a folder's number of files].", min=1)
    ] = None,
    rounds: Annotated[
        int, option("Rounds; each brings an equal part of a client's rows.", min=1)
    ] = 1,
    fraction: Annotated[float, option("The share of clients drawn a round.", min=0, max=1)] = 1.0,
    bits: Annotated[int, option("Bits of a number in messages of --rule fedavg: 64 or 8.")] = 64,
    seed: Annotated[int, option("Seed of layer, split and draw.", min=0)] = 0,
    units: Annotated[
        int | None, option("Hidden units \\[default: by columns, or rows of a target].", min=1)
    ] = None,
    activation: Annotated[
        str | None, option(f"{', '.join(ACTIVATIONS)} \\[default: identity; for a target relu].")
    ] = None,
    weights: Annotated[
        str, option(f"The layer's weights: {', '.join(DISTRIBUTIONS)}.")
    ] = "uniform",
    scaling: Annotated[
        Literal["none", "standard", "minmax"] | None,
        option("How columns are scaled \\[default: standard; the digits are not]."),
    ] = None,
    pca: Annotated[
        float | None,
        option("Learn the components that keep this share of the variance.", min=0, max=1),
    ] = None,
    target: Annotated[
        str | None, option("The column to predict \\[default: none, detectors].")
    ] = None,
    predict: Annotated[
        Literal["classes", "number"] | None,
        option("What it is predicted as \\[default: words or few whole numbers are classes]."),
    ] = None,
    test: Annotated[
        Path | None,
        file_option("Rows to test each round's model with \\[default: a fifth, not learned]."),
    ] = None,
    skip_bad: SkipBad = False,
    output: Annotated[
        Path, option("The state or model to write.", "--output", "-o", dir_okay=False)
    ] = Path("federation.elm"),
    *,
    layout: Layout,
) -> None:
    """Run a federation of clients on this machine.

    It ends with a state for elmgrove score, or with --target a model for elmgrove predict, the same
    with either engine. There is no upload guard, and scaling is fitted to all rows.

    Example: [bold]elmgrove federate --data fleet --target mode --rounds 5 --test test.csv[/]
    """
    if engine == "flower":
        require_extra("flwr", "flower")
    if target is None:
        _require_no_target_wanted(predict, pca)
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
        fleet = replace(fleet, scaling=scaling)
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
        fleet.by_client(fleet.X),
        rounds=rounds,
        fraction=fraction,
        seed=seed,
        batch=batch.X,
        bits=bits,
        targets=fleet.by_client(fleet.T),
        batch_targets=batch.T,
        exam=exam,
    )
    marks, reports = Marks(aim, exam, basis), list[RoundReport]()
    merged = _run(engine, plan, reports, marks)
    if aim is None:
        save(output, plan.member(merged))
    else:
        models = models_of(merged, plan.ridge)
        save(output, Predictor(basis, aim, models, layout.fields, projection))
    show_rounds(plan, reports, merged, marks)
    notes.print(f"Saved {output}.")


def _require_no_target_wanted(predict: str | None, pca: float | None) -> None:
    if predict is not None:
        raise BadInput("--predict says what --target is predicted as, and there is none")
    if pca is not None:
        raise BadInput("--pca needs --target: a detector names the columns that moved")


def _run(engine: str, plan: Plan, reports: list[RoundReport], marks: Marks) -> Merged:
    run = run_plan
    if engine == "flower":
        run = import_module("elmgrove.rounds.flower").simulate
    with bar() as progress:
        task = progress.add_task("Starting", total=plan.rounds)

        def tell(report: RoundReport) -> None:
            reports.append(report)
            found = report.evaluation
            text = "" if found is None else f", {marks.heading} {marks.text(found.value)}"
            progress.update(task, advance=1, description=f"Round {report.number}{text}")

        return run(plan, tell)


def predict(
    data: Data,
    model: Annotated[Path, file_option("What federate --target saved.", "--model", "-m")],
    group: Annotated[
        int | None, option("The group whose model answers \\[default: that of most rows].", min=1)
    ] = None,
    skip_bad: SkipBad = False,
) -> None:
    """Predict the class or the number of each row.

    Columns are found by name. If the file has the target as well, both are printed side by side,
    and at the end how right that is.

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
    writer.writerow(columns)
    for line, predicted, cell in zip_longest(table.lines.tolist(), said, actual):
        known = None if is_missing(cell) else str(cell).strip()
        writer.writerow((line, predicted, known)[: len(columns)])
    if column is not None:
        _note_marks(predictor, place, table, column, layout.decimal)


def _place(predictor: Predictor, group: int | None) -> int:
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
