"""``elmgrove federate``: a federation in rounds, in this process or on Flower's simulation."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from elmgrove.cli.fleet_rows import FleetRows
from elmgrove.cli.options import bar, notes
from elmgrove.cli.round_table import grid_of, left_out, listed
from elmgrove.errors import require_extra
from elmgrove.federation import EVIDENCE, Merged
from elmgrove.rounds import Delivery, Plan, RoundReport, RuleName
from elmgrove.rounds import run as run_here
from elmgrove.storage import save


class EngineName(StrEnum):
    """What carries the messages."""

    local = "local"
    flower = "flower"


def federate(
    engine: Annotated[
        EngineName,
        typer.Option(help="In this process, or Flower's simulation (elmgrove\\[flower])."),
    ] = EngineName.local,
    rule: Annotated[
        RuleName,
        typer.Option(help="The sum (E²LM), averages (Fed-ELMS), or sums of each kind (MLMG)."),
    ] = RuleName.e2lm,
    data: Annotated[
        Path | None,
        typer.Option(
            help="A CSV file, cut into a piece for each client, or a folder with a CSV file for "
            "each \\[default: handwritten digits, two kinds a client].",
            exists=True,
        ),
    ] = None,
    clients: Annotated[
        int | None, typer.Option(help="Clients \\[default: 100; a folder says it itself].", min=1)
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
            help="Kinds that --rule groups makes, if there are as many patterns "
            "\\[default: what it finds].",
            min=1,
        ),
    ] = None,
    distance: Annotated[
        str, typer.Option(help="How --rule groups tells kinds apart: evidence or parameters.")
    ] = EVIDENCE,
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds that a client has to answer; who is late is left out "
            "\\[default: none here, an hour on Flower].",
            min=0.0,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of layer, split and draw.", min=0)] = 0,
    units: Annotated[
        int | None,
        typer.Option(
            help="Hidden units \\[default: a quarter of the columns, half of few].", min=1
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The state file to write.", dir_okay=False)
    ] = Path("federation.elm"),
) -> None:
    """Run a federation of clients on this machine; the model they end with is saved as a state.

    Both engines send the same messages and end with the same model. All rows are on this machine,
    so the upload guard is off, and scaling is fitted to all of them.

    Example: [bold]elmgrove federate --rule e2lm --clients 100 --output federation.elm[/]
    """
    run = _simulated() if engine is EngineName.flower else _here
    rows = FleetRows.read(data, clients, seed)
    plan = rows.plan(
        rule,
        rounds=rounds,
        fraction=fraction,
        seed=seed,
        units=units,
        bits=bits,
        groups=groups,
        distance=distance,
        timeout=timeout,
    )
    reports = list[RoundReport]()
    merged, delivery = _with_progress(run, plan, reports)
    save(output, plan.member(merged))
    Console().print(grid_of(reports))
    for reason, names in left_out(reports, delivery).items():
        notes.print(f"Left out {listed(names)}: {reason}")
    told = f" {len(merged.parts)} groups of rows were told apart." if merged.apart else ""
    Console(highlight=False, soft_wrap=True).print(
        f"{merged.devices} of {len(plan.rows)} clients took part.{told} What each got back ("
        f"{delivery.down:,} bytes in all) explains the clients' rows with a mean squared error "
        f"of {delivery.loss:.4g}."
    )
    notes.print(f"Saved {output}.")


Run = Callable[[Plan, Callable[[RoundReport], None]], tuple[Merged, Delivery]]


def _simulated() -> Run:
    require_extra("flwr", "flower")
    # Only now: it needs Flower, and whoever lacks it shall read how to get it.
    from elmgrove.rounds.flower.simulation import simulate

    return simulate


def _here(plan: Plan, on_round: Callable[[RoundReport], None]) -> tuple[Merged, Delivery]:
    federation = plan.federation()
    workers = {name: plan.client(name) for name in plan.rows}
    delivery = run_here(
        federation,
        workers,
        rounds=plan.rounds,
        fraction=plan.fraction,
        seed=plan.seed,
        deadline=plan.timeout,
        on_round=on_round,
    )
    return federation.merged(), delivery


def _with_progress(run: Run, plan: Plan, reports: list[RoundReport]) -> tuple[Merged, Delivery]:
    with bar() as progress:
        task = progress.add_task("Starting", total=plan.rounds)

        def tell(report: RoundReport) -> None:
            reports.append(report)
            progress.update(task, advance=1, description=f"Round {report.number}")

        return run(plan, tell)
