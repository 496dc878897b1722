"""What can be asked of a device: each action, on its state or on the agent that has it."""

import math
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from elmgrove.detector.feedback import Feedback, accept, listed, reject, undo
from elmgrove.detector.history import Span
from elmgrove.detector.tuning import TUNABLE, tune
from elmgrove.device.status import mark_state, status_of, told
from elmgrove.errors import BadInput, InconsistentState, require_whole
from elmgrove.federation.commands import COMMANDS
from elmgrove.federation.member import Member
from elmgrove.reading.times import json_when, stated_time

#: Asks what an action would do: it is done to a copy.
DRY_RUN = "dry_run"
#: Who asks, where that is all that is known: the owner at the device, or whoever may write to the
#: broker.
COMMAND_LINE, MQTT = "command line", "mqtt"

Asked = Mapping[str, Any]


class Action(NamedTuple):
    """Something that can be asked: what is done, by which words, and whether a state changes.

    ``do`` is given the member, the words, who asks and when.
    """

    do: Callable[[Member, Asked, str, float], dict[str, Any]]
    words: frozenset[str] = frozenset()
    changes: bool = False


def perform(
    member: Member,
    action: str,
    asked: Asked,
    saved: Callable[[Member], AbstractContextManager[Any]] = nullcontext,
    noted: Callable[[Member, Mapping[str, Any]], None] = lambda member, said: None,
    by: str = COMMAND_LINE,
) -> dict[str, Any]:
    """Does what is asked of a member, and gives what there is to say, for JSON; ``by`` is who asks.

    A change is tried on a copy first, and the member changes inside ``saved(copy)``, once the copy
    is on disk. What fails before that leaves the member as it was; what fails after that is
    ``InconsistentState``. What was said can be ``noted`` in what is saved, or refused there.
    """
    known, given, now = ACTIONS[action], dict(asked), time.time()
    for name, value in given.items():
        if value is None:
            raise BadInput(f"{name!r:.40} is null: give it a value, or leave the word out")
    trial = given.pop(DRY_RUN, False) if known.changes else False
    if not isinstance(trial, bool):
        raise BadInput(f"{DRY_RUN} is true or false, not {trial!r:.40}")
    anomalous = sorted(given.keys() - known.words)
    if anomalous:
        words = ", ".join(sorted(known.words)) or "nothing"
        raise BadInput(f"{action} takes {words}, not {anomalous[0]!r:.40}")
    if not known.changes:
        return known.do(member, given, by, now)

    def change(which: Member) -> dict[str, Any]:
        said = known.do(which, given, by, now)
        mark_state(which)
        said |= {"status": status_of(which)}
        noted(which, said)
        return said

    copy = Member.from_bytes(member.to_bytes())
    said = change(copy)
    Member.from_bytes(copy.to_bytes())
    if not trial:
        begun = False
        try:
            with saved(copy):
                begun = True
                said = change(member)
        except Exception as error:  # it went well on the copy: whatever fails now is half done
            if not begun:
                raise
            raise InconsistentState(f"{action} failed half-way: {error!r}") from error
    return {**said, DRY_RUN: trial}


def _quarantine(member: Member, asked: Asked, by: str, at: float) -> dict[str, Any]:
    detector = member.detector
    rows = [
        {**one, "time": None if one["time"] is None else json_when(one["time"])}
        # The newest: to explain each takes a while.
        for one in listed(detector, last=50)
    ]
    limit = detector.threshold
    return {
        "name": member.name,
        "threshold": limit if math.isfinite(limit) else None,
        "waiting": len(detector.quarantine),
        "rows": rows,
    }


def _events(member: Member, asked: Asked, by: str, at: float) -> dict[str, Any]:
    events = member.detector.events
    return {
        "name": member.name,
        "open": told(events.open),
        "closed": [told(event) for event in events.closed],
    }


def _accept(member: Member, asked: Asked, by: str, at: float) -> dict[str, Any]:
    rows, instead = asked.get("rows"), asked.get("instead", False)
    if not isinstance(instead, bool):
        raise BadInput(f"instead is true or false, not {instead!r:.40}")
    if rows is None:
        if "times" in asked:
            raise BadInput("times are those of rows: give the rows, or from and to")
        span, event = _span(asked), _event(asked)
        return _fed_back(accept(member.detector, span, event=event, instead=instead, by=by, at=at))
    if asked.keys() & {"from", "to", "event"}:
        raise BadInput("rows, or from and to, or an event: name what is normal in one way")
    times = asked.get("times")
    if times is not None:
        if not isinstance(times, list):
            raise BadInput(f"times are a list with one for each row, not {times!r:.40}")
        times = [stated_time("times", one) for one in times]
    return _fed_back(accept(member.detector, rows=rows, times=times, instead=instead, by=by, at=at))


def _reject(member: Member, asked: Asked, by: str, at: float) -> dict[str, Any]:
    span, event = _span(asked), _event(asked)
    return _fed_back(reject(member.detector, span, event=event, by=by, at=at))


def _tune(member: Member, asked: Asked, by: str, at: float) -> dict[str, Any]:
    return {"said": tune(member.detector, **asked) or ["nothing: all of that is as it was"]}


def _fed_back(feedback: Feedback) -> dict[str, Any]:
    return {"said": [str(feedback)], "feedback": feedback.fields}


def _span(asked: Asked) -> Span | None:
    """The time that is meant; None where none is named."""
    if "from" not in asked and "to" not in asked:
        return None
    return Span(
        stated_time("from", asked["from"]) if "from" in asked else -math.inf,
        stated_time("to", asked["to"]) if "to" in asked else math.inf,
    )


def _event(asked: Asked) -> int | None:
    return require_whole("event", asked["event"], 1) if "event" in asked else None


#: All actions, by name.
ACTIONS = {
    "status": Action(lambda member, *_: status_of(member)),
    "quarantine": Action(_quarantine),
    "events": Action(_events),
    "accept": Action(_accept, frozenset({*COMMANDS["accept"], "rows", "times"}), changes=True),
    "reject": Action(_reject, frozenset(COMMANDS["reject"]), changes=True),
    "undo": Action(
        lambda member, asked, by, at: _fed_back(undo(member.detector, by=by, at=at)), changes=True
    ),
    "tune": Action(_tune, frozenset(TUNABLE), changes=True),
}
