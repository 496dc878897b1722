"""python -m benchmarks.soak: agents and a server at work for long, and what was lost meanwhile."""

import os

# Hundreds of processes share the cores. Before NumPy is loaded, here and in the forks.
os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"

import signal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from benchmarks.soak.report import report
from benchmarks.soak.soak import Soak


def main(
    seconds: Annotated[float, typer.Option(help="Length, without the beginning and end.")] = 600.0,
    agents: Annotated[int, typer.Option(help="At work at a time.", min=2)] = 200,
    keep: Annotated[Path | None, typer.Option(help="A folder for all files, which stay.")] = None,
) -> None:
    """Lets agents and a server work, kills them, fills disks; ends with 1 if anything is wrong."""
    with TemporaryDirectory(prefix="elmgrove-soak-") as name:
        folder = Path(name) if keep is None else keep
        folder.mkdir(parents=True, exist_ok=True)
        soak = Soak(folder, agents, seconds)
        try:
            soak.run()
            went_well = report(soak)
        finally:
            soak.close()
    raise typer.Exit(0 if went_well else 1)


if __name__ == "__main__":
    # Ended like by Ctrl-C: processes and temporary files go first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    typer.run(main)
