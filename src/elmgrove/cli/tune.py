"""``elmgrove tune``: another threshold or alarm rule for a device that has learned."""

from typing import Annotated, Any

import typer

from elmgrove.cli.options import alarm_changes
from elmgrove.cli.running import Device, DryRun, StateOrAgent
from elmgrove.errors import BadInput


def tune(
    state: StateOrAgent,
    rate: Annotated[
        float | None, typer.Option(help="The share of normal rows that may be flagged.")
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="A fixed threshold on the score instead of a rate.")
    ] = None,
    alarm: Annotated[
        str | None,
        typer.Option(
            help="Raise an alarm at K anomalous rows among N; it ends after COOLDOWN calm rows.",
            metavar="K/N[/COOLDOWN]",
        ),
    ] = None,
    watch_now: Annotated[
        bool, typer.Option("--watch-now", help="Raise alarms at once: what was learned is normal.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Change the threshold or the alarm rule.

    Nothing is learned again: the scores that the device keeps give the new threshold at once. If
    they are too few for a lower rate, the output says how many rows are missing. A running agent
    makes the change itself.

    Example: [bold]elmgrove tune fan-1.elm --rate 0.001 --dry-run[/]
    """
    changes: dict[str, Any] = {**alarm_changes(alarm)}
    if rate is not None:
        changes["rate"] = rate
    if threshold is not None:
        changes["threshold"] = threshold
    if watch_now:
        changes["confidence"] = 0.0
    if not changes:
        raise BadInput("nothing to change: give --rate, --threshold, --alarm or --watch-now")
    Device(state).change("tune", dry_run, **changes)
