"""``elmgrove paper``: the papers' figures and tables, run again."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from elmgrove.cli import notes, tracked
from elmgrove.errors import BadInput
from elmgrove_papers.catalogue import PAPERS, figure
from elmgrove_papers.figure import Run
from elmgrove_papers.fleet import meeting
from elmgrove_papers.tables import grids, text

TRIALS = 10
FOLDER, QUICK_FOLDER = Path("paper-results"), Path("paper-results-quick")
#: The folder in a paper's folder with what its trials found.
KEPT = "trials"
#: Columns that still fit on a screen.
WIDEST = 9
DataFolder = Annotated[
    Path | None,
    typer.Option(
        help="The folder with the data sets.",
        envvar="ELMGROVE_DATA",
        exists=True,
        file_okay=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        help="Folder for JSON and picture; each paper has its own in it. "
        rf"\[default: {FOLDER}, with --quick {QUICK_FOLDER}]",
        file_okay=False,
    ),
]
Quick = Annotated[bool, typer.Option("--quick", help="A small run, in about a minute.")]
Trials = Annotated[
    int | None,
    typer.Option(
        help=f"Trials to average over, in Ito 2021's figures 8 to 17 and pairs; networks get "
        rf"a tenth of them. \[default: {TRIALS}, with --quick 1]",
        min=1,
    ),
]
OnServer = Annotated[
    bool,
    typer.Option(
        "--server", help="In the same figures: devices meet on a server, started for them."
    ),
]


def paper(
    paper: Annotated[
        str | None, typer.Argument(help="The paper; without one, all are listed.")
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="FIGURE", help="The figure or table.")
    ] = None,
    data: DataFolder = None,
    output: Output = None,
    quick: Quick = False,
    trials: Trials = None,
    server: OnServer = False,
) -> None:
    """Run a figure or a table of a paper again, on the published data.

    Writes PAPER/FIGURE.json and PAPER/FIGURE.png. Each trial is kept in PAPER/trials, so an
    interrupted run goes on, and figures that share trials run them once. Nothing is downloaded:
    what is missing is named, and where it belongs.

    Example: [bold]elmgrove paper mlmg table2 --data data --quick[/]
    """
    if paper is None or name is None:
        _list(paper)
        return
    chosen = figure(paper, name)
    if (trials or server) and not chosen.repeats:
        repeated = ", ".join(one.name for one in PAPERS[paper] if one.repeats) or "none"
        raise BadInput(f"--trials and --server are for figures over trials; of {paper}: {repeated}")
    folder = require_folder(data) if chosen.reads_data else Path()
    place = folder_for(output, quick) / paper
    with meeting(server) as where:
        run = Run(folder, quick, tracked, often(trials, quick), place / KEPT, where, notes.print)
        found = chosen.made(run)
    for path in chosen.write(found, place):
        notes.print(f"Wrote {path}.")
    _show(found, chosen.title, place / f"{chosen.name}.json")


def often(trials: int | None, quick: bool) -> int:
    """Says how many trials there are: as many as are asked for, else the default."""
    return trials or (1 if quick else TRIALS)


def folder_for(output: Path | None, quick: bool) -> Path:
    """Says where results go; by default a small run does not overwrite a large one."""
    return output or (QUICK_FOLDER if quick else FOLDER)


def require_folder(data: Path | None) -> Path:
    """Gives the folder with the data sets, or raises ``BadInput`` where none was named."""
    if data is None:
        raise BadInput("--data or ELMGROVE_DATA must name the folder with the data sets")
    return data


def _list(paper: str | None) -> None:
    if paper is not None and paper not in PAPERS:
        raise BadInput(f"no paper {paper!r}; there are: {', '.join(PAPERS)}")
    grid = Table("paper", "figure", "what it shows")
    for known, figures in PAPERS.items():
        for one in figures if paper in (None, known) else ():
            grid.add_row(known, one.name, one.title)
    Console().print(grid)


def _show(found: dict[str, Any], title: str, path: Path) -> None:
    """The tables in the numbers; of what is too wide for a screen it is said where it is."""
    for grid in grids({name: part for name, part in found.items() if name != "made"}):
        if not grid.title:
            for name, value in grid.rows[""].items():
                Console(highlight=False).print(f"{text(name)}: {text(value)}")
        elif len(grid.columns) <= WIDEST:
            shown = Table(title=f"{title}: {grid.title}", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
            # Names of rows are broken between words alone.
            longest = max(len(word) for name in grid.rows for word in text(name).split() or [""])
            shown.add_column(min_width=longest)
            for heading in grid.columns:
                shown.add_column(text(heading), overflow="fold")
            for line in grid.lines():
                shown.add_row(*line)
            Console().print(shown)
        else:
            Console(highlight=False, soft_wrap=True).print(f"{grid.title}: see {path}")
