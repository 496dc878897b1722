"""What can be asked of a device: each action, on its state or on the agent that has it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from elmgrove.detector import TUNABLE, tune
from elmgrove.device.status import mark_state, status_of
from elmgrove.errors import BadInput
from elmgrove.federation import Member

#: Asks what an action would do: it is done to a copy.
DRY_RUN = "dry_run"


class Action(NamedTuple):
    """Something that can be asked: what is done, by which words, and whether a state changes."""

    do: Callable[[Member, Mapping[str, Any]], dict[str, Any]]
    words: frozenset[str] = frozenset()
    changes: bool = False


def perform(member: Member, action: str, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Does what is asked of a member, and gives what there is to say, for JSON.

    Raises ``BadInput`` if it can't, and has changed nothing then. A change says what it did in
    lines (``said``), and how the device is doing after it. To save it is the caller's.
    """
    known, given = ACTIONS[action], dict(asked)
    trial = given.pop(DRY_RUN, False) if known.changes else False
    if not isinstance(trial, bool):
        raise BadInput(f"{DRY_RUN} is true or false, not {trial!r:.40}")
    strange = sorted(given.keys() - known.words)
    if strange:
        words = ", ".join(sorted(known.words)) or "nothing"
        raise BadInput(f"{action} takes {words}, not {strange[0]!r:.40}")
    if trial:
        member = Member.from_bytes(member.to_bytes())
    said = known.do(member, given)
    if known.changes:
        mark_state(member)
        said |= {DRY_RUN: trial, "status": status_of(member)}
    return said


def _status(member: Member, asked: Mapping[str, Any]) -> dict[str, Any]:
    return status_of(member)


def _tune(member: Member, asked: Mapping[str, Any]) -> dict[str, Any]:
    said = tune(member.detector, **asked)
    return {"said": said or ["nothing: all of that is as it was"]}


#: All actions, by name.
ACTIONS = {
    "status": Action(_status),
    "tune": Action(_tune, frozenset(TUNABLE), changes=True),
}
