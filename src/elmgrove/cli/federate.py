"""``elmgrove federate``: a federation in rounds, in this process or on Flower."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.layer import ACTIVATIONS, DISTRIBUTIONS
from elmgrove.cli.federate_rows import (
    SHARE,
    FleetFiles,
    FleetRows,
    Pairs,
    Predict,
    choose_target,
    chosen_share,
    coded,
    fitted,
    hold_out,
    read_test,
)
from elmgrove.cli.options import SkipBad, bar, notes, with_layout
from elmgrove.detector.plot import save_picture
from elmgrove.errors import BadInput, require_extra
from elmgrove.federation.groups import EVIDENCE
from elmgrove.federation.merged import Merged
from elmgrove.reading.layout import Layout
from elmgrove.rounds.evaluation import Exam
from elmgrove.rounds.local import run_plan
from elmgrove.rounds.plan import Plan, RuleName
from elmgrove.rounds.predictor import Target
from elmgrove.rounds.report import Delivery, RoundReport
from elmgrove.storage.disk import save

RuleOption = Annotated[
    RuleName,
    typer.Option(
        "--rule",
        help="The sum (E²LM), averages (Fed-ELMS), a sum for each group (MLMG), or one in "
        "which all classes of a target count alike (balanced).",
    ),
]
RoundsOption = Annotated[
    int,
    typer.Option("--rounds", help="Rounds; each brings an equal part of a client's rows.", min=1),
]
Fraction = Annotated[
    float, typer.Option(help="The share of clients drawn each round.", min=0.0, max=1.0)
]
Bits = Annotated[
    int, typer.Option(help="Bits of a number in the messages of --rule fedavg: 64, or 8 (compact).")
]
Groups = Annotated[
    int | None,
    typer.Option(
        help="Groups that --rule groups makes, if there are as many patterns "
        "\\[default: what it finds].",
        min=1,
    ),
]
Distance = Annotated[
    str, typer.Option(help="How --rule groups compares patterns: evidence or parameters.")
]
Seed = Annotated[int, typer.Option(help="Seed of layer, split and draw.", min=0)]
Units = Annotated[
    int | None,
    typer.Option(
        help="Hidden units \\[default: a quarter of the columns, half of fewer than 16, at "
        "most 128; for a target a quarter of the rows, at most 256].",
        min=1,
    ),
]
Activation = Annotated[
    str | None,
    typer.Option(help=f"{', '.join(ACTIVATIONS)} \\[default: identity; for a target relu]."),
]
Weights = Annotated[
    str, typer.Option(help=f"How the layer's weights are drawn: {', '.join(DISTRIBUTIONS)}.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target", help="The column to predict, a class or a number \\[default: none, detectors]."
    ),
]
PredictOption = Annotated[
    Predict | None,
    typer.Option(
        "--predict",
        help="What the target is predicted as \\[default: classes if it holds words or few "
        "whole numbers; says which].",
    ),
]
TestFile = Annotated[
    Path | None,
    typer.Option(
        "--test",
        help="Rows on which the server tests the model after every round.",
        exists=True,
        dir_okay=False,
    ),
]
TestShare = Annotated[
    float | None,
    typer.Option(
        help=f"Keep this share of the rows for the test \\[default: {SHARE:g} for a target "
        "without --test].",
        min=0.0,
        max=1.0,
    ),
]


#: Clients that are named where many were left out for the same reason.
_NAMED = 5
# Okabe and Ito's blue and vermilion, which colour-blind people can tell apart.
_MODEL, _BASELINE = "#0072B2", "#D55E00"


@dataclass(frozen=True)
class Marks:
    """How the results of an exam are told: by what, in whose units, and beside which baseline.

    Classes are told by the share that is right, numbers by the root of the mean squared error in
    their own units, and a detector's rows by the mean squared error of scaled columns.
    """

    target: Target | None
    exam: Exam
    basis: Basis

    @property
    def by_class(self) -> bool:
        """Says whether classes are told."""
        return self.target is not None and bool(self.target.classes)

    @property
    def heading(self) -> str:
        """The name of what is measured, for a table."""
        return "accuracy" if self.by_class else "test error"

    @property
    def axis(self) -> str:
        """The name of what is measured, for a picture."""
        if self.by_class:
            return "accuracy on the test rows (%)"
        if self.target is not None:
            return f"root mean square error of {self.target.column}, test rows"
        return "mean squared error of test rows (scaled)"

    def number(self, value: float) -> float:
        """Gives a result as it is drawn: in per cent, or in the target's own units."""
        if self.by_class:
            return 100.0 * value
        return value if self.target is None else float(np.sqrt(value)) * self.target.unit

    def told(self, value: float) -> str:
        """Writes a result for people."""
        return f"{self.number(value):.1f} %" if self.by_class else f"{self.number(value):.4g}"

    @property
    def baseline(self) -> float:
        """What the best constant answer reaches in this exam."""
        return self.exam.baseline(self.basis)

    def sentence(self, value: float) -> str:
        """Says how a model does, beside what needs no model."""
        rows, told, plain = len(self.exam.X), self.told(value), self.told(self.baseline)
        if self.exam.classes:
            assert self.exam.T is not None
            common = self.exam.classes[int(self.exam.T.mean(axis=0).argmax())]
            return f"{told} of {rows} rows are predicted right; always {common!r} would be {plain}."
        if self.target is not None:
            return (
                f"{self.target.column} of {rows} rows is off by {told} (root mean square); "
                f"always their mean would be off by {plain}."
            )
        return (
            f"{rows} rows are explained with a mean squared error of {told}; their mean "
            f"alone would leave {plain}."
        )


def show_rounds(
    plan: Plan,
    reports: Sequence[RoundReport],
    merged: Merged,
    delivery: Delivery,
    marks: Marks | None,
) -> None:
    """Prints what happened in each round, who was left out and why, and what came of it."""
    Console().print(_grid(reports, marks))
    for reason, names in _left_out(reports, delivery.left_out).items():
        rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        notes.print(f"Left out {', '.join(names[:_NAMED])}{rest}: {reason}")
    of = "clients" if plan.targets else "patterns"
    found = f" {len(merged.parts)} groups of {of} were found." if merged.apart else ""
    out = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    out.print(
        f"{merged.devices} of {len(plan.rows)} clients took part.{found} What each got back ("
        f"{delivery.down:,} bytes in all) explains the clients' rows with a mean squared error "
        f"of {delivery.loss:.4g}."
    )
    last = reports[-1].evaluation
    if marks is not None and last is not None:
        for place, value in enumerate(last.groups):
            rows = f"{merged.parts[place].count:,.0f} rows"
            out.print(f"Test of group {place + 1}, of {rows}: {marks.told(value)}")
        mean = "groups, in the mean weighted by rows" if last.groups else "global model"
        out.print(f"Test of the {mean}: {marks.sentence(last.value)}")


def _grid(reports: Sequence[RoundReport], marks: Marks | None) -> Grid:
    """Makes a table with one line for each round."""
    headings = ("round", "asked", "answered", "left out", "bytes down", "bytes up", "seconds")
    # Without frames between them, all columns have room on a narrow screen.
    grid = Grid(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in (*headings, *([] if marks is None else [marks.heading])):
        grid.add_column(heading, justify="right", no_wrap=True)
    for report in reports:
        clients = (len(report.asked), len(report.answered), len(report.left_out))
        cells = [str(report.number), *map(str, clients), f"{report.down:,}", f"{report.up:,}"]
        cells.append(f"{report.seconds:.2f}")
        if marks is not None:
            cells.append("-" if report.evaluation is None else marks.told(report.evaluation.value))
        grid.add_row(*cells)
    return grid


def _left_out(
    reports: Sequence[RoundReport], at_the_end: Mapping[str, str]
) -> dict[str, list[str]]:
    """Names by when and why they were left out; of each client the last time only."""
    last: dict[str, str] = {}
    for report in reports:
        at = f"in round {report.number}"
        last |= {name: f"{at}, {reason}" for name, reason in report.left_out.items()}
    last |= {name: f"at the end, {reason}" for name, reason in at_the_end.items()}
    found: dict[str, list[str]] = {}
    for name in sorted(last):
        found.setdefault(last[name], []).append(name)
    return found


def draw_rounds(reports: Sequence[RoundReport], marks: Marks, title: str, path: Path) -> None:
    """Draws how the global model did in the test after each round, beside the baseline."""
    figure = require_extra("matplotlib.figure", "plot").Figure(
        figsize=(7.0, 4.0), layout="constrained"
    )
    axes = figure.subplots()
    tested = [(one.number, one.evaluation) for one in reports if one.evaluation is not None]
    numbers = [number for number, _ in tested]
    values = [marks.number(found.value) for _, found in tested]
    axes.plot(numbers, values, "o-", color=_MODEL, label="global model")
    plain = "commonest class" if marks.exam.classes else "mean of the test rows"
    axes.axhline(
        marks.number(marks.baseline), color=_BASELINE, ls="--", lw=1.2, label=f"always the {plain}"
    )
    axes.set(xlabel="round", ylabel=marks.axis, title=title, ylim=(0.0, _top(marks, values)))
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(alpha=0.25, lw=0.5)
    axes.legend(fontsize=8)
    save_picture(figure, path)


def _top(marks: Marks, values: Sequence[float]) -> float:
    return 102.0 if marks.exam.classes else 1.1 * max(*values, marks.number(marks.baseline))


class EngineName(StrEnum):
    """The engines that carry the messages."""

    local = "local"
    flower = "flower"


@with_layout
def federate(
    engine: Annotated[
        EngineName,
        typer.Option(help="In this process, or on Flower's simulation (elmgrove\\[flower])."),
    ] = EngineName.local,
    rule: RuleOption = RuleName.e2lm,
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
    rounds: RoundsOption = 1,
    fraction: Fraction = 1.0,
    bits: Bits = 64,
    groups: Groups = None,
    distance: Distance = EVIDENCE,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds that a client has to answer; a late client is left out "
            "\\[default: none in this process, else an hour].",
            min=0.0,
        ),
    ] = None,
    seed: Seed = 0,
    units: Units = None,
    activation: Activation = None,
    weights: Weights = "uniform",
    target: TargetOption = None,
    predict: PredictOption = None,
    test: TestFile = None,
    test_share: TestShare = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw the test after each round into this file.", dir_okay=False),
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
    test_share = _share(target, predict, test, test_share, plot)
    files = FleetFiles(layout, target, skip_bad)
    fleet = FleetRows.read(data, clients, seed, files)
    aim = None
    if target is not None:
        aim = choose_target(target, fleet.written(), layout.decimal, predict)
        fleet = coded(fleet, aim, files)
    held: Pairs | None = None
    if test_share is not None:
        fleet, held = hold_out(fleet, test_share, seed)
    activation = activation or ("identity" if target is None else "relu")
    basis = fleet.basis(units, seed, activation=activation, weights=weights)
    if test is not None:
        held = read_test(test, basis, aim, files)
    aim, fleet, exam = fitted(aim, fleet, held)
    fleet, batch = fleet.with_batch(rule.batch_rows(basis), seed)
    plan = Plan(
        rule,
        basis,
        fleet.rows,
        rounds=rounds,
        fraction=fraction,
        seed=seed,
        batch=batch.X,
        bits=bits,
        groups=groups,
        distance=distance,
        timeout=timeout,
        targets=fleet.targets,
        classes=() if aim is None else aim.classes,
        batch_targets=batch.T,
        exam=exam,
    )
    marks = None if exam is None else Marks(aim, exam, basis)
    reports = list[RoundReport]()
    merged, delivery = _with_progress(run, plan, reports, marks)
    made = plan.member(merged) if aim is None else plan.predictor(merged, aim, layout.fields)
    save(output, made)
    show_rounds(plan, reports, merged, delivery, marks)
    notes.print(f"Saved {output}.")
    if plot is not None and marks is not None:
        draw_rounds(reports, marks, f"{rule.value}, {len(plan.rows)} clients", plot)
        notes.print(f"Wrote {plot}.")


def _share(
    target: str | None,
    predict: Predict | None,
    test: Path | None,
    share: float | None,
    plot: Path | None,
) -> float | None:
    """Gives the share of rows to test on, None if there is none; ``BadInput`` if options clash."""
    share = chosen_share(target, predict, test, share)
    if plot is not None:
        if test is None and share is None:
            raise BadInput("--plot draws the test after each round: give --test or --test-share")
        require_extra("matplotlib.figure", "plot")
    return share


Run = Callable[[Plan, Callable[[RoundReport], None]], tuple[Merged, Delivery]]


def _engine(name: EngineName) -> Run:
    if name is EngineName.flower:
        return _simulate()
    return run_plan


def _simulate() -> Run:
    require_extra("flwr", "flower")
    # Only now: without Flower, the error above says how to install it.
    from elmgrove.rounds.flower.simulation import simulate

    return simulate


def _with_progress(
    run: Run, plan: Plan, reports: list[RoundReport], marks: Marks | None
) -> tuple[Merged, Delivery]:
    with bar() as progress:
        task = progress.add_task("Starting", total=plan.rounds)

        def tell(report: RoundReport) -> None:
            reports.append(report)
            said = f"Round {report.number}"
            if marks is not None and report.evaluation is not None:
                said += f", {marks.heading} {marks.told(report.evaluation.value)}"
            progress.update(task, advance=1, description=said)

        return run(plan, tell)
