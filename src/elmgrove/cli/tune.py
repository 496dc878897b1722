"""``elmgrove tune``: another threshold or alarm rule for a device, or units for a new one."""

from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from elmgrove.algebra import ACTIVATIONS, DISTRIBUTIONS, SCALINGS, SCORES
from elmgrove.cli.options import require_not_given
from elmgrove.cli.reading_options import SkipBad, file_or_input, with_layout
from elmgrove.cli.running import AgentUrl, ControlToken, Device, DryRun
from elmgrove.cli.units import LAYER, Asked
from elmgrove.errors import BadInput
from elmgrove.reading import Layout

Rate = Annotated[float | None, typer.Option(help="The share of normal rows that may be flagged.")]
Confidence = Annotated[
    float | None,
    typer.Option(help="How sure counting must be of that rate before alarms; 0 = at once."),
]
Fixed = Annotated[
    float | None, typer.Option(help="A fixed threshold on the score instead of a rate.")
]
Sigma = Annotated[
    float | None, typer.Option(help="Mean plus so many standard deviations instead of a rate.")
]
AlarmK = Annotated[int | None, typer.Option(help="An alarm at so many anomalous rows...")]
AlarmN = Annotated[int | None, typer.Option(help="...among so many.")]
Cooldown = Annotated[
    int | None, typer.Option(help="Rows without another alarm until an event has ended.")
]
PromoteAfter = Annotated[
    int | None,
    typer.Option(help="Learn so many strange rows in a row that are like each other; 0 = never."),
]
RetireAfter = Annotated[
    int | None, typer.Option(help="Put a pattern aside that got none of so many rows; 0 = never.")
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
    rate, it says how many rows are missing. Of a device whose agent is running, the agent is told.

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
