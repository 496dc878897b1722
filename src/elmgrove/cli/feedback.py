"""What is asked of a device, of its state file or its running agent: accept, reject, undo, tune."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table as Grid

from elmgrove.cli.options import (
    AsJson,
    alarm_changes,
    file_option,
    moment,
    notes,
    option,
    print_json,
    print_result,
    read_for,
    right,
    shown,
)
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
DryRun = Annotated[bool, option("Say what would change, change nothing.", "--dry-run")]


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
                return self._done(action, asked), False
            except InUse:
                if time.monotonic() > until:
                    raise
                time.sleep(0.1)

    def _done(self, action: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        if not ACTIONS[action].changes or asked.get(DRY_RUN):
            # Files are replaced whole: what is there is a state, even while it changes.
            return perform(load(self.state, Member.from_bytes), action, asked)
        with locked(self.state):
            member = load(self.state, Member.from_bytes)
            said = perform(member, action, asked)
            save(self.state, member)
        return said

    def change(self, action: str, dry_run: bool, **asked: Any) -> None:
        said, live = self.ask(action, **asked, **{DRY_RUN: dry_run})
        done = "The agent has saved it." if live else f"Saved {self.state}."
        for line in (*said["said"], "Nothing was changed: --dry-run." if dry_run else done):
            print_result(line)


def tune(
    state: StateOrAgent,
    rate: Annotated[float | None, option("The share of normal rows that may be flagged.")] = None,
    threshold: Annotated[
        float | None, option("A fixed threshold on the score instead of a rate.")
    ] = None,
    alarm: Annotated[
        str | None,
        option(
            "Raise an alarm at K anomalous rows among N; it ends after COOLDOWN calm rows.",
            metavar="K/N[/COOLDOWN]",
        ),
    ] = None,
    watch_now: Annotated[
        bool, option("Raise alarms at once: what was learned is normal.", "--watch-now")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Change the threshold or the alarm rule.

    Nothing is learned again: the scores that the device keeps give the new threshold at once, or
    the output says how many more it takes.

    Example: [bold]elmgrove tune fan-1.elm --rate 0.001 --dry-run[/]
    """
    changes = {"rate": rate, "threshold": threshold, "confidence": 0.0 if watch_now else None}
    changes = {name: value for name, value in changes.items() if value is not None}
    changes |= alarm_changes(alarm)
    if not changes:
        raise BadInput("nothing to change: give --rate, --threshold, --alarm or --watch-now")
    Device(state).change("tune", dry_run, **changes)


From = Annotated[
    str | None,
    option(
        "Rows from this time on: 2026-05-01T14:20, 14:20 (today, UTC), -2h, or seconds.", "--from"
    ),
]
To = Annotated[str | None, option("Rows before this time.", "--to")]


def accept(
    state: StateOrAgent,
    begin: From = None,
    end: To = None,
    rows: Annotated[Path | None, file_option("Learn the rows of this file.")] = None,
    instead: Annotated[
        bool, option("In the place of all that was learned before.", "--instead")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """That was fine: learn anomalous rows as a new normal.

    These are the rows in quarantine, those of a time span, or the rows of a file.

    Example: [bold]elmgrove accept fan-1.elm --from 14:20[/]
    """
    asked: dict[str, Any] = {"instead": True} if instead else {}
    asked |= _span(begin, end)
    if rows is not None:
        table = read_for(load(state, Member.from_bytes), rows)
        asked["rows"] = table.rows[:].tolist()
        if table.times is not None:
            asked["times"] = table.times.tolist()
    Device(state).change("accept", dry_run, **asked)


def reject(
    state: StateOrAgent, begin: From = None, end: To = None, dry_run: DryRun = False
) -> None:
    """It was a fault: drop anomalous rows, and unlearn it.

    What was learned in a time span, or else since the open event began (or in the last one without
    an answer), is taken out, exactly. The event ends when rows are normal again.

    Example: [bold]elmgrove reject fan-1.elm[/]
    """
    Device(state).change("reject", dry_run, **_span(begin, end))


def undo(state: StateOrAgent, dry_run: DryRun = False) -> None:
    """Undo the last accept or reject.

    Its rows wait in quarantine again, and what was learned since then stays.

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


def quarantine(state: StateOrAgent, as_json: AsJson = False) -> None:
    """List the anomalous rows that wait for an answer.

    The newest come last. elmgrove accept learns them as a new normal, elmgrove reject drops them.

    Example: [bold]elmgrove quarantine fan-1.elm[/]
    """
    found, live = Device(state).ask("quarantine")
    if as_json:
        print_json({**found, "live": live})
        return
    # As many as fit on a screen.
    rows = found["rows"][-15:]
    if not rows:
        notes.print(f"{found['name']}: no anomalous row waits.")
        return
    print_result(_grid(rows, found["threshold"], Console().width))
    more = found["waiting"] - len(rows)
    before = f" These are the newest; {more:,} more wait." if more else ""
    notes.print(f"{found['name']}: {found['waiting']:,} waiting.{before}")


def _grid(rows: list[Mapping[str, Any]], threshold: float | None, screen: int) -> Grid:
    headings, numbers = ("time (UTC)", "score", "× threshold"), list[tuple[str, str, str]]()
    for row in rows:
        score = row["score"]
        times = f"{score / threshold:.2f}" if threshold and score is not None else "-"
        numbers.append((shown(row["time"]), "?" if score is None else f"{score:.4g}", times))
    widths = [max(map(len, cells)) for cells in zip(headings, *numbers, strict=True)]
    # What is left beside three columns and the lines around four; one row is one line.
    room = max(screen - sum(widths) - 13, 20)
    grid = Grid(*right(*headings), "because of")
    for row, cells in zip(rows, numbers, strict=True):
        because = ", ".join(map(_because, row["causes"]))
        grid.add_row(*cells, because if len(because) <= room else f"{because[: room - 1]}…")
    return grid


def _because(cause: Mapping[str, Any]) -> str:
    seen, expected = (
        "?" if cause[name] is None else f"{cause[name]:.4g}" for name in ("seen", "expected")
    )
    return f"{cause['feature']} {seen} (not {expected})"
