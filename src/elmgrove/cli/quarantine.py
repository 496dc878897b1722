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
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(_grid(rows, found["threshold"], console.width))
    more = found["waiting"] - len(rows)
    before = f" These are the newest; {more:,} more wait." if more else ""
    notes.print(f"{found['name']}: {found['waiting']:,} waiting.{before}")


def _grid(rows: list[Mapping[str, Any]], threshold: float | None, screen: int) -> Grid:
    headings = ("time (UTC)", "score", "× threshold")
    numbers = [(shown(row["time"]), *_numbers(row["score"], threshold)) for row in rows]
    widths = [max(map(len, cells)) for cells in zip(headings, *numbers, strict=True)]
    # What is left beside three columns and the lines around four; one row is one line.
    room = max(screen - sum(widths) - 13, 20)
    grid = Grid()
    for heading in headings:
        grid.add_column(heading, justify="right")
    grid.add_column("because of")
    for row, cells in zip(rows, numbers, strict=True):
        because = ", ".join(map(_because, row["causes"]))
        grid.add_row(*cells, because if len(because) <= room else f"{because[: room - 1]}…")
    return grid


def _numbers(score: float | None, threshold: float | None) -> tuple[str, str]:
    if score is None:
        return "?", "-"
    return f"{score:.4g}", f"{score / threshold:.2f}" if threshold else "-"


def _because(cause: Mapping[str, Any]) -> str:
    seen, expected = (
        "?" if cause[name] is None else f"{cause[name]:.4g}" for name in ("seen", "expected")
    )
    return f"{cause['feature']} {seen} (not {expected})"
