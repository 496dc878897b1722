"""python -m benchmarks: measure, print, and keep the numbers in bench/results.json."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.machine import about
from benchmarks.report import print_report
from benchmarks.rounds import measure, plans
from benchmarks.targets import TARGETS, UNITS, VERDICT_TARGETS

RESULTS = Path("bench/results.json")
SIZES = (16, 64, 128, 256)


def main(
    units: Annotated[
        list[int],
        typer.Option(
            help="Hidden units; may be repeated. 16, 64, 128 and 256 unless stated.",
            default_factory=lambda: list(SIZES),
        ),
    ],
    quick: Annotated[bool, typer.Option(help="Fewer rounds: a minute, and less steady.")] = False,
) -> None:
    """Measures Elmgrove against its peers, in one run."""
    out = Console()
    if not out.is_terminal:
        out.width = 110
    here = about()
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=out,
    ) as progress:
        results = measure(plans(tuple(units), quick), progress)
    print_report(results, units, here, out)
    targets = [*(TARGETS if UNITS in units else ()), *VERDICT_TARGETS]
    reached = [target.record(results) for target in targets]
    results.write(RESULTS, here | {"targets": reached})
    out.print(f"All numbers: {RESULTS}")


if __name__ == "__main__":
    typer.run(main)
