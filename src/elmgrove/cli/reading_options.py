"""The options that say how to read rows, the same for every command, and reading with them."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from elmgrove.algebra import Basis
from elmgrove.cli.options import bar, notes
from elmgrove.errors import BadInput
from elmgrove.federation import Member
from elmgrove.reading import (
    LAYOUT,
    STANDARD_INPUT,
    Layout,
    Table,
    read_folder,
    read_label_spans,
    read_table,
    within,
)

#: What decides which columns are learned: a state has them already.
COLUMN_OPTIONS = ("columns", "drop", "categories")


def file_or_input(text: str) -> Path:
    """Takes an argument that is a file, or ``-`` for standard input."""
    if Path(text).is_dir():
        raise typer.BadParameter(f"{text!r} is a folder, not a file.")
    return file_or_folder(text)


def file_or_folder(text: str) -> Path:
    """Takes an argument that is a file, a folder, or ``-`` for standard input."""
    # Typer's own check of a path takes no dash, whatever it is told.
    if text != STANDARD_INPUT and not Path(text).exists():
        raise typer.BadParameter(f"file {text!r} does not exist.")
    return Path(text)


Data = Annotated[
    Path,
    typer.Argument(
        help="Rows: CSV, JSON lines or line protocol (packed with gzip or not), .npy or Parquet; - "
        "for standard input; a folder whose files hold columns, joined by time.",
        parser=file_or_folder,
        metavar="DATA",
    ),
]
LabelSpans = Annotated[
    str | None,
    typer.Option(
        help="A CSV file that says from when to when rows were anomalous, in its first two "
        "columns; or FILE=FORMAT (like %m/%d/%Y %H:%M).",
        metavar="FILE",
        rich_help_panel="Reading the rows",
    ),
]
SkipBad = Annotated[
    bool,
    typer.Option(
        "--skip-bad",
        help="Leave out rows that can't be read, and say how many.",
        rich_help_panel="Reading the rows",
    ),
]


def _option(text: str, **more: Any) -> Any:
    return typer.Option(help=text, rich_help_panel="Reading the rows", **more)


class _Options:
    """The options, by the names of what they set in a layout."""

    time: Annotated[
        str | None,
        _option(
            "The column with the time of each row, or COLUMN=FORMAT (like %d.%m.%Y %H:%M) "
            "\\[default: one that obviously is]."
        ),
    ]
    columns: Annotated[list[str] | None, _option("Learn this column only (repeatable).")]
    drop: Annotated[list[str] | None, _option("Leave this column out (repeatable).")]
    label: Annotated[
        str | None, _option("The column that says which rows were anomalous; never learned.")
    ]
    delimiter: Annotated[
        str | None, _option("What separates cells \\[default: as the first line has it].")
    ]
    decimal: Annotated[str, _option("The decimal sign: . or ,")]
    encoding: Annotated[str, _option("Of the text: utf-8, utf-16, latin-1, cp1252, ...")]
    missing: Annotated[
        str, _option("A missing value: refuse the file, or hold the last value for a few rows.")
    ]
    hold_rows: Annotated[
        int, _option("For how many rows a value is held; then rows are left out.", min=0)
    ]
    categories: Annotated[
        list[str] | None,
        _option("This column holds words, each of which becomes a column of 0 and 1 (repeatable)."),
    ]
    format: Annotated[
        str | None, _option("influx for InfluxDB line protocol \\[default: found in the file].")
    ]
    measurement: Annotated[
        str | None,
        _option(
            "Which lines of line protocol are rows, like cpu,cpu=cpu-total \\[default: those of "
            "the first measurement]."
        ),
    ]


def with_layout(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options that say how to read rows; it takes them as one ``layout``.

    An option of the command's own wins: ``--format`` may be how something is printed.
    """
    usual, every, taken = Layout(), get_type_hints(_Options, include_extras=True), _flags(command)
    hints = {name: of for name, of in every.items() if f"--{name}" not in taken}
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(usual, name) or None,
            annotation=of,
        )
        for name, of in hints.items()
    ]
    own = inspect.signature(command).parameters
    before = [one for name, one in own.items() if name != "layout"]

    @wraps(command)
    def run(**given: Any) -> None:
        said = {name: given.pop(name) for name in hints}
        command(**given, layout=Layout(**{name: v for name, v in said.items() if v is not None}))

    run.__dict__["__signature__"] = inspect.Signature([*before, *options])
    return run


def _flags(command: Callable[..., None]) -> set[str]:
    """The flags that a command names itself, where they are not its parameters' names."""
    hints = get_type_hints(command, include_extras=True).values()
    options = [one for hint in hints for one in getattr(hint, "__metadata__", ())]
    # In an annotation, what Typer calls the default is the first flag.
    return {str(flag) for one in options for flag in (one.default, *(one.param_decls or ()))}


def read_for(member: Member, data: Path, layout: Layout, skip_bad: bool) -> Table:
    """Reads the rows of a file for a member, as those were read that it was made with."""
    remembered: Mapping[str, Any] = member.notes.get(LAYOUT, {})
    return read(data, member.detector.basis, layout.after(remembered), skip_bad)


def remember(member: Member, layout: Layout) -> None:
    """Keeps with a new member how its rows were read."""
    if layout.fields:
        member.notes[LAYOUT] = layout.fields


def labelled(table: Table, data: Path, spans: str | None) -> Table:
    """Labels the rows that are within what ``--label-spans`` says; others stay as they are."""
    if spans is None:
        return table
    if table.times is None:
        raise BadInput(f"{data}: --label-spans needs the time of each row (--time)")
    found = within(table.times, read_label_spans(spans))
    return replace(table, labels=found if table.labels is None else found | table.labels)


def read(data: Path, like: Basis | Table | None, layout: Layout, skip_bad: bool = False) -> Table:
    """Reads the rows of a file, in the columns of a basis or a table, with a progress bar.

    Notes what was left out, and what else there is to tell.
    """
    wanted, names, categories = None, None, None
    if isinstance(like, Basis):
        wanted, names, categories = like.columns, like.features, dict(like.categories)
    elif like is not None:
        wanted, names, categories = like.rows.shape[1], like.names, like.categories
    standard = str(data) == STANDARD_INPUT
    with bar() as progress:
        total = None if standard else _size(data)
        task = progress.add_task(f"Reading {data.name}", total=total)
        table = (read_folder if data.is_dir() else read_table)(
            data,
            layout,
            features=names,
            categories=categories,
            skip_bad=skip_bad,
            progress=lambda done: progress.update(task, completed=done),
        )
    columns = table.rows.shape[1]
    if wanted not in (None, columns):
        raise BadInput(f"{data}: {columns} columns, where {wanted} were learned")
    for note in table.notes:
        notes.print(f"{note[0].upper()}{note[1:]}.")
    if table.left_out:
        first = f"The first: {table.skipped[0]}"
        notes.print(f"Left out {table.left_out} bad row{'s' * (table.left_out > 1)}. {first}")
    return table


def _size(data: Path) -> int:
    files = data.rglob("*") if data.is_dir() else [data]
    return sum(file.stat().st_size for file in files)
