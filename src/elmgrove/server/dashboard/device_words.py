"""What a device told, in the words of its page: events, causes, a question, what others changed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elmgrove.detector import normal_at
from elmgrove.federation import EVENT, FROM, INSTEAD, TO, seconds_of
from elmgrove.reading import Clock, stated_time
from elmgrove.server.dashboard.rendering import clock, counted, number
from elmgrove.server.store import ErrandRow, Occurrence

#: What takes an answer back.
UNDO = "undo"
# A span ends before its end: the last row of an event is in it by this many seconds.
_JUST_AFTER = 0.001
# Below this share of the score a feature is no cause that helps anybody.
_LEAST_SHARE = 0.02


@dataclass(frozen=True)
class ShownEvent:
    """An event as its device's page shows it, with what was said of it (``errands``).

    ``last_row`` is when the last row was of which the device told, if it said so. ``undone`` says
    that the last answer about it was undone.
    """

    occurrence: Occurrence
    errands: tuple[ErrandRow, ...]
    last_row: float | None = None
    undone: bool = False

    @property
    def is_open(self) -> bool:
        """Says whether it has not ended."""
        return self.occurrence.ended is None

    @property
    def span(self) -> dict[str, float] | None:
        """The words ``from`` and ``to`` that name its rows; None where its rows had no time.

        Of an open one these are the rows of which the device told: what comes while the answer is
        on its way may be something else.
        """
        event, end = self.occurrence.event, self.occurrence.ended
        if isinstance(event["begin"], int):
            return None
        begin = self.occurrence.begin
        if end is None:
            known = (begin, seconds_of(event["peak_at"]), self.last_row)
            end = max(time for time in known if time is not None)
        return {FROM: begin, **up_to(end)}

    @property
    def named(self) -> dict[str, int]:
        """The word that names it, so that the device takes out all that was learned since."""
        return {EVENT: self.occurrence.number}

    @property
    def words(self) -> Mapping[str, float]:
        """The words that name those of its rows of which the device told."""
        return self.span or self.named

    @property
    def answered(self) -> str:
        """What the device was told it was, by whomever and wherever; '' if nothing."""
        said = self.occurrence.event.get("answered")
        return said if isinstance(said, str) else ""

    @property
    def is_answered(self) -> bool:
        """Says whether somebody has said what it was, and that was neither refused nor undone."""
        waits = any(row.done is None for row in self.errands)
        done = any(row.done is not None and not row.refused for row in self.errands)
        return bool(self.answered) or waits or (done and not self.undone)

    @property
    def title(self) -> str:
        """Which event it is, and when it was."""
        begin, ended = clock(self.occurrence.begin), self.occurrence.ended
        if ended is None:
            return f"Event {self.occurrence.number}, since {begin}"
        same_day, end = begin[:10] == clock(ended)[:10], clock(ended)
        return f"Event {self.occurrence.number}, {begin} to {end[11:] if same_day else end}"

    @property
    def strength(self) -> str:
        """How many rows were strange, how strange the strangest was, and where that is normal."""
        event = self.occurrence.event
        times = event["peak"] / event["threshold"] if event["threshold"] else None
        rows = f"{counted(event['rows'], 'row')} strange"
        peak = "" if times is None else f"at most {number(times)} times the threshold"
        return ", ".join(filter(None, [rows, peak, normal_at(event.get("known", ()))]))

    @property
    def causes(self) -> list[str]:
        """Why, a sentence for each feature that has some part in it."""
        told = self.occurrence.event["causes"]
        worth = [one for one in told if one["share"] is None or one["share"] >= _LEAST_SHARE]
        # What each has to do with it overlaps, so shares would add up to more than the whole.
        ordered = sorted(worth or told, key=lambda one: -(one["share"] or 0.0))
        return [cause_told(cause) for cause in ordered]


def cause_told(cause: Mapping[str, Any]) -> str:
    """Says in words what one feature did, or how much it has to do with it.

    >>> cause_told({"feature": "flow", "share": 0.9, "seen": 22, "expected": 31, "ago": 0})
    'flow was 22 where 31 was to be expected'
    >>> cause_told({"feature": "temp", "share": 0.04, "seen": None, "expected": None, "ago": 0})
    'temp (4 % of the score)'
    """
    said, share = str(cause["feature"]), cause["share"]
    if cause["seen"] is not None and cause["expected"] is not None:
        said += _reading(f"{cause['seen']:.4g}", f"{cause['expected']:.4g}")
    elif share is not None:
        said += f" ({share * 100:.0f} % of the score)"
    if cause["ago"]:
        said += f", {counted(cause['ago'], 'row')} before the strange one"
    return said


def _reading(seen: str, expected: str) -> str:
    # Both are told in few figures.
    if seen == expected:
        return f" was about {seen}, and a little off what was to be expected"
    return f" was {seen} where {expected} was to be expected"


def up_to(time: float) -> dict[str, float]:
    """Gives the word ``to`` that names the rows up to one, with that one.

    >>> up_to(1714573200.0)
    {'to': 1714573200.001}
    """
    return {TO: time + _JUST_AFTER}


def shown_events(
    occurrences: Sequence[Occurrence],
    errands: Sequence[ErrandRow],
    last_row: float | None,
    undone: Collection[int] = (),
) -> list[ShownEvent]:
    """Puts events together with what was said of each, and with the time of the last row told."""
    return [
        ShownEvent(
            one,
            tuple(row for row in errands if _is_about(row, one)),
            last_row,
            one.number in undone,
        )
        for one in occurrences
    ]


def _is_about(row: ErrandRow, event: Occurrence) -> bool:
    words = row.errand.words
    if EVENT in words:
        # A device that began anew counts its events from 1 on.
        return bool(words[EVENT] == event.number) and row.errand.asked_at >= event.begin
    return words.get(FROM) == event.begin


def answers(row: ErrandRow, since: float | None) -> bool:
    """Says whether an errand waits that is about rows since a change began, if that is known."""
    end = row.errand.words.get(TO)
    if row.errand.action == UNDO:
        return False
    return row.done is None and (since is None or end is None or stated_time(TO, end) >= since)


def cooperation_told(cooperation: Mapping[str, Any] | None) -> str:
    """Says in a sentence or two what learning from others changed."""
    if cooperation is None:
        return "It has learned nothing from others yet."
    before, after = cooperation["before"], cooperation["after"]
    said = f"At {clock(cooperation['time'])} it last took in what others know."
    if before is not None and after is not None:
        change = (
            "the same as before" if f"{after:.3g}" == f"{before:.3g}" else _change(after, before)
        )
        said += f" Its own rows then scored {number(after)} on average, {change}."
    share = cooperation["share"]
    if share is not None:
        said += f" {_borrowed(share)}."
    return said


def _change(after: float, before: float) -> str:
    if f"{after:.3g}" == f"{before:.3g}":
        return "as before"
    better = "better" if after < before else "worse"
    return f"{number(before)} before: {better} explained"


def _borrowed(share: float) -> str:
    if share == 0.0:
        return "It borrows nothing"
    percent = "Less than 1 %" if share < 0.01 else f"{share * 100:.0f} %"
    return f"{percent} of what decides here comes from others"


def errand_told(row: ErrandRow) -> str:
    """Says what was asked of a device."""
    words = row.errand.words
    if row.errand.action == UNDO:
        return "The last answer: undone"
    if row.errand.action == "reject":
        said = "said to be a fault"
    else:
        said = "said to be the normal from now on" if words.get(INSTEAD) else "said to be fine"
    begin, end = words.get(FROM), words.get(TO)
    if EVENT in words:
        return f"Event {words[EVENT]}: {said}"
    if begin is None and end is None:
        return f"All that waits: {said}"
    since = "Rows" if begin is None else f"Rows from {_told(begin)}"
    return f"{since} {'until now' if end is None else f'until {_told(end)}'}: {said}"


def _told(time: float | str) -> str:
    # Seconds or parts of them, as an errand may say it.
    return time if isinstance(time, str) else clock(Clock()(time))
