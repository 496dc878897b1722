"""Events: strange rows that belong together, from the alarm that opens one to its end."""

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from elmgrove.detector.alarm import Alarm, AlarmRule, Mark
from elmgrove.detector.news import (
    ENDED,
    OPENED,
    WORSENED,
    Event,
    News,
    event_from,
    news_from,
    require_numbers,
)
from elmgrove.detector.progress import CHANGING
from elmgrove.detector.running import Explain, Running, running_from
from elmgrove.detector.verdict import Verdict
from elmgrove.errors import BadInput, require_whole

#: Events that ended and are remembered.
CLOSED = 20

# While what is normal is changing, it takes so many cool-downs until all is over.
_LASTING = 4


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

    While it is open it is told again where k of the last n rows are all far stronger than the peak
    that was last told: a slight fault that lasts is not to hide a large one.

    A normal row costs nothing unless an event is open.
    """

    def __init__(self, rule: AlarmRule) -> None:
        self._alarm = Alarm(rule)
        #: Rows observed up to now, and learned.
        self.row = self.learned = 0
        #: Events up to now, and the open one.
        self.count = 0
        self.running: Running | None = None
        #: Rows learned before the last event that ended, and up to its end.
        self.last_learned = (0, 0)
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
        when = self.row if verdict.time is None else verdict.time
        mark = Mark(self.row, when, verdict, self.learned)
        raised = self._alarm.raised(mark)
        if self.running is not None:
            self.running.add(mark, explain)
        elif raised or found_out:
            self._begin(verdict, explain)
        running = self.running
        if running is None:
            return
        if raised or found_out or (state == CHANGING and self._alarm.within(self.rule.calm)):
            running.confirm(mark)
            verdict.event = running.number
        if verdict.alarm:
            self._news.append(News(OPENED, running.tell()))
        elif raised and running.is_worse(self._alarm.marks):
            self._news.append(News(WORSENED, running.tell_worse()))

    def _begin(self, verdict: Verdict, explain: Explain) -> None:
        marks = [mark for mark in self._alarm.marks if self.row - mark.row < self.rule.calm]
        self.count += 1
        self.running = Running(self.count, marks[0].when, self.row, marks[-1].when)
        self.running.after = marks[0].learned
        for mark in marks:
            self.running.add(mark, explain)
        self.running.confirm(marks[-1])
        verdict.alarm = True

    def _is_over(self, running: Running, state: str) -> bool:
        calm = self.rule.calm * (_LASTING if state == CHANGING else 1)
        since = self.row - self._alarm.marks[-1].row
        return self.row - running.last >= calm and since >= self.rule.n

    def end(self) -> None:
        """Ends the open event, if there is one: somebody said that strange rows are normal.

        So they count for no alarm any more, either.
        """
        self._alarm.marks.clear()
        if self.running is not None:
            self._end(self.running)

    def reopen(self, running: Running) -> None:
        """Opens the last event again, which somebody had ended: that was undone."""
        self._closed.pop()
        running.last = self.row
        self.running = running
        self._news.append(News(OPENED, running.tell()))

    def answer(self, number: int, answered: str) -> None:
        """Notes what somebody said of an event, or with '' that nobody has."""
        if self.running is not None and self.running.number == number:
            self.running.answered = answered
        self._closed = deque(
            (
                replace(event, answered=answered) if event.number == number else event
                for event in self._closed
            ),
            maxlen=CLOSED,
        )

    def _end(self, running: Running) -> None:
        event = running.event(running.last_at)
        self.last_learned = (running.after, running.until)
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
            "marks": [
                [mark.row, mark.when, *([mark.learned] if mark.learned else [])]
                for mark in self._alarm.marks
            ],
            "open": None if self.running is None else _written(self.running),
            "closed": [_written(event) for event in self._closed],
        }
        if any(self.last_learned):
            known["last_learned"] = list(self.last_learned)
        if self._news:
            known["news"] = [[news.kind, _written(news.event)] for news in self._news]
        return {"events": known}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Goes on from ``fields``; before there was a row there is nothing in them."""
        known = fields.get("events")
        if known is None:
            return
        self.row, self.count = (require_whole(name, known[name], 0) for name in ("row", "count"))
        for row, when, *learned in known["marks"]:
            require_numbers({"when": when})
            number = require_whole("learned", learned[0], 1) if learned else 0
            self._alarm.marks.append(Mark(require_whole("row", row, 1), when, None, number))
        after, until = known.get("last_learned", (0, 0))
        after = require_whole("last_learned", after, 0)
        self.last_learned = (after, require_whole("last_learned", until, after))
        self.running = None if known["open"] is None else running_from(known["open"])
        self._closed.extend(map(event_from, known["closed"]))
        self._news.extend(news_from(*told) for told in known.get("news", ()))
        numbers = [event.number for event in (*self._closed, self.running) if event is not None]
        if max(numbers, default=0) > self.count or any(
            mark.row > self.row for mark in self._alarm.marks
        ):
            raise BadInput("events: one of them, or a strange row, is not among those counted")


def _written(event: Event | Running) -> dict[str, Any]:
    """An event as JSON holds it, without what is not known of it."""
    known = asdict(event)
    return {
        name: value
        for name, value in known.items()
        if value or name not in ("after", "until", "answered")
    }
