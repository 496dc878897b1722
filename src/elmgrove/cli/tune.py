"""``elmgrove tune``: another threshold or alarm rule for a device, without learning again."""

from typing import Annotated, Any

import typer

from elmgrove.cli.running import AgentUrl, ControlToken, Device, DryRun, StateOrAgent
from elmgrove.errors import BadInput

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


def tune(
    state: StateOrAgent = None,
    agent: AgentUrl = None,
    token: ControlToken = None,
    rate: Rate = None,
    confidence: Confidence = None,
    threshold: Fixed = None,
    sigma: Sigma = None,
    alarm_k: AlarmK = None,
    alarm_n: AlarmN = None,
    alarm_cooldown: Cooldown = None,
    promote_after: PromoteAfter = None,
    retire_after: RetireAfter = None,
    forgetting: Forgetting = None,
    dry_run: DryRun = False,
) -> None:
    """Change threshold and alarm rule of a device, without learning again.

    The scores that it keeps give the new threshold at once; where they are too few for a lower
    rate, it says how many rows are missing. Of a device whose agent is running, the agent is told.

    Example: [bold]elmgrove tune fan-1.elm --rate 0.001 --dry-run[/]
    """
    asked: dict[str, Any] = {
        "rate": rate,
        "confidence": confidence,
        "threshold": threshold,
        "sigma": sigma,
        "alarm_k": alarm_k,
        "alarm_n": alarm_n,
        "alarm_cooldown": alarm_cooldown,
        "promote_after": promote_after,
        "retire_after": retire_after,
        "forgetting": forgetting,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    if not given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in asked)
        raise BadInput(f"nothing to change: give some of {options}")
    Device(state, agent, token).change("tune", dry_run, **given)
