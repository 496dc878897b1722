"""Commands in the store: what waits for a device, and what the device said after it."""

import json
from typing import Any

from elmgrove.federation.commands import Command, CommandResult
from elmgrove.server.store.chain import by_device, reads, record, writes
from elmgrove.server.store.database import Operation
from elmgrove.server.store.enrolment import DEVICE, changed, require_federation
from elmgrove.server.store.entries import Entries
from elmgrove.server.store.records import CommandRow

#: Commands that wait for one device.
MOST_OPEN = 200

_COMMAND = """SELECT id, action, words, asked_by, asked_at, device, done, refused, said FROM command
    WHERE federation = $1"""


class CommandsKept(Entries):
    """The store's operations on commands.

    See ``Store``, which adds the others, for what holds for all methods.
    """

    @writes
    def ask_command(
        self, federation: str, device: str, command: Command, *, actor: str
    ) -> Operation[str | None]:
        """Lets a command wait for its device; None if it does, or why it can't."""
        yield from require_federation(federation)
        rows = yield (f"{DEVICE} AND name = $2", federation, device)
        if not rows:
            return f"{device!r} has not joined"
        if rows[0][2]:
            return f"the key of {device!r} was revoked: it comes for nothing any more"
        if len((yield from open_commands(federation, device))) >= MOST_OPEN:
            return f"{MOST_OPEN} commands wait for {device!r} already, which has not come for them"
        yield (
            """INSERT INTO command (id, federation, device, action, words, asked_by, asked_at)
            VALUES ($1, $2, $3, $4, $5, $6, $7)""",
            command.id,
            federation,
            device,
            command.action,
            json.dumps(command.words),
            command.asked_by,
            command.asked_at,
        )
        stated = {"device": device, "command": command.id, "action": command.action}
        yield from record(federation, actor, "command asked", **stated, words=command.words)
        yield from changed(federation)
        return None

    @reads
    def commands(self, federation: str, device: str, limit: int) -> Operation[list[CommandRow]]:
        """Lists the newest commands of a device with what came of them, the newest first."""
        where = f"{_COMMAND} AND device = $2 ORDER BY asked_at DESC, id LIMIT {limit:d}"
        return [_command(*row) for row in (yield (where, federation, device))]


def open_commands(federation: str, device: str) -> Operation[list[Command]]:
    """Lists the commands that wait for a device, the oldest first."""
    where = f"{_COMMAND} AND device = $2 AND done IS NULL ORDER BY asked_at, id"
    return [_command(*row).command for row in (yield (where, federation, device))]


def end_command(
    federation: str, device: str, command: Command, outcome: CommandResult
) -> Operation[None]:
    """Keeps what a device said after a command, which waits no longer."""
    yield (
        "UPDATE command SET done = $2, refused = $3, said = $4 WHERE id = $1",
        command.id,
        outcome.time,
        outcome.refused,
        json.dumps(outcome.said),
    )
    stated = {"device": device, "command": command.id, "refused": outcome.refused}
    yield from record(federation, by_device(device), "command done", **stated)


def _command(*columns: Any) -> CommandRow:
    name, action, words, asked_by, asked_at, device, done, refused, said = columns
    return CommandRow(
        Command(name, action, json.loads(words), asked_by, asked_at),
        device,
        done,
        None if refused is None else bool(refused),
        () if said is None else tuple(json.loads(said)),
    )
