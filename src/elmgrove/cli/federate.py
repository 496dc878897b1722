"""``elmgrove federate``: a federation in rounds, in this process or on Flower."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from elmgrove.cli.fleet_rows import FleetFiles, FleetRows, Pairs
from elmgrove.cli.options import bar, notes
from elmgrove.cli.reading_options import SkipBad, with_layout
from elmgrove.cli.round_options import (
    Activation,
    Bits,
    Distance,
    Fraction,
    Groups,
    PredictOption,
    RoundsOption,
    RuleOption,
    Seed,
    TargetOption,
    TestFile,
    TestShare,
    Units,
    Weights,
)
from elmgrove.cli.rounds_report import Marks, draw_rounds, show_rounds
from elmgrove.cli.target_choice import (
    Predict,
    choose_target,
    chosen_share,
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
