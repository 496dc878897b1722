"""What several commands share: options, reading rows with progress, times and notes."""

import inspect
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.scaling import OWN, Levels, Scaling
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.inputs import choose_window
from elmgrove.errors import BadInput
from elmgrove.federation.charter import learned_of
from elmgrove.federation.member import Member
from elmgrove.reading.formats import STANDARD_INPUT
from elmgrove.reading.layout import LAYOUT, Layout
from elmgrove.reading.table import Table, read_label_spans, read_table, within
from elmgrove.reading.times import Clock, format_time
from elmgrove.storage.disk import load

if TYPE_CHECKING:
    from elmgrove.rounds.predictor import Projection

_AGO = re.compile(r"-(\d+(?:\.\d+)?)([smhd])")
_OF_DAY = re.compile(r"(\d{1,2})(:\d{2}(?::\d{2})?)")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def moment(text: str, now: float | None = None) -> float:
    """Read a time: ISO 8601, seconds since 1970, ``14:20`` for today, or ``-2h`` for ago.

    >>> moment("14:20", now=86400.0), moment("-2h", now=86400.0), moment("1970-01-02T01:00+01:00")
    (138000.0, 79200.0, 86400.0)
    """
    now = time.time() if now is None else now
    if ago := _AGO.fullmatch(text):
        return now - float(ago[1]) * _SECONDS[ago[2]]
    if of_day := _OF_DAY.fullmatch(text):
        text = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d} {of_day[1]:0>2}{of_day[2]}"
    try:
        return Clock()(text)
    except (ValueError, OverflowError) as error:
        raise BadInput(
            f"{text!r} is no time: write 2026-05-01T14:20, 14:20 (today, UTC), -2h or seconds"
        ) from error


def shown(when: str | float | None, day: str | float | None = None) -> str:
    """Write a time (ISO 8601 or seconds since 1970) for people: without the date if it is today.

    Or if it is on the same ``day`` as another time.
    """
    if when is None:
        return "?"
    texts = []
    for one in (when, time.time() if day is None else day):
        try:
            texts.append(format_time(Clock()(one)))
        except (ValueError, OverflowError):
            # A state may hold what no calendar has.
            texts.append(str(one))
    return texts[0].removeprefix(f"{texts[1][:10]} ")


#: Notes about the work, as opposed to its result, go to standard error.
#: Names and paths are printed as they are, whatever brackets they hold.
notes = Console(stderr=True, soft_wrap=True, highlight=False, markup=False, emoji=False)


def option(text: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=text, **more)


def file_option(text: str, *names: str, **more: Any) -> Any:
    return option(text, *names, exists=True, dir_okay=False, **more)


State = Annotated[
    Path, option("The device's state file, e.g. fan-1.elm.", "--state", "-s", dir_okay=False)
]
SavedState = Annotated[Path, file_option("The device's state file.", "--state", "-s")]
Ca = Annotated[str | None, option("Certificate of the authority that signed the server's.")]
Certificate = Annotated[
    str | None, option("Your certificate with its key, for a server that asks for one.")
]
AsJson = Annotated[bool, option("As JSON, for programs.", "--json")]


def print_result(what: Any) -> None:
    """Print a result: a table, or a text as it is, on one line however long."""
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(what, soft_wrap=isinstance(what, str))


def print_json(value: Any) -> None:
    Console().print_json(json.dumps(value))


def right(*headings: str, no_wrap: bool = False) -> list[Column]:
    return [Column(heading, justify="right", no_wrap=no_wrap) for heading in headings]


def given_by_user(context: typer.Context, name: str) -> str:
    """Where the value of an option is from: COMMANDLINE or ENVIRONMENT; empty for its default."""
    source = context.get_parameter_source(name)
    # By name: releases of Typer bring the enumeration from different packages.
    return source.name if source and source.name in ("COMMANDLINE", "ENVIRONMENT") else ""


def mqtt_password() -> str | None:
    """The password at a broker, which the list of processes is not to show."""
    return os.environ.get("ELMGROVE_MQTT_PASSWORD")


T = TypeVar("T")


def for_new_state(text: str, *names: str, **more: Any) -> Any:
    return option(text, *names, rich_help_panel="For a new state", **more)


MergedFlag = Annotated[
    bool, for_new_state("One model of everybody decides, as in the papers.", "--merged")
]


def require_not_given(context: typer.Context, options: Iterable[str], because: str) -> None:
    """Raise ``BadInput`` if any of these options was given, where it would change nothing."""
    given = [name for name in options if given_by_user(context, name) == "COMMANDLINE"]
    if given:
        flags = ", ".join(f"--{name.strip('_').replace('_', '-')}" for name in given)
        raise BadInput(f"{flags}: {because}")


def alarm_changes(text: str | None) -> dict[str, int]:
    """Read ``--alarm`` as what ``tune`` takes; a cooldown that is not given stays as it is."""
    if text is None:
        return {}
    rule = AlarmRule.parsed(text)
    every = {"alarm_k": rule.k, "alarm_n": rule.n, "alarm_cooldown": rule.cooldown}
    return dict(list(every.items())[: len(text.split("/"))])


def basis_like(paths: Sequence[Path]) -> Basis:
    """Read the basis of a state or evidence; of several, with a scaling for the rows of all.

    The scaling comes from what they learned, without a row. Layer and columns must be the same.
    """
    learned = [load(path, learned_of) for path in paths]
    first = learned[0].basis
    kind = first.scaling.kind
    for one in learned[1:]:
        # The numbers of a scaling may differ where they are pooled, its kind may not.
        pooled = one.basis.scaling.kind == kind not in ("none", OWN)
        first.require(replace(one.basis, scaling=first.scaling) if pooled else one.basis)
    if len(learned) == 1 or kind in ("none", OWN):
        return first
    levels = [one.levels for one in learned if isinstance(one, Moments) and one.count > 0.0]
    if len(levels) < len(learned):
        raise BadInput(
            "a scaling is pooled from what each file learned by distance: by loss sums do not tell "
            "where columns lie, nor does a state without rows"
        )
    together = Levels.together(levels)
    scaling = Scaling.of(kind, together)
    notes.print(
        f"Scaling pooled over the {together.count:.0f} rows behind {len(paths)} files. To merge, "
        "their devices must learn again in it."
    )
    return replace(first, scaling=scaling)


def fitted_basis(table: Table, window: int | None = None) -> Basis:
    """Fit a basis to rows; a window that is not stated is chosen, and noted."""
    if window is None:
        choice = choose_window(table.rows)
        notes.print(f"Window of {choice.window}: {choice.reason}.")
        window = choice.window
    return Basis.fitted(
        table.rows, table.names, categories=table.categories, scaling="standard", window=window
    )


def percent(share: float) -> str:
    """Write a share for people, with a digit behind the point where it is small."""
    digits = 1 if share < 0.1 else 0
    return f"{100.0 * share:.{digits}f} %"


def bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=notes,
        transient=True,
        disable=not notes.is_terminal,
    )


def tracked(items: Sequence[T], text: str) -> Iterable[T]:
    with bar() as progress:
        yield from progress.track(items, description=text)


def rows_file(text: str) -> Path:
    """Take an argument that is a file, or ``-`` for standard input."""
    # Typer's own check of a path refuses the dash.
    if text != STANDARD_INPUT and not Path(text).exists():
        raise typer.BadParameter(f"file {text!r} does not exist.")
    if Path(text).is_dir():
        raise typer.BadParameter(f"{text!r} is a folder; columns in several files are joined first")
    return Path(text)


Data = Annotated[
    Path,
    typer.Argument(
        help="Rows: CSV, JSON lines or line protocol (packed with gzip or not), .npy or Parquet; - "
        "for standard input.",
        parser=rows_file,
        metavar="DATA",
    ),
]
LabelSpans = Annotated[
    str | None,
    option(
        "A CSV file that says from when to when rows were anomalous, in its first two "
        "columns; or FILE=FORMAT (like %m/%d/%Y %H:%M).",
        metavar="FILE",
        rich_help_panel="Reading the rows",
    ),
]
SkipBad = Annotated[
    bool,
    option(
        "Leave out rows that can't be read, and say how many.",
        "--skip-bad",
        rich_help_panel="Reading the rows",
    ),
]


#: How a file is written, by the names of the fields of a layout: the option's type and help.
_LAYOUT: Mapping[str, tuple[Any, str]] = {
    "time": (
        str | None,
        "The column with the time of each row, or COLUMN=FORMAT (like %d.%m.%Y %H:%M) "
        "\\[default: one that obviously is].",
    ),
    "delimiter": (str | None, "What separates cells \\[default: as the first line has it]."),
    "decimal": (str, "The decimal sign: . or ,"),
    "encoding": (str, "Of the text: utf-8, utf-16, latin-1, cp1252, ..."),
    "missing": (str, "A missing value: refuse the file, or hold the last value, for 5 rows."),
    "measurement": (
        str | None,
        "The file is InfluxDB line protocol: which lines are rows, like cpu,cpu=cpu-total "
        "\\[default: those of the first measurement of a .lp or .influx file].",
    ),
    "columns": (list[str] | None, "Learn this column only (repeatable)."),
    "drop": (list[str] | None, "Leave this column out (repeatable)."),
    "label": (str | None, "The column that says which rows were anomalous; never learned."),
    "categories": (
        list[str] | None,
        "This column holds words, each of which becomes a column of 0 and 1 (repeatable).",
    ),
}


def with_layout(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add options that say how to read rows (all without ``names``).

    The command takes them as one ``layout``.
    """
    usual, panel = Layout(), "Reading the rows"
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(usual, name) or None,
            annotation=Annotated[kind, typer.Option(help=text, rich_help_panel=panel)],
        )
        for name, (kind, text) in _LAYOUT.items()
        if not names or name in names
    ]

    def add(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command).parameters
        before = [one for name, one in own.items() if name != "layout"]

        @wraps(command)
        def run(**given: Any) -> None:
            chosen = {one.name: given.pop(one.name) for one in options}
            layout = Layout(**{name: value for name, value in chosen.items() if value is not None})
            command(**given, layout=layout)

        run.__dict__["__signature__"] = inspect.Signature([*before, *options])
        return run

    return add


def read_for(
    member: Member, data: Path, skip_bad: bool = False, layout: Layout | None = None
) -> Table:
    """Read the rows of a file for a member, as those were read that it was made with."""
    layout = (layout or Layout()).after(member.notes.get(LAYOUT, {}))
    return read(data, member.detector.basis, layout, skip_bad)


def labelled(table: Table, data: Path, spans: str | None) -> Table:
    """Label the rows that are within what ``--label-spans`` says; others stay as they are."""
    if spans is None:
        return table
    if table.times is None:
        raise BadInput(f"{data}: --label-spans needs the time of each row (--time)")
    found = within(table.times, read_label_spans(spans))
    return replace(table, labels=found if table.labels is None else found | table.labels)


def read(
    data: Path, like: "Basis | Projection | Table | None", layout: Layout, skip_bad: bool = False
) -> Table:
    """Read the rows of a file, in the columns of a basis or a table, with a progress bar.

    Notes what was left out, and whatever else the reader found.
    """
    wanted, names, categories = None, None, None
    if isinstance(like, Table):
        wanted, names, categories = like.rows.shape[1], like.names, like.categories
    elif like is not None:
        wanted, names, categories = like.columns, like.features, dict(like.categories)
    standard = str(data) == STANDARD_INPUT
    with bar() as progress:
        total = None if standard else data.stat().st_size
        task = progress.add_task(f"Reading {data.name}", total=total)
        table = read_table(
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
