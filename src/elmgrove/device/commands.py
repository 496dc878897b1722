"""Commands of an agent: what is asked of its device on a server, done once, and what came of it."""

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from itertools import islice
from typing import Any

from elmgrove.device.actions import perform
from elmgrove.errors import BadInput, ElmgroveError, InconsistentState, plain
from elmgrove.federation.commands import Command, CommandResult
from elmgrove.federation.member import Member
from elmgrove.federation.policy import DAY
from elmgrove.federation.report import MOST_BYTES_RESULTS
from elmgrove.federation.schemas import MOST_RESULTS, json_size

log = logging.getLogger("elmgrove.device")

#: The member's note of commands that were done: saved in one file with what they changed.
COMMANDS = "commands"
#: A command waits this many times as long as the one before it took: rows come first.
REST = 3.0
_ON_THE_SERVER = " on the server"
_INSTEAD = "ask at the device (elmgrove reject, accept), or set server_commands = any there"


class Commands:
    """Does commands between two rows, each once, and remembers what came of them until it was told.

    That a command was done is saved with what it changed, in one file. What can't be saved is not
    done, and is asked again with the next sync. ``look`` notes in the member what its status shows
    beside its state.

    ``allowed`` is the setting ``server_commands``: ``none``, ``any``, or what takes out no more
    than a day and a tenth of what was learned (``bounded``), since whoever has a server's token
    must not be able to take out all that its devices know.
    """

    def __init__(
        self,
        member: Member,
        saved: Callable[[Member], AbstractContextManager[Any]],
        look: Callable[[], None] = lambda: None,
        *,
        allowed: str = "bounded",
    ) -> None:
        self._member, self._saved, self._look, self._allowed = member, saved, look, allowed
        self._waiting: deque[Command] = deque()
        self._not_before = 0.0
        # The results that were handed out last.
        self._under_way: tuple[str, ...] = ()

    def take(self, commands: Sequence[Command]) -> None:
        """Takes what is asked in the place of what waits; of what was done it tells again."""
        given = {one.id: one for one in commands}
        for one in self._noted:
            if given.pop(one["command"], None) is not None and one["said"] is None:
                one["said"] = ["its result was reported already"]
        # No more than can be told of with the next report.
        room = max(MOST_RESULTS - len(self._untold), 0)
        self._waiting = deque(islice(given.values(), room))

    def step(self) -> bool:
        """Does the next command if there is one and it is time; says whether something came of it.

        Raises ``InconsistentState`` as ``perform`` does.
        """
        began = time.monotonic()
        if not self._waiting or began < self._not_before:
            return False
        try:
            return self._do(self._waiting.popleft())
        finally:
            ended = time.monotonic()
            self._not_before = ended + REST * (ended - began)

    def finish(self) -> bool:
        """Does all that waits, since no more rows come; says whether something came of it."""
        done = [self._do(self._waiting.popleft()) for _ in range(len(self._waiting))]
        return any(done)

    def results(self) -> tuple[CommandResult, ...]:
        untold = self._untold[:MOST_RESULTS]
        while json_size(untold) > MOST_BYTES_RESULTS:
            del untold[-1]
        self._under_way = tuple(one["command"] for one in untold)
        return tuple(map(CommandResult.from_fields, untold))

    def arrived(self) -> None:
        """Takes note that what ``results`` gave last has arrived."""
        for one in self._noted:
            if one["command"] in self._under_way:
                one["said"] = None
        self._under_way = ()

    @property
    def _noted(self) -> list[dict[str, Any]]:
        noted: list[dict[str, Any]] = self._member.notes.get(COMMANDS, [])
        return noted

    @property
    def _untold(self) -> list[dict[str, Any]]:
        return [one for one in self._noted if one["said"] is not None]

    def _do(self, command: Command) -> bool:
        try:
            if self._allowed == "none":
                raise ElmgroveError("this device takes no commands (server_commands = none)")
            self._look()
            answers = self._member.detector.answers
            asked = bool(answers.undoable) and answers.given[-1].by.endswith(_ON_THE_SERVER)
            undoes = asked and command.action == "undo"
            noted = partial(self._note_done, command, time.time(), undoes)
            said = perform(
                self._member, command.action, command.words, self._saved, noted, by=_asker(command)
            )
        except InconsistentState:
            raise
        except OSError as error:
            # The disk's trouble is told elsewhere, once.
            log.info("%s can't be saved, and so is not done: %s", _named(command), error.strerror)
            return False
        except ElmgroveError as error:
            self._refuse(command, str(error))
        except Exception as error:  # it failed on a copy: the agent goes on
            self._refuse(command, f"a fault in Elmgrove: {error!r}", error)
        else:
            changed = said["feedback"]["taken"] or said["feedback"]["put_back"]
            level = logging.WARNING if changed else logging.INFO
            log.log(level, "%s: %s", _named(command), " ".join(self._noted[-1]["said"]))
        return True

    def _note_done(
        self, command: Command, now: float, own: bool, member: Member, said: Mapping[str, Any]
    ) -> None:
        """Notes in a member that a command was done; ``BadInput`` where that took out too much.

        With ``own`` it undoes what was asked on the server as well, which no longer counts.
        """
        feedback, taken = said["feedback"], _taken(member, now)
        rows = int(feedback["taken"] + feedback["put_back"])
        if own:
            again = [one for one in taken if one[1] == feedback["put_back"]]
            if again:
                taken.remove(again[-1])
        elif rows:
            if self._allowed == "bounded":
                _require_bounded(member, rows, taken, (feedback["first"], feedback["last"]))
            taken.append([now, rows])
        _note(member, command, now, False, " ".join(said["said"]))

    def _refuse(self, command: Command, why: str, fault: Exception | None = None) -> None:
        log.warning("%s is refused: %s", _named(command), plain(why), exc_info=fault)
        _note(self._member, command, time.time(), True, why)


def _note(member: Member, command: Command, now: float, refused: bool, said: str) -> None:
    result = CommandResult(command.id, now, refused, (plain(said, 500),))
    # As many as a server keeps; what is not told yet is far less, and nothing of it is forgotten.
    kept = member.notes.get(COMMANDS, [])[-199:]
    member.notes[COMMANDS] = [*kept, result.fields]


def _taken(member: Member, now: float) -> list[list[float]]:
    """When rows were taken out for a server in the last day, and how many."""
    kept = [one for one in member.notes.get("taken", []) if now - DAY < one[0] <= now]
    member.notes["taken"] = kept
    return kept


def _require_bounded(
    member: Member, rows: int, taken: list[list[float]], times: tuple[float | None, float]
) -> None:
    before, (first, last) = int(sum(one[1] for one in taken)), times
    # A tenth of what is in the model, in all commands of a day together.
    most = int(0.1 * (member.detector.learned - member.detector.taken + rows + before))
    if rows + before > most:
        already = f", after {before:,} in the last day" if before else ""
        raise BadInput(
            f"it would take out or put back {rows:,} learned rows{already}; a server may ask for "
            f"{most:,} a day, a tenth of what was learned: {_INSTEAD}"
        )
    if first is not None and last - first > DAY:
        raise BadInput(f"it would take out more than a day of learned rows: {_INSTEAD}")


def _asker(command: Command) -> str:
    return plain(command.asked_by, 100) + _ON_THE_SERVER


def _named(command: Command) -> str:
    return f"{command.action}, asked by {_asker(command)}"
