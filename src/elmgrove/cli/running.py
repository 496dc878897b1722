"""Asking something of a device: of its state file, or of the running agent that has it."""

import os
import socket
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console

from elmgrove.device.actions import ACTIONS, DRY_RUN, perform
from elmgrove.device.control import CONTROL_ROOT, STATE_HEADER, hash_of, socket_places
from elmgrove.errors import InUse, Unreachable
from elmgrove.federation.member import Member
from elmgrove.storage.disk import load, locked, save

#: Seconds for which a command waits while another has the state, or its agent begins or ends.
PATIENCE = 10.0
#: Seconds that an agent may take to answer; it says itself before that its turn did not come.
_ANSWER = 60.0

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
            said = _asked_locally(self.state, action, asked)
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


def _asked_locally(state: Path, action: str, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """Asks the agent that has the state; None if there is none."""
    for place in socket_places(state):
        if not _is_of(state, place) or not _somebody_listens(place):
            continue
        # Here, since it takes a while to load, and most states have no agent.
        import httpx

        with httpx.Client(
            transport=httpx.HTTPTransport(uds=str(place)),
            base_url="http://agent",
            headers={STATE_HEADER: hash_of(state)},
            timeout=_ANSWER,
        ) as opened:
            try:
                return _answer(opened, action, asked)
            except Unreachable:
                # An agent that ends or was killed has left its state behind, which holds as much.
                if ACTIONS[action].changes or not state.exists():
                    raise
    return None


def _is_of(state: Path, place: Path) -> bool:
    """Whether a socket belongs to the owner of the state: anybody can put one into a folder.

    A link is none: it may lead to the socket of another device of the same owner.
    """
    try:
        found = place.lstat()
        owner = state.stat().st_uid if state.exists() else os.geteuid()
    except OSError:
        return False
    return stat.S_ISSOCK(found.st_mode) and found.st_uid == owner


def _somebody_listens(place: Path) -> bool:
    """Whether an agent is behind a socket; one that was killed has left it there."""
    with socket.socket(socket.AF_UNIX) as caller:
        try:
            caller.connect(str(place))
        except OSError:
            return False
    return True


def _answer(opened: Any, action: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    from elmgrove.exchange.http_client import request

    path = CONTROL_ROOT + action
    if not ACTIONS[action].changes:
        answer = request(opened, "GET", path)
    else:
        try:
            answer = request(opened, "POST", path, json=asked)
        except Unreachable as error:
            raise _in_doubt(error, action) from error.__cause__
    found: dict[str, Any] = answer.json()
    return found


def _in_doubt(error: Unreachable, action: str) -> Unreachable:
    """What to do where the request arrived and the response did not."""
    import httpx

    if isinstance(error.__cause__, httpx.ReadError | httpx.RemoteProtocolError | httpx.ReadTimeout):
        return Unreachable(
            f"the agent went away before it answered ({error}); elmgrove status and elmgrove "
            f"quarantine tell whether {action} was done"
        )
    return error
