"""Events: strange rows that belong together, from the alarm that opens one to its end."""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from elmgrove.detector.alarm import Alarm, AlarmRule, Mark
from elmgrove.detector.news import (
    ENDED,
    OPENED,
    Event,
    News,
    causes_from,
    event_from,
    require_numbers,
)
from elmgrove.detector.progress import CHANGING
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.detector.when import When
from elmgrove.errors import BadInput, require_whole

#: Events that ended and are remembered.
CLOSED = 20
#: The strongest rows of an event, whose causes are the event's; and causes that are kept of each.
STRONGEST, CAUSES = 8, 8

# While what is normal is changing, it takes so many cool-downs until all is over.
_LASTING = 4

Explain = Callable[[Verdict, int], list[Cause]]


class Strong(NamedTuple):
    """A row that is among the strongest of its event."""

    score: float
    threshold: float
    when: When
    causes: tuple[Cause, ...]


@dataclass
class Running:
    """The event that is open, as it grows."""

    number: int
    begin: When
    #: The last row at which there was an alarm's worth of strange rows.
    last: int
    last_at: When
    rows: int = 0
    #: Strange rows since then: they count once there is another.
    loose: int = 0
    changing: bool = False
    strongest: list[Strong] = field(default_factory=list)

    def add(self, mark: Mark, explain: Explain) -> None:
        """Counts a strange row, and explains it if it is among the strongest."""
        self.loose += 1
        verdict = mark.verdict
        if verdict is None:
            return
        # Written so that a score that is no number is one; JSON has no infinity.
        score = verdict.score if verdict.score < sys.float_info.max else sys.float_info.max
        if len(self.strongest) == STRONGEST and score <= self.strongest[-1].score:
            return
        causes = tuple(explain(verdict, CAUSES))
        self.strongest.append(Strong(score, verdict.threshold, mark.when, causes))
        self.strongest.sort(key=lambda strong: -strong.score)
        del self.strongest[STRONGEST:]

    def confirm(self, mark: Mark) -> None:
        """Takes the strange rows up to this one as part of the event."""
        self.rows, self.loose = self.rows + self.loose, 0
        self.last, self.last_at = mark.row, mark.when

    def event(self, end: When | None = None) -> Event:
        """Gives the event as it is known by now."""
        peak = self.strongest[0] if self.strongest else Strong(0.0, 0.0, self.begin, ())
        return Event(
            self.number,
            self.begin,
            end,
            peak.score,
            peak.when,
            peak.threshold,
            self.rows,
            self._causes(),
            self.changing,
        )

    def _causes(self) -> tuple[Cause, ...]:
        shares, seen = dict[str, float](), dict[str, Cause]()
        for strong in self.strongest:
            for cause in strong.causes:
                shares[cause.feature] = shares.get(cause.feature, 0.0) + cause.share
                # That of the strongest row which has it.
                seen.setdefault(cause.feature, cause)
        order = sorted(shares, key=lambda feature: -shares[feature])
        count = len(self.strongest)
        return tuple(seen[name]._replace(share=shares[name] / count) for name in order[:CAUSES])


class Events:
    """Gathers strange rows to events: one alarm opens one, and there is no other while it is open.

    It begins with the first of the k strange rows. A row at which k of the last n were strange
    prolongs it. It ends when the cool-down has gone by without such a row, and n rows without a
    strange one: what comes back within the cool-down is the same event, and no second alarm. That
    is calmer than to call it ended and then to open it again, and nobody who was told of an end is
    wrong. Its end is the last row that prolonged it.

    When the detector finds out that what is normal is ``changing``, an event opens if there is none
    (strange rows may be many, and never k of n). From then on k strange rows within the cool-down
    prolong it, and it takes four times the cool-down to end. What changed is for ``DriftWatch`` to
    say, and to ask.

    A normal row costs nothing unless an event is open.
    """

    def __init__(self, rule: AlarmRule) -> None:
        self._alarm = Alarm(rule)
        #: Rows observed up to now.
        self.row = 0
        #: Events up to now, and the open one.
        self.count = 0
        self.running: Running | None = None
        #: Those that ended, newest last.
        self._closed: deque[Event] = deque(maxlen=CLOSED)
        # What nobody has taken yet, oldest first.
        self._news: deque[News] = deque(maxlen=CLOSED)

    @property
    def rule(self) -> AlarmRule:
        """The rule by which events open and end; another holds from the next row on."""
        return self._alarm.rule

    @rule.setter
    def rule(self, rule: AlarmRule) -> None:
        marks = self._alarm.marks
        self._alarm = Alarm(rule)
        self._alarm.marks.extend(marks)

    @property
    def open(self) -> Event | None:
        """The event that has not ended, if there is one."""
        return None if self.running is None else self.running.event()

    @property
    def closed(self) -> tuple[Event, ...]:
        """The last events that ended, newest last."""
        return tuple(self._closed)

    def follow(self, verdict: Verdict, state: str, explain: Explain) -> None:
        """Takes in a strange row, or any while an event is open; tells the verdict its event.

        ``state`` is the detector's after the row.
        """
        found_out = state == CHANGING != verdict.state
        if verdict.anomalous:
            self._add(verdict, state, found_out, explain)
        running = self.running
        if running is None:
            return
        if found_out and not running.changing:
            running.changing = verdict.alarm = True
        elif self._is_over(running, state):
            self._end(running)

    def take_news(self) -> list[News]:
        """Gives what is new since this was last asked, oldest first."""
        news = list(self._news)
        self._news.clear()
        return news

    def _add(self, verdict: Verdict, state: str, found_out: bool, explain: Explain) -> None:
        mark = Mark(self.row, self.row if verdict.time is None else verdict.time, verdict)
        raised = self._alarm.raised(mark)
        if self.running is not None:
            self.running.add(mark, explain)
        elif raised or found_out:
            self._begin(verdict, explain)
        running = self.running
        if running is None:
            return
        verdict.event = running.number
        if raised or (state == CHANGING and self._alarm.within(self.rule.calm)):
            running.confirm(mark)
        if verdict.alarm:
            self._news.append(News(OPENED, running.event()))

    def _begin(self, verdict: Verdict, explain: Explain) -> None:
        marks = [mark for mark in self._alarm.marks if self.row - mark.row < self.rule.calm]
        self.count += 1
        self.running = Running(self.count, marks[0].when, self.row, marks[-1].when)
        for mark in marks:
            self.running.add(mark, explain)
        self.running.confirm(marks[-1])
        verdict.alarm = True

    def _is_over(self, running: Running, state: str) -> bool:
        calm = self.rule.calm * (_LASTING if state == CHANGING else 1)
        since = self.row - self._alarm.marks[-1].row
        return self.row - running.last >= calm and since >= self.rule.n

    def end(self) -> None:
        """Ends the open event, if there is one: somebody said that its rows are normal."""
        if self.running is not None:
            self._end(self.running)

    def _end(self, running: Running) -> None:
        event = running.event(running.last_at)
        self._closed.append(event)
        self._news.append(News(ENDED, event))
        self.running = None

    # On disk

    @property
    def fields(self) -> dict[str, Any]:
        """All that it knows, as JSON holds it, and nothing before the first row."""
        if not self.row:
            return {}
        known = {
            "row": self.row,
            "count": self.count,
            "marks": [[mark.row, mark.when] for mark in self._alarm.marks],
            "open": None if self.running is None else asdict(self.running),
            "closed": [asdict(event) for event in self._closed],
        }
        return {"events": known}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Goes on from ``fields``; before there was a row there is nothing in them."""
        known = fields.get("events")
        if known is None:
            return
        self.row, self.count = (require_whole(name, known[name], 0) for name in ("row", "count"))
        for row, when in known["marks"]:
            require_numbers({"when": when})
            self._alarm.marks.append(Mark(require_whole("row", row, 1), when))
        self.running = None if known["open"] is None else _running(known["open"])
        self._closed.extend(map(event_from, known["closed"]))
        numbers = [event.number for event in (*self._closed, self.running) if event is not None]
        if max(numbers, default=0) > self.count or any(
            mark.row > self.row for mark in self._alarm.marks
        ):
            raise BadInput("events: one of them, or a strange row, is not among those counted")


def _running(fields: Mapping[str, Any]) -> Running:
    strongest = list[Strong]()
    for score, threshold, when, causes in fields["strongest"]:
        require_numbers({"score": score, "threshold": threshold, "when": when})
        strongest.append(Strong(score, threshold, when, causes_from(causes)))
    require_numbers(fields)
    return Running(**{**fields, "strongest": strongest})
