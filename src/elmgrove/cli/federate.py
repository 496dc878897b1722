"""``elmgrove federate``: a federation in rounds, in this process or on Flower's simulation."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from elmgrove.algebra import ACTIVATIONS, DISTRIBUTIONS
from elmgrove.cli.fleet_rows import FleetFiles, FleetRows, Pairs
from elmgrove.cli.options import bar, notes
from elmgrove.cli.reading_options import SkipBad, with_layout
from elmgrove.cli.rounds_report import Marks, draw_rounds, show_rounds
from elmgrove.cli.target_choice import (
    SHARE,
    Predict,
    choose_target,
    coded,
    fitted,
    hold_out,
    read_test,
)
from elmgrove.errors import BadInput, require_extra
from elmgrove.federation import EVIDENCE, Merged
from elmgrove.reading import Layout
from elmgrove.rounds import Delivery, Plan, RoundReport, RuleName, run_plan
from elmgrove.storage import save


class EngineName(StrEnum):
    """The engines that carry the messages."""

    local = "local"
    flower = "flower"


@with_layout
def federate(
    engine: Annotated[
        EngineName,
        typer.Option(help="In this process, or Flower's simulation (elmgrove\\[flower])."),
    ] = EngineName.local,
    rule: Annotated[
        RuleName,
        typer.Option(
            help="The sum (E²LM), averages (Fed-ELMS), a sum for each group (MLMG), or one in "
            "which all classes of a target count alike (balanced)."
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
    groups: Annotated[
        int | None,
        typer.Option(
            help="Groups that --rule groups makes, if there are as many patterns "
            "\\[default: what it finds].",
            min=1,
        ),
    ] = None,
    distance: Annotated[
        str, typer.Option(help="How --rule groups compares patterns: evidence or parameters.")
    ] = EVIDENCE,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds that a client has to answer; a late client is left out "
            "\\[default: none here, an hour on Flower].",
            min=0.0,
        ),
    ] = None,
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
            "whole numbers; says which]."
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="Rows on which the server tests the model after every round.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    test_share: Annotated[
        float | None,
        typer.Option(
            help=f"Keep this share of the rows for the test \\[default: {SHARE:g} for a target "
            "without --test].",
            min=0.0,
            max=1.0,
        ),
    ] = None,
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

    That is a state for elmgrove score, or with --target a model for elmgrove predict. Both engines
    send the same messages and end with the same model. All rows are on this machine, so the upload
    guard is off, and scaling is fitted to all of them.

    Example: [bold]elmgrove federate --data fleet --target mode --rounds 5 --test test.csv[/]
    """
    run = _simulate() if engine is EngineName.flower else run_plan
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
    marks = None if exam is None else Marks(exam, aim, basis)
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
    if predict is not None and target is None:
        raise BadInput("--predict says what --target is predicted as, and there is none")
    if test is not None and share is not None:
        raise BadInput("--test has the rows of the test: leave --test-share out")
    if test is None and share is None and target is not None:
        share = SHARE
    if plot is not None:
        if test is None and share is None:
            raise BadInput("--plot draws the test after each round: give --test or --test-share")
        require_extra("matplotlib.figure", "plot")
    return share


Run = Callable[[Plan, Callable[[RoundReport], None]], tuple[Merged, Delivery]]


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
