"""What several commands share: options, reading with progress, what is said about the work."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from elmgrove.algebra import Basis
from elmgrove.errors import BadInput
from elmgrove.storage import Table, read_table

#: What is said about the work, as opposed to its result, goes to standard error.
#: Names and paths are printed as they are, whatever brackets they hold.
notes = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)

State = Annotated[
    Path,
    typer.Option("--state", "-s", help="The device's state file, e.g. fan-1.elm.", dir_okay=False),
]
SavedState = Annotated[
    Path,
    typer.Option("--state", "-s", help="The device's state file.", exists=True, dir_okay=False),
]
Data = Annotated[
    Path,
    typer.Argument(
        help="Rows of numbers: a CSV file (a first line of names is used) or a .npy file.",
        exists=True,
        dir_okay=False,
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out rows that can't be read, and say how many.")
]

T = TypeVar("T")


def bar() -> Progress:
    """A progress bar on standard error that leaves nothing behind."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=notes,
        transient=True,
        disable=not notes.is_terminal,
    )


def tracked(items: Sequence[T], text: str) -> Iterable[T]:
    """The items, with a progress bar over them."""
    with bar() as progress:
        yield from progress.track(items, description=text)


def read(data: Path, basis: Basis | None, drop: Sequence[str], skip_bad: bool) -> Table:
    """The rows of a file, as the basis wants them where there is one; with a progress bar.

    Says what ``--skip-bad`` left out.
    """
    with bar() as progress:
        task = progress.add_task(f"Reading {data.name}", total=data.stat().st_size)
        table = read_table(
            data,
            features=None if basis is None else basis.features,
            drop=drop,
            skip_bad=skip_bad,
            progress=lambda done: progress.update(task, completed=done),
        )
    columns = table.rows.shape[1]
    if basis is not None and columns != basis.layer.inputs:
        raise BadInput(f"{data}: {columns} columns, where {basis.layer.inputs} were learned")
    if table.skipped:
        first = f"The first: {table.skipped[0]}"
        notes.print(f"Left out {len(table.skipped)} bad rows. {first}")
    return table
