"""``elmgrove paper``: the papers' figures and tables, run again."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from elmgrove.cli import notes, tracked
from elmgrove.errors import BadInput, ElmgroveError
from elmgrove_papers.catalogue import PAPERS, figure
from elmgrove_papers.data.source import NotThere
from elmgrove_papers.figure import Figure, Run
from elmgrove_papers.fleet import meeting
from elmgrove_papers.results import publish
from elmgrove_papers.tables import Grid, grids, text

TRIALS = 10
FOLDER, QUICK_FOLDER = Path("paper-results"), Path("paper-results-quick")
#: The folder in a paper's folder with what its trials found.
KEPT = "trials"
# What a table has on a screen beside its columns.
_EDGES = 2
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
        help="Trials to average over, in Ito 2021's figures 8 to 17 and pairs; the papers have 50. "
        rf"\[default: {TRIALS}, with --quick 1]",
        min=1,
    ),
]
Networks = Annotated[
    int | None,
    typer.Option(
        help="In how many of these trials networks are trained as well, which takes far longer. "
        r"\[default: a tenth of the trials]",
        min=1,
    ),
]
OnServer = Annotated[
    bool,
    typer.Option(
        "--server", help="In the same figures: devices meet on a server, started for them."
    ),
]

Tune = Annotated[
    bool,
    typer.Option(
        "--tune",
        help="In Ito 2021's figures 8 to 17 and pairs: choose units and activation by 10-fold "
        "cross-validation, on the rows to learn from, and show what comes of it.",
    ),
]


def paper(
    paper: Annotated[
        str | None,
        typer.Argument(help="The paper, or all of them; without one, figures are listed."),
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="FIGURE", help="The figure or table.")
    ] = None,
    data: DataFolder = None,
    output: Output = None,
    quick: Quick = False,
    trials: Trials = None,
    networks: Networks = None,
    server: OnServer = False,
    tune: Tune = False,
) -> None:
    """Run a figure or a table of a paper again, on the published data.

    Writes PAPER/FIGURE.json and PAPER/FIGURE.png. Each trial is kept in PAPER/trials, so an
    interrupted run goes on, and figures that share trials run them once. Nothing is downloaded:
    what is missing is named, and where it belongs.

    [bold]elmgrove paper all[/] runs all figures, then writes the page with their numbers and
    pictures. What the folder has from a run of the same size is not run again, so an interrupted
    run goes on; remove the folder for a new one. A figure whose data are missing is named and left
    out; if anything else was in the way, the exit code is 1.

    Example: [bold]elmgrove paper mlmg table2 --data data --quick[/]
    """
    if paper == "all" and name is None:
        if tune:
            raise BadInput("--tune is for one figure")
        _run_all(require_folder(data), folder_for(output, quick), quick, trials, networks, server)
        return
    if paper is None or name is None:
        _list(paper)
        return
    chosen = figure(paper, name)
    if (trials or networks or server) and not chosen.repeats:
        repeated = ", ".join(one.name for one in PAPERS[paper] if one.repeats) or "none"
        raise BadInput(
            f"--trials, --networks and --server are for figures over trials; of {paper}: {repeated}"
        )
    if tune:
        chosen = _tuning(paper, chosen)
    folder = require_folder(data) if chosen.reads_data else Path()
    place = folder_for(output, quick) / paper
    with meeting(server) as where:
        size = often(trials, networks, quick)
        run = Run(folder, quick, tracked, *size, place / KEPT, where, notes.print)
        found = chosen.made(run)
    for path in chosen.write(found, place):
        notes.print(f"Wrote {path}.")
    _show(found, chosen.title)


def _run_all(
    folder: Path,
    where_to: Path,
    quick: bool,
    trials: int | None,
    networks: int | None,
    server: bool,
) -> None:
    """Run all figures of all papers, and write the page of results."""
    failed, size = False, often(trials, networks, quick)
    with meeting(server) as where:
        for paper, figures in PAPERS.items():
            place = where_to / paper
            run = Run(folder, quick, tracked, *size, place / KEPT, where, notes.print)
            for one in figures:
                try:
                    came_of_it = _written(one, place, run)
                except ElmgroveError as error:
                    came_of_it = f"left out: {error}"
                    failed = failed or not isinstance(error, NotThere)
                notes.print(f"{paper} {one.name}: {came_of_it}")
    publish(where_to, where_to / "results.md")
    notes.print(f"Wrote {where_to / 'results.md'}.")
    if failed:
        raise typer.Exit(1)


def _written(figure: Figure, place: Path, run: Run) -> str:
    """Run a figure unless it is there; say which, in words."""
    if figure.is_in(place, run):
        return "is there already"
    found = figure.made(run)
    figure.write(found, place)
    return f"{found['made']['seconds']:g} s"


def _tuning(paper: str, chosen: Figure) -> Figure:
    if chosen.tuning is None:
        tuned = ", ".join(one.name for one in PAPERS[paper] if one.tuning) or "none"
        raise BadInput(
            f"--tune is for figures whose hyperparameters were tuned; of {paper}: {tuned}"
        )
    return chosen.tuning


def often(trials: int | None, networks: int | None, quick: bool) -> tuple[int, int | None]:
    """Says how many trials there are, as many as are asked for or the default, and of networks."""
    found = trials or (1 if quick else TRIALS)
    if networks is not None and networks > found:
        raise BadInput(
            f"--networks {networks}: there are {found} trials in all; --trials {networks} as well"
        )
    return found, networks


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


def _show(found: dict[str, Any], title: str) -> None:
    """Prints the tables in the numbers; one that is too wide for the screen in several parts."""
    out = Console()
    for grid in grids({name: part for name, part in found.items() if name != "made"}):
        if grid.title:
            for part in grid.fitting(out.width - _EDGES):
                out.print(_table(part, f"{title}: {grid.title}"))
            continue
        for name, value in grid.rows[""].items():
            Console(highlight=False, soft_wrap=True).print(f"{text(name)}: {text(value)}")


def _table(grid: Grid, title: str) -> Table:
    shown = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading, width in zip(("", *map(text, grid.columns)), grid.widths, strict=True):
        shown.add_column(heading, width=width)
    for line in grid.lines():
        shown.add_row(*line)
    return shown
