"""``elmgrove paper``: the papers' figures and tables, run again."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import notes, tracked
from elmgrove.errors import BadInput
from elmgrove.papers.catalogue import PAPERS, figure
from elmgrove.papers.figure import Run


def paper(
    paper: Annotated[
        str | None, typer.Argument(help="The paper; without one, all are listed.")
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="FIGURE", help="The figure or table.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="The folder with the data sets.",
            envvar="ELMGROVE_DATA",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for JSON and picture.")] = Path("papers"),
    quick: Annotated[bool, typer.Option("--quick", help="A small run, in about a minute.")] = False,
) -> None:
    """Run a figure or a table of a paper again, on the published data.

    Writes FIGURE.json and FIGURE.png. Nothing is downloaded: what is missing is named, and where
    it belongs.

    Example: [bold]elmgrove paper mlmg table2 --data data --quick[/]
    """
    if paper is None or name is None:
        _list(paper)
        return
    chosen = figure(paper, name)
    if data is None:
        raise BadInput("--data or ELMGROVE_DATA must name the folder with the data sets")
    found = chosen.made(Run(data, quick, tracked))
    for path in chosen.write(found, output):
        notes.print(f"Wrote {path}.")
    _show(found, chosen.title)


def _list(paper: str | None) -> None:
    if paper is not None and paper not in PAPERS:
        raise BadInput(f"no paper {paper!r}; there are: {', '.join(PAPERS)}")
    grid = Grid("paper", "figure", "what it shows")
    for known, figures in PAPERS.items():
        for one in figures if paper in (None, known) else ():
            grid.add_row(known, one.name, one.title)
    Console().print(grid)


def _show(found: dict[str, Any], title: str) -> None:
    """The tables in the numbers; what does not fit into one is in the JSON file."""
    for name, rows in found.items():
        items = _rows(rows)
        if any(isinstance(value, float) for row in items.values() for value in row.values()):
            columns = list(dict.fromkeys(key for row in items.values() for key in row))
            headings = [column.replace("_", " ") for column in columns]
            grid = Grid("", *headings, title=f"{title}: {name}")
            for label, row in items.items():
                grid.add_row(label, *(_cell(row.get(column)) for column in columns))
            Console().print(grid)


def _rows(rows: Any) -> dict[str, dict[str, Any]]:
    """Rows by name with their plain values; none where these are no rows."""
    if isinstance(rows, list):
        rows = {str(number): row for number, row in enumerate(rows, start=1)}
    if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in rows.values()):
        return {}
    return {
        name: {key: value for key, value in row.items() if not isinstance(value, dict)}
        for name, row in rows.items()
    }


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
