"""Asking something of a device: of its state file, or of the running agent that has it."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from elmgrove.device.actions import ACTIONS, DRY_RUN, perform
from elmgrove.device.control import ask_agent
from elmgrove.errors import InUse, Unreachable
from elmgrove.federation.member import Member
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
        """Asks the device; returns the answer, and whether a running agent gave it.

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
        """Asks for a change, and prints what it did, or what it would do."""
        said, live = self.ask(action, **asked, **{DRY_RUN: dry_run})
        console = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
        for line in said["said"]:
            console.print(line)
        done = "The agent has saved it." if live else f"Saved {self.state}."
        console.print("Nothing was changed: --dry-run." if dry_run else done)


def _done(state: Path, action: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Does it to the state file."""
    if not ACTIONS[action].changes or asked.get(DRY_RUN):
        # Files are replaced whole: what is there is a state, even while it changes.
        return perform(load(state, Member.from_bytes), action, asked)
    with locked(state):
        member = load(state, Member.from_bytes)
        said = perform(member, action, asked)
        save(state, member)
    return said
