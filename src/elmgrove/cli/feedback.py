"""``accept``, ``reject``, ``undo`` and ``quarantine``: what a person says of anomalous rows."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import moment, notes, read_for, shown
from elmgrove.cli.running import Device, DryRun, StateOrAgent
from elmgrove.federation.commands import FROM, TO
from elmgrove.federation.member import Member
from elmgrove.reading.times import format_time
from elmgrove.storage.disk import load

From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="Rows from this time on: 2026-05-01T14:20, 14:20 (today, UTC), -2h, or seconds.",
    ),
]
To = Annotated[str | None, typer.Option("--to", help="Rows before this time.")]


def accept(
    state: StateOrAgent,
    begin: From = None,
    end: To = None,
    rows: Annotated[
        Path | None,
        typer.Option(help="Learn the rows of this file.", exists=True, dir_okay=False),
    ] = None,
    instead: Annotated[
        bool, typer.Option("--instead", help="In the place of all that was learned before.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """That was fine: learn anomalous rows as a new normal.

    These are the rows in quarantine (elmgrove quarantine lists them), those of a time span, or the
    rows of a file. A running agent learns them between two rows, and need not be stopped.

    Example: [bold]elmgrove accept fan-1.elm --from 14:20[/]
    """
    device, span = Device(state), _span(begin, end)
    given = {} if rows is None else _given(device, rows)
    device.change("accept", dry_run, **span, **given, **({"instead": True} if instead else {}))


def reject(
    state: StateOrAgent,
    begin: From = None,
    end: To = None,
    dry_run: DryRun = False,
) -> None:
    """It was a fault: drop anomalous rows, and unlearn it.

    Without a time span, all that was learned since the open event began (or in the last event, if
    it has no answer yet) is taken out, exactly, as if it had never been learned; with one, what was
    learned in that span. The device no longer asks about it, and the event ends when rows are
    normal again. Other devices follow at the next sync. elmgrove undo undoes it.

    Example: [bold]elmgrove reject fan-1.elm[/]
    """
    Device(state).change("reject", dry_run, **_span(begin, end))


def undo(
    state: StateOrAgent,
    dry_run: DryRun = False,
) -> None:
    """Undo the last accept or reject.

    What it took out is learned again, what it learned is taken out, and its rows wait in quarantine
    again. What was learned since then stays. elmgrove status shows all answers.

    Example: [bold]elmgrove undo fan-1.elm[/]
    """
    Device(state).change("undo", dry_run)


def _span(begin: str | None, end: str | None) -> dict[str, Any]:
    """Reads the times and prints them: what somebody wrote may be another day's."""
    given = {FROM: begin, TO: end}
    span = {word: moment(text) for word, text in given.items() if text is not None}
    if span:
        times = " ".join(f"{word} {format_time(time)}" for word, time in span.items())
        notes.print(f"Rows {times} (UTC).")
    return span


def _given(device: Device, rows: Path) -> dict[str, Any]:
    """Reads the rows of a file as the device's state remembers."""
    member = load(device.state, Member.from_bytes)
    table = read_for(member, rows)
    times = {} if table.times is None else {"times": table.times.tolist()}
    return {"rows": table.rows[:].tolist(), **times}


#: Rows that fit on a screen.
SHOWN = 15


def quarantine(
    state: StateOrAgent,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, for programs.")] = False,
) -> None:
    """List the anomalous rows that wait for an answer.

    The newest come last, each with its time, score and causes.

    elmgrove accept learns them as a new normal, elmgrove reject drops them.

    Example: [bold]elmgrove quarantine fan-1.elm[/]
    """
    found, live = Device(state).ask("quarantine")
    if as_json:
        Console().print_json(json.dumps({**found, "live": live}))
        return
    rows = found["rows"][-SHOWN:]
    if not rows:
        notes.print(f"{found['name']}: no anomalous row waits.")
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
