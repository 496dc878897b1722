"""``elmgrove quarantine``: the strange rows that wait for somebody to say what they are."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.moments import shown
from elmgrove.cli.options import notes
from elmgrove.cli.running import AgentUrl, ControlToken, Device, StateOrAgent

#: Rows that fit on a screen.
SHOWN = 15


def quarantine(
    state: StateOrAgent = None,
    agent: AgentUrl = None,
    token: ControlToken = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """List the strange rows that wait, newest last: when, how strange, and because of what.

    elmgrove accept learns them as a new normal, elmgrove reject drops them.

    Example: [bold]elmgrove quarantine fan-1.elm[/]
    """
    found, live = Device(state, agent, token).ask("quarantine")
    if as_json:
        Console().print_json(json.dumps({**found, "live": live}))
        return
    rows = found["rows"][-SHOWN:]
    if not rows:
        notes.print(f"{found['name']}: no strange row waits.")
        return
    Console(markup=False, emoji=False, highlight=False).print(_grid(rows, found["threshold"]))
    more = found["waiting"] - len(rows)
    before = f" These are the newest; {more:,} more wait." if more else ""
    notes.print(f"{found['name']}: {found['waiting']:,} waiting.{before}")


def _grid(rows: list[Mapping[str, Any]], threshold: float | None) -> Grid:
    grid = Grid()
    for heading in ("time (UTC)", "score", "× threshold"):
        grid.add_column(heading, justify="right", no_wrap=True)
    grid.add_column("because of", no_wrap=True, overflow="ellipsis")
    for row in rows:
        score, causes = row["score"], map(_because, row["causes"])
        times = f"{score / threshold:.2f}" if score is not None and threshold else "-"
        told = "?" if score is None else f"{score:.4g}"
        grid.add_row(shown(row["time"]), told, times, ", ".join(causes))
    return grid


def _because(cause: Mapping[str, Any]) -> str:
    seen, expected = (
        "?" if cause[name] is None else f"{cause[name]:.4g}" for name in ("seen", "expected")
    )
    return f"{cause['feature']} {seen} (not {expected})"
