"""``elmgrove tune``: another threshold or alarm rule for a device that has learned."""

from typing import Annotated, Any

import typer

from elmgrove.cli.options import alarm_rule
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
        typer.Option(help="Raise an alarm at K anomalous rows among N, like 3/5.", metavar="K/N"),
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
    k, n = (None, None) if alarm is None else alarm_rule(alarm)
    confidence = 0.0 if watch_now else None
    asked = {"rate": rate, "confidence": confidence, "threshold": threshold}
    changes: dict[str, Any] = {
        name: value
        for name, value in {**asked, "alarm_k": k, "alarm_n": n}.items()
        if value is not None
    }
    if not changes:
        raise BadInput("nothing to change: give --rate, --threshold, --alarm or --watch-now")
    Device(state).change("tune", dry_run, **changes)
