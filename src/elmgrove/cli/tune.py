"""``elmgrove tune``: another threshold or alarm rule for a device, or units for a new one."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.algebra.basis import SCORES, Basis
from elmgrove.algebra.cross_validation import losses_left_out, surprise_left_out
from elmgrove.algebra.layer import ACTIVATIONS, DISTRIBUTIONS, suggested_units
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import SCALINGS
from elmgrove.cli.options import (
    SkipBad,
    chosen_spectrum,
    chosen_window,
    file_or_input,
    note_window,
    notes,
    read,
    require_not_given,
    tracked,
    with_layout,
)
from elmgrove.cli.running import AgentUrl, ControlToken, Device, DryRun
from elmgrove.detector.detector import Detector
from elmgrove.errors import BadInput
from elmgrove.reading.layout import Layout
from elmgrove.reading.table import Table

AUTO = "auto"
#: The options that count with ``--units`` alone, and what each is unless told.
LAYER: dict[str, Any] = {
    "scaling": "standard",
    "activation": "identity",
    "weights": "uniform",
    "seed": 0,
    "window": AUTO,
    "score": None,
    "spectrum": None,
}
# With auto: the usual number, and these parts and multiples of it.
_PARTS = (0.25, 0.5, 1.0, 2.0, 4.0)
# The rows that are looked at: the last ones.
_MOST_ROWS = 20_000


class UnitsTrial(NamedTuple):
    """Units, with the ridge of a loss, and what rows that were left out said of them.

    ``lower`` is what the choice goes by, ``rows`` the error of whole rows, which says little.
    """

    units: int
    ridge: float | None
    lower: float
    rows: float | None = None


@dataclass(frozen=True)
class Asked:
    """What ``elmgrove tune DATA --units`` was asked; ``layer`` has the options in ``LAYER``."""

    data: Path
    units: str
    ridge: str
    layer: dict[str, Any]
    layout: Layout
    skip_bad: bool

    def choose(self) -> None:
        """Tries each number of units, and prints the table and the command to learn with."""
        table = read(self.data, None, self.layout, self.skip_bad)
        if len(table.rows) == 0:
            raise BadInput(f"{self.data}: no rows to choose by")
        choice = chosen_window(
            self.layer["window"], table.rows, chosen_spectrum(self.layer["spectrum"])
        )
        note_window(choice)
        usual = self._basis(table, choice.window, None)
        inputs = _inputs(usual, table)
        trials = self._tried(table, usual, inputs)
        best = min(trials, key=lambda trial: trial.lower)
        _show(trials, best, usual)
        notes.print(
            f"Chosen by {len(inputs):,} {usual.counted}, all taken for normal, each left out in "
            "turn. Learn with it:"
        )
        Console(soft_wrap=True, highlight=False, markup=False, emoji=False).print(
            self._command(best, choice.window)
        )

    def _tried(self, table: Table, usual: Basis, inputs: Array) -> list[UnitsTrial]:
        counts = _counts(self.units, usual)
        ridges = _numbers("ridge", self.ridge) if usual.score == "loss" else [None]
        asked = [(units, ridge) for units in counts for ridge in ridges]
        found = list[UnitsTrial]()
        for units, ridge in tracked(asked, "Leaving out"):
            basis = self._basis(table, usual.window, units)
            if ridge is None:
                found.append(UnitsTrial(units, None, surprise_left_out(basis, inputs)))
            else:
                errors = losses_left_out(basis, inputs, ridge)
                found.append(UnitsTrial(units, ridge, errors.values, errors.rows))
        return found

    def _basis(self, table: Table, window: int, units: int | None) -> Basis:
        made = {**self.layer, "window": window, "units": units}
        made["spectrum"] = chosen_spectrum(self.layer["spectrum"])
        return Basis.fitted(table.rows, table.names, categories=table.categories, **made)

    def _command(self, best: UnitsTrial, window: int) -> str:
        """Writes how to learn with what was chosen, and all else as it was told here."""
        told = {name: value for name, value in self.layer.items() if value != LAYER[name]}
        chosen = {**told, "window": window, "units": best.units, "ridge": best.ridge}
        usual = asdict(Layout())
        read_so = {name: v for name, v in asdict(self.layout).items() if v != usual[name]}
        words = ["elmgrove", "learn", str(self.data), "--state", f"{self.data.stem}.elm"]
        for name, value in (chosen | read_so).items():
            values = value if isinstance(value, tuple) else () if value is None else (value,)
            words += [part for one in values for part in (f"--{name.replace('_', '-')}", str(one))]
        return shlex.join([*words, *(["--skip-bad"] if self.skip_bad else [])])


def _inputs(basis: Basis, table: Table) -> Array:
    """The last rows as inputs of a model; no input goes across a gap."""
    preparation, found = Detector.for_basis(basis).preparation, list[Array]()
    size = 1 if basis.spectrum is None else basis.spectrum.step
    first = max(len(table.rows) - _MOST_ROWS * size, 0)
    for stretch in table.stretches:
        if stretch.stop > first:
            preparation.restart()
            rows = np.asarray(table.rows[max(stretch.start, first) : stretch.stop], np.float64)
            X, when = preparation.next_many(rows, None)
            found.append(preparation.last_rows.add_many(X, when))
    if first:
        notes.print(f"Looked at the last {_MOST_ROWS:,} {basis.counted}.")
    return np.concatenate(found)


def _counts(text: str, usual: Basis) -> list[int]:
    """Reads ``--units``: numbers and auto, with commas."""
    words = [word.strip() for word in text.split(",")]
    counts = _numbers("units", ",".join(word for word in words if word != AUTO), whole=True)
    if AUTO in words:
        counts += [round(part * usual.hidden.units) for part in _PARTS]
    # With more than inputs a distance is that of all products, and a linear loss copies any row.
    linear = usual.layer.activation == "identity"
    most = usual.inputs if linear else max(counts, default=0)
    return sorted({max(1, min(int(count), most)) for count in counts})


def _numbers(name: str, text: str, *, whole: bool = False) -> list[Any]:
    try:
        found = [(int if whole else float)(word) for word in text.split(",") if word.strip()]
    except ValueError:
        found = [-1]
    if not all(0 <= one < np.inf for one in found) or (whole and 0 in found):
        what = "whole numbers from 1 on, or auto" if whole else "numbers from 0 on"
        raise BadInput(f"{name}: {what}, with commas between them, not {text!r}")
    return found


def _show(trials: Sequence[UnitsTrial], best: UnitsTrial, usual: Basis) -> None:
    loss = usual.score == "loss"
    grid = Grid(title="Hidden units, by rows that were left out", show_lines=False)
    headings = ("units", "ridge", "error of rows", "error of values", "")
    for heading in headings if loss else ("units", "surprise", ""):
        grid.add_column(heading, justify="right" if heading else "left")
    for trial in trials:
        said = ["best"] * (trial is best)
        said += ["usual"] * (trial.units == suggested(usual))
        numbers: Iterable[float | None] = (trial.ridge, trial.rows, trial.lower)
        cells = [f"{number:.4g}" for number in numbers if number is not None]
        grid.add_row(str(trial.units), *cells, ", ".join(said))
    Console(highlight=False).print(grid)


def suggested(basis: Basis) -> int:
    """Gives the units that a new state for such inputs has unless told."""
    return suggested_units(basis.inputs, basis.score, basis.window)


Rate = Annotated[float | None, typer.Option(help="The share of normal rows that may be flagged.")]
Confidence = Annotated[
    float | None,
    typer.Option(help="How sure counting must be of that rate before alarms; 0 = at once."),
]
Fixed = Annotated[
    float | None, typer.Option(help="A fixed threshold on the score instead of a rate.")
]
Sigma = Annotated[
    float | None, typer.Option(help="Mean plus this many standard deviations instead of a rate.")
]
AlarmK = Annotated[int | None, typer.Option(help="How many anomalous rows open an event...")]
AlarmN = Annotated[int | None, typer.Option(help="...of how many last rows.")]
Cooldown = Annotated[
    int | None, typer.Option(help="Rows without another alarm until an event has ended.")
]
PromoteAfter = Annotated[
    int | None,
    typer.Option(help="Learn this many anomalous rows in a row if they are alike; 0 = never."),
]
RetireAfter = Annotated[
    int | None, typer.Option(help="Put a pattern aside that got none of this many rows; 0 = never.")
]

Forgetting = Annotated[
    float | None,
    typer.Option(help="Weight that a row keeps with each later row; 1 = forget nothing."),
]


def _for_units(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="With --units")


StateOrData = Annotated[
    Path | None,
    typer.Argument(
        help="The device's state file; its agent may be running. With --units, normal rows.",
        metavar="STATE|DATA",
    ),
]
WatchNow = Annotated[
    bool,
    typer.Option("--watch-now", help="Raise alarms at once: what was learned is normal."),
]
UnitsText = Annotated[
    str | None,
    _for_units(
        "Say with how many hidden units to learn these rows, among some (like 8,16,32), or auto: "
        "as many as usual, and parts and multiples of that."
    ),
]
RidgeText = Annotated[str, _for_units("For a loss, choose among these ridges (like 0.001,0.1).")]
ScalingText = Annotated[str, _for_units(f"{', '.join(SCALINGS)}.")]
ActivationText = Annotated[str, _for_units(f"{', '.join(ACTIVATIONS)}.")]
WeightsText = Annotated[str, _for_units(f"{', '.join(DISTRIBUTIONS)}.")]
SeedNumber = Annotated[int, _for_units("Seed of the hidden layer.")]
WindowText = Annotated[str, _for_units("Rows that are one input: a number, or auto.")]
ScoreText = Annotated[
    str | None, _for_units(f"{' or '.join(SCORES)} \\[default: as elmgrove learn].")
]
SpectrumOf = Annotated[str | None, _for_units("Rows are samples, like 2000:256.")]


@with_layout
def tune(
    context: typer.Context,
    state: StateOrData = None,
    agent: AgentUrl = None,
    token: ControlToken = None,
    rate: Rate = None,
    confidence: Confidence = None,
    watch_now: WatchNow = False,
    threshold: Fixed = None,
    sigma: Sigma = None,
    alarm_k: AlarmK = None,
    alarm_n: AlarmN = None,
    alarm_cooldown: Cooldown = None,
    promote_after: PromoteAfter = None,
    retire_after: RetireAfter = None,
    forgetting: Forgetting = None,
    dry_run: DryRun = False,
    units: UnitsText = None,
    ridge: RidgeText = "0.001",
    scaling: ScalingText = LAYER["scaling"],
    activation: ActivationText = LAYER["activation"],
    weights: WeightsText = LAYER["weights"],
    seed: SeedNumber = LAYER["seed"],
    window: WindowText = LAYER["window"],
    score: ScoreText = LAYER["score"],
    spectrum: SpectrumOf = LAYER["spectrum"],
    skip_bad: SkipBad = False,
    *,
    layout: Layout,
) -> None:
    """Change threshold and alarm rule of a device, without learning again.

    The scores that it keeps give the new threshold at once; where they are too few for a lower
    rate, it says how many rows are missing. Of a device whose agent is running, the agent does it.

    With [bold]--units[/] it changes nothing: it tries numbers of hidden units on a file of normal
    rows, each row left out in turn, and says with which to learn them.

    Example: [bold]elmgrove tune fan-1.elm --rate 0.001 --dry-run[/]

    Example: [bold]elmgrove tune normal.csv --units 4,8,16,auto --score loss[/]
    """
    asked: dict[str, Any] = {
        "rate": rate,
        "confidence": 0.0 if watch_now else confidence,
        "threshold": threshold,
        "sigma": sigma,
        "alarm_k": alarm_k,
        "alarm_n": alarm_n,
        "alarm_cooldown": alarm_cooldown,
        "promote_after": promote_after,
        "retire_after": retire_after,
        "forgetting": forgetting,
    }
    layer = {
        "scaling": scaling,
        "activation": activation,
        "weights": weights,
        "seed": seed,
        "window": window,
        "score": score,
        "spectrum": spectrum,
    }
    if units is not None:
        require_not_given(
            context,
            [*asked, "agent", "token", "dry_run"],
            "not with --units, which changes nothing",
        )
        if state is None:
            raise BadInput("--units needs a file of normal rows")
        Asked(file_or_input(str(state)), units, ridge, layer, layout, skip_bad).choose()
        return
    alone = [*LAYER, "ridge", "skip_bad", *(one.name for one in fields(Layout))]
    require_not_given(context, alone, "counts with --units alone")
    given = {name: value for name, value in asked.items() if value is not None}
    if not given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise BadInput(f"nothing to change: give some of {options}, or --units")
    Device(state, agent, token).change("tune", dry_run, **given)
