"""What several commands share: options, reading rows with progress, times and notes."""

import inspect
import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.moments import Moments
from elmgrove.algebra.scaling import OWN, Levels, Scaling
from elmgrove.detector.events import AlarmRule
from elmgrove.detector.inputs import Choice, choose_window
from elmgrove.errors import BadInput
from elmgrove.federation.charter import learned_of
from elmgrove.federation.member import Member, borrowed_by
from elmgrove.federation.similarity import Comparison, unlike_used, worth_telling
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
    text, today = _told(when), _told(time.time() if day is None else day)
    return text.removeprefix(f"{today[:10]} ")


def _told(when: str | float) -> str:
    """A time for people; what is none, as it is: a state may hold what no calendar has."""
    try:
        return format_time(Clock()(when))
    except (ValueError, OverflowError):
        return str(when)


#: Notes about the work, as opposed to its result, go to standard error.
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
Ca = Annotated[
    str | None, typer.Option(help="Certificate of the authority that signed the server's.")
]
Certificate = Annotated[
    str | None,
    typer.Option(help="Your own certificate with its key, for a server that asks for one."),
]


def mqtt_password() -> str | None:
    """The password at a broker, which the list of processes is not to show."""
    return os.environ.get("ELMGROVE_MQTT_PASSWORD")


T = TypeVar("T")


def new_state_option(text: str, *names: str, **more: Any) -> Any:
    """Make an option that counts only where something new is made."""
    return typer.Option(*names, help=text, rich_help_panel="For a new state", **more)


MergedFlag = Annotated[
    bool, new_state_option("One model of everybody decides, as in the papers.", "--merged")
]


def require_not_given(context: typer.Context, options: Iterable[str], because: str) -> None:
    """Raise ``BadInput`` if any of these options was given, where it would change nothing."""
    sources = {name: context.get_parameter_source(name) for name in options}
    # By name: releases of Typer bring the enumeration from different packages.
    given = [name for name, by in sources.items() if by and by.name == "COMMANDLINE"]
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


def note_window(choice: Choice | None) -> None:
    """Note which window was chosen, and why; nothing where a file says it."""
    if choice is not None:
        notes.print(f"Window of {choice.window}: {choice.reason}.")


def fitted_basis(table: Table, window: int | None = None) -> Basis:
    """Fit a basis to rows; a window that is not stated is chosen, and noted."""
    if window is None:
        choice = choose_window(table.rows)
        note_window(choice)
        window = choice.window
    return Basis.fitted(
        table.rows, table.names, categories=table.categories, scaling="standard", window=window
    )


def note_others(member: Member) -> None:
    """Note from whom a device learns, and what they are to it."""
    others = ", ".join(held.origin for held in member.ledger)
    if not others:
        notes.print(f"{member.name} now uses its own rows alone.")
    elif member.merges:
        notes.print(f"{member.name} now uses its own rows and those of {others}.")
    else:
        notes.print(f"{member.name} now asks {others}. It borrows {borrowed_by(member)}.")


def note_alike(member: Member, comparisons: Sequence[Comparison]) -> None:
    """Note which other devices are alike, and what to do about those that are not."""
    each = [one for one in comparisons if one.name is not None]
    alike = [str(one.name) for one in each if one.alike and not one.untold]
    if alike:
        notes.print(f"Alike: {', '.join(alike)}.")
    for one in worth_telling(comparisons):
        notes.print(f"Not alike: {one.warning(member.detector.basis, merges=member.merges)}.")
    if sensors := unlike_used(member):
        notes.print(f"{member.name} is unlike all others: {sensors}.")
    for one in each:
        if one.untold:
            notes.print(f"Whether {one.name} is alike can't be told: {one.untold}.")


def percent(share: float) -> str:
    """Write a share for people, with a digit behind the point where it is small."""
    digits = 1 if share < 0.1 else 0
    return f"{100.0 * share:.{digits}f} %"


def bar() -> Progress:
    """Make a progress bar on standard error that leaves nothing behind."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=notes,
        transient=True,
        disable=not notes.is_terminal,
    )


def tracked(items: Sequence[T], text: str) -> Iterable[T]:
    """Yield the items, with a progress bar on standard error."""
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


class _LayoutOptions:
    """How a file is written, by the names of the fields of a layout."""

    time: Annotated[
        str | None,
        _option(
            "The column with the time of each row, or COLUMN=FORMAT (like %d.%m.%Y %H:%M) "
            "\\[default: one that obviously is]."
        ),
    ]
    delimiter: Annotated[
        str | None, _option("What separates cells \\[default: as the first line has it].")
    ]
    decimal: Annotated[str, _option("The decimal sign: . or ,")]
    encoding: Annotated[str, _option("Of the text: utf-8, utf-16, latin-1, cp1252, ...")]
    missing: Annotated[
        str, _option("A missing value: refuse the file, or hold the last value, for 5 rows.")
    ]
    measurement: Annotated[
        str | None,
        _option(
            "The file is InfluxDB line protocol: which lines are rows, like cpu,cpu=cpu-total "
            "\\[default: those of the first measurement of a .lp or .influx file]."
        ),
    ]
    columns: Annotated[list[str] | None, _option("Learn this column only (repeatable).")]
    drop: Annotated[list[str] | None, _option("Leave this column out (repeatable).")]
    label: Annotated[
        str | None, _option("The column that says which rows were anomalous; never learned.")
    ]
    categories: Annotated[
        list[str] | None,
        _option("This column holds words, each of which becomes a column of 0 and 1 (repeatable)."),
    ]


def with_layout(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add options that say how to read rows (all without ``names``).

    The command takes them as one ``layout``.
    """
    usual, hints = Layout(), get_type_hints(_LayoutOptions, include_extras=True)
    options = {
        name: inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=getattr(usual, name) or None,
            annotation=hints[name],
        )
        for name in names or hints
    }

    def add(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command).parameters
        before = [one for name, one in own.items() if name != "layout"]

        @wraps(command)
        def run(**given: Any) -> None:
            chosen = {name: given.pop(name) for name in options}
            layout = Layout(**{name: value for name, value in chosen.items() if value is not None})
            command(**given, layout=layout)

        run.__dict__["__signature__"] = inspect.Signature([*before, *options.values()])
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
    data: Path,
    like: "Basis | Projection | Table | None",
    layout: Layout,
    skip_bad: bool = False,
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
