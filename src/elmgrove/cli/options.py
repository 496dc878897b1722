"""What several commands share: options, reading with progress, and notes about the work."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from elmgrove.algebra import ACTIVATIONS, DISTRIBUTIONS, SCALINGS, SCORES, RowStore, Spectrum
from elmgrove.detector import Choice, choose_window, require_window
from elmgrove.errors import BadInput
from elmgrove.federation import (
    Comparison,
    Member,
    borrowed_by,
    unlike_used,
    worth_telling,
)

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
    str | None, typer.Option(help="Your own certificate, for a server that asks for one.")
]
PrivateKey = Annotated[str | None, typer.Option(help="Its key \\[default: in the same file].")]
MqttPassword = Annotated[
    str | None,
    typer.Option(help="The password at a broker.", envvar="ELMGROVE_MQTT_PASSWORD"),
]

T = TypeVar("T")


def new_state_option(text: str, *names: str, **more: Any) -> Any:
    """Makes an option that counts only where something new is made."""
    return typer.Option(*names, help=text, rich_help_panel="For a new state", **more)


#: The options that say how rows become numbers of a hidden layer; their names are those below,
#: or in ``elmgrove.cli.reading_options``.
LAYER_OPTIONS = (
    "columns",
    "drop",
    "categories",
    "scaling",
    "units",
    "activation",
    "weights",
    "seed",
    "window",
    "score",
    "spectrum",
)
ScalingName = Annotated[
    str,
    new_state_option(
        f"{', '.join(SCALINGS)}, fitted to the file; with own each device has its own mean and "
        "deviation, so that machines at other levels can merge."
    ),
]
Units = Annotated[
    int | None,
    new_state_option(
        "Hidden units \\[default: as many as inputs up to 64, half of more, at most 128, of "
        "windows 64; for a loss a quarter, half of fewer than 16, at most 128].",
        min=1,
    ),
]
WindowSize = Annotated[
    str,
    new_state_option(
        "Rows that are one input, side by side: a number, or auto (10 for a time series, 1 for a "
        "table; says why)."
    ),
]
ScoreName = Annotated[
    str | None,
    new_state_option(
        f"{' or '.join(SCORES)} \\[default: distance with the activation identity, else loss]."
    ),
]
SpectrumText = Annotated[
    str | None,
    new_state_option(
        "Columns are samples of fast signals: samples a second, samples a frame, and if wanted "
        "bands (32) and mel, like 2000:256 or 16000:1024:64:mel."
    ),
]
Activation = Annotated[str, new_state_option(f"{', '.join(ACTIVATIONS)}.")]
Weights = Annotated[str, new_state_option(f"{', '.join(DISTRIBUTIONS)}.")]
Seed = Annotated[int, new_state_option("Seed of the hidden layer.", min=0)]
MergedFlag = Annotated[
    bool, new_state_option("One model of everybody decides, as in the papers.", "--merged")
]


def require_not_given(context: typer.Context, options: Iterable[str], because: str) -> None:
    """Raises ``BadInput`` if any of these options was given, where it would change nothing."""
    sources = {name: context.get_parameter_source(name) for name in options}
    # By name: releases of Typer bring the enumeration from different packages.
    given = [name for name, by in sources.items() if by and by.name == "COMMANDLINE"]
    if given:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise BadInput(f"{flags}: {because}")


def chosen_spectrum(text: str | None) -> Spectrum | None:
    """Reads ``--spectrum``; None where rows are no samples."""
    return None if text is None else Spectrum.parsed(text)


def chosen_window(window: str, rows: RowStore, spectrum: Spectrum | None) -> Choice:
    """Reads ``--window``; for auto, the rows decide, or their spectra."""
    if require_window(window) != "auto":
        return Choice(int(window), "as stated")
    return choose_window(rows, spectrum)


def note_window(choice: Choice | None) -> None:
    """Notes which window was chosen, and why; nothing where a file says it."""
    if choice is not None:
        notes.print(f"Window of {choice.window}: {choice.reason}.")


def note_others(member: Member) -> None:
    """Notes from whom a device learns, and what they are to it."""
    others = ", ".join(held.origin for held in member.ledger)
    if not others:
        notes.print(f"{member.name} now uses its own rows alone.")
    elif member.merges:
        notes.print(f"{member.name} now uses its own rows and those of {others}.")
    else:
        notes.print(f"{member.name} now asks {others}. It borrows {borrowed_by(member)}.")


def note_alike(member: Member, comparisons: Sequence[Comparison]) -> None:
    """Notes which others are alike, which are not and what to do, and of which sums do not tell."""
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
    """Writes a share for people, with a digit behind the point where it is small."""
    digits = 1 if share < 0.1 else 0
    return f"{100.0 * share:.{digits}f} %"


def bar() -> Progress:
    """Makes a progress bar on standard error that leaves nothing behind."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeRemainingColumn(),
        console=notes,
        transient=True,
        disable=not notes.is_terminal,
    )


def tracked(items: Sequence[T], text: str) -> Iterable[T]:
    """Gives the items one by one, and shows a progress bar meanwhile."""
    with bar() as progress:
        yield from progress.track(items, description=text)
