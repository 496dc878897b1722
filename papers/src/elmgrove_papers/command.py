"""``elmgrove paper``: runs figures (``run.py``), says what data there is, and writes the page."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperGroup

from elmgrove.cli import notes
from elmgrove_papers.data.holdings import holdings, ways
from elmgrove_papers.results import publish
from elmgrove_papers.run import FOLDER, DataFolder, paper

RUN = "run"


class _Papers(TyperGroup):
    """What begins with no command's name is ``run``: a paper and a figure are enough."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        known = args and args[0] in {*self.commands, "--help"}
        return super().parse_args(ctx, args if known else [RUN, *args])


papers = typer.Typer(
    cls=_Papers,
    name="paper",
    help="The papers' figures and tables, run again. The word [bold]run[/] may be left out.",
    rich_markup_mode="rich",
)
papers.command(RUN)(paper)


@papers.command()
def data(data: DataFolder = None) -> None:
    """Say which data sets are in the folder, and where to get those that are not.

    What is there is read, so that damaged files come to light; then the exit code is 1. Without
    a folder, all data sets are listed with where to get them.

    Example: [bold]elmgrove paper data --data data[/]
    """
    out = Console(soft_wrap=True, highlight=False, markup=False)
    if data is None:
        out.print("--data or ELMGROVE_DATA names the folder with the data sets. Into it belong:")
        for line in ways():
            out.print(line)
        return
    damaged = False
    for holding in holdings(data):
        out.print(holding.text)
        damaged = damaged or holding.damaged
    if damaged:
        raise typer.Exit(1)


@papers.command()
def results(
    folder: Annotated[
        Path,
        typer.Argument(help="What --output of the figures named.", exists=True, file_okay=False),
    ] = FOLDER,
    output: Annotated[Path, typer.Option(help="The page to write.", dir_okay=False)] = Path(
        "results.md"
    ),
) -> None:
    """Write a page with all figures' numbers, beside the papers' and with what differs.

    A figure that the folder has no numbers of keeps what a page that is there has of it, so a
    page is brought up to date figure by figure. The pictures go into a folder beside the page,
    which has its name without ".md".

    Example: [bold]elmgrove paper results paper-results --output docs/results.md[/]
    """
    publish(folder, output)
    notes.print(f"Wrote {output}.")
