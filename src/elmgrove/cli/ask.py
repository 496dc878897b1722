"""What is asked of a device, of its state file or its running agent: accept, reject, undo, tune."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import alarm_changes, moment, notes, read_for, shown
from elmgrove.device.actions import ACTIONS, DRY_RUN, perform
from elmgrove.device.control import ask_agent
from elmgrove.errors import BadInput, InUse, Unreachable
from elmgrove.federation.member import Member
from elmgrove.reading.times import format_time
from elmgrove.storage.disk import load, locked, save

#: Seconds for which a command waits while another has the state, or its agent begins or ends.
PATIENCE = 10.0

StateOrAgent = Annotated[
    Path, typer.Argument(help="The device's state file; its agent may be running.", metavar="STATE")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would change, change nothing.")]


class Device(NamedTuple):
    """The device that a command is about: its state file, or the running agent that has it."""

    state: Path

    def ask(self, action: str, **asked: Any) -> tuple[dict[str, Any], bool]:
        """Ask the device; return the answer, and whether a running agent gave it.

        An agent that has the state is asked through its socket. Else the state is loaded, and
        a change is saved under the lock before it is reported.
        """
        until = time.monotonic() + PATIENCE
        while True:
            try:
                said = ask_agent(self.state, action, asked)
            except Unreachable:
                # An agent that ends or was killed has left its state behind, which holds as much.
                if ACTIONS[action].changes or not self.state.exists():
                    raise
                said = None
            if said is not None:
                return said, True
            try:
                return _done(self.state, action, asked), False
            except InUse:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def change(self, action: str, dry_run: bool, **asked: Any) -> None:
        """Ask for a change, and print what it did, or what it would do."""
        said, live = self.ask(action, **asked, **{DRY_RUN: dry_run})
        console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
        for line in said["said"]:
            console.print(line)
        done = "The agent has saved it." if live else f"Saved {self.state}."
        console.print("Nothing was changed: --dry-run." if dry_run else done)


def _done(state: Path, action: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Do it to the state file."""
    if not ACTIONS[action].changes or asked.get(DRY_RUN):
        # Files are replaced whole: what is there is a state, even while it changes.
        return perform(load(state, Member.from_bytes), action, asked)
    with locked(state):
        member = load(state, Member.from_bytes)
        said = perform(member, action, asked)
        save(state, member)
    return said


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
    """Read the times and print them: what somebody wrote may be another day's."""
    given = {"from": begin, "to": end}
    span = {word: moment(text) for word, text in given.items() if text is not None}
    if span:
        times = " ".join(f"{word} {format_time(time)}" for word, time in span.items())
        notes.print(f"Rows {times} (UTC).")
    return span


def _given(device: Device, rows: Path) -> dict[str, Any]:
    """Read the rows of a file as the device's state remembers."""
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
