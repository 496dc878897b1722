"""What can be asked of a device: each action, on its state or on the agent that has it."""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from elmgrove.detector import TUNABLE, Feedback, Span, accept, json_when, listed, reject, tune
from elmgrove.device.status import mark_state, status_of, told
from elmgrove.errors import BadInput
from elmgrove.federation import ERRANDS, FROM, INSTEAD, TO, Member
from elmgrove.reading import stated_time

#: Asks what an action would do: it is done to a copy.
DRY_RUN = "dry_run"
#: Rows of the quarantine that are listed, the newest: to explain each takes a while.
LISTED = 50

Asked = Mapping[str, Any]


class Action(NamedTuple):
    """Something that can be asked: what is done, by which words, and whether a state changes."""

    do: Callable[[Member, Asked], dict[str, Any]]
    words: frozenset[str] = frozenset()
    changes: bool = False


class HalfDone(Exception):
    """A change that failed after it had gone well on a copy: the member is not to be saved."""


def perform(
    member: Member,
    action: str,
    asked: Asked,
    saved: Callable[[Member], AbstractContextManager[Any]] = nullcontext,
    noted: Callable[[Member, Sequence[str]], None] = lambda member, said: None,
) -> dict[str, Any]:
    """Does what is asked of a member, and gives what there is to say, for JSON.

    Raises ``BadInput`` if it can't, and has changed nothing then. A change says what it did in
    lines (``said``), and how the device is doing after it.

    A change is tried on a copy first, which must be fit to be saved, and is: the member changes
    inside ``saved(copy)``, once the copy is on disk. What fails before that, and be it a fault of
    Elmgrove's own, leaves the member as it was. What fails after that is ``HalfDone``, and the
    copy does not become the state. What was said can be ``noted`` in what is saved.
    """
    known, given = ACTIONS[action], dict(asked)
    trial = given.pop(DRY_RUN, False) if known.changes else False
    if not isinstance(trial, bool):
        raise BadInput(f"{DRY_RUN} is true or false, not {trial!r:.40}")
    strange = sorted(given.keys() - known.words)
    if strange:
        words = ", ".join(sorted(known.words)) or "nothing"
        raise BadInput(f"{action} takes {words}, not {strange[0]!r:.40}")
    if not known.changes:
        return known.do(member, given)
    copy = Member.from_bytes(member.to_bytes())
    said = _changed(copy, known, given)
    noted(copy, said["said"])
    Member.from_bytes(copy.to_bytes())
    if not trial:
        begun = False
        try:
            with saved(copy):
                begun = True
                said = _changed(member, known, given)
                noted(member, said["said"])
        except Exception as error:  # it went well on the copy: whatever fails now is half done
            if not begun:
                raise
            raise HalfDone(f"{action} failed half-way: {error!r}") from error
    return {**said, DRY_RUN: trial}


def _changed(member: Member, action: Action, given: Asked) -> dict[str, Any]:
    said = action.do(member, given)
    mark_state(member)
    return {**said, "status": status_of(member)}


def _status(member: Member, asked: Asked) -> dict[str, Any]:
    return status_of(member)


def _quarantine(member: Member, asked: Asked) -> dict[str, Any]:
    detector = member.detector
    rows = [
        {**one, "time": None if one["time"] is None else json_when(one["time"])}
        for one in listed(detector, last=LISTED)
    ]
    limit = detector.threshold
    return {
        "name": member.name,
        "threshold": limit if math.isfinite(limit) else None,
        "waiting": len(detector.quarantine),
        "rows": rows,
    }


def _events(member: Member, asked: Asked) -> dict[str, Any]:
    events = member.detector.events
    return {
        "name": member.name,
        "open": told(events.open),
        "closed": [told(event) for event in events.closed],
    }


def _accept(member: Member, asked: Asked) -> dict[str, Any]:
    rows, instead = asked.get("rows"), asked.get(INSTEAD, False)
    if not isinstance(instead, bool):
        raise BadInput(f"{INSTEAD} is true or false, not {instead!r:.40}")
    if rows is None:
        if "times" in asked:
            raise BadInput("times are those of rows: give the rows, or from and to")
        return _fed_back(accept(member.detector, _span(asked), instead=instead))
    if FROM in asked or TO in asked:
        raise BadInput("rows, or from and to: name what is normal in one way")
    times = _times(asked.get("times"))
    return _fed_back(accept(member.detector, rows=rows, times=times, instead=instead))


def _reject(member: Member, asked: Asked) -> dict[str, Any]:
    return _fed_back(reject(member.detector, _span(asked)))


def _tune(member: Member, asked: Asked) -> dict[str, Any]:
    return {"said": tune(member.detector, **asked) or ["nothing: all of that is as it was"]}


def _fed_back(feedback: Feedback) -> dict[str, Any]:
    return {"said": [str(feedback)], "feedback": feedback.fields}


def _span(asked: Asked) -> Span | None:
    """The time that is meant; None where none is named."""
    if FROM not in asked and TO not in asked:
        return None
    begin, end = asked.get(FROM), asked.get(TO)
    return Span(
        -math.inf if begin is None else stated_time(FROM, begin),
        math.inf if end is None else stated_time(TO, end),
    )


def _times(given: Any) -> list[float] | None:
    if given is None:
        return None
    if not isinstance(given, list):
        raise BadInput(f"times are a list with one for each row, not {given!r:.40}")
    return [stated_time("times", one) for one in given]


#: All actions, by name.
ACTIONS = {
    "status": Action(_status),
    "quarantine": Action(_quarantine),
    "events": Action(_events),
    "accept": Action(_accept, frozenset({*ERRANDS["accept"], "rows", "times"}), changes=True),
    "reject": Action(_reject, frozenset(ERRANDS["reject"]), changes=True),
    "tune": Action(_tune, frozenset(TUNABLE), changes=True),
}
