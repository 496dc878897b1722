"""Events: anomalous rows that belong together, from the alarm that opens one to its end."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, NamedTuple

from elmgrove.detector.decision import CHANGING
from elmgrove.detector.serialization import Count
from elmgrove.detector.verdict import Cause, Verdict
from elmgrove.errors import BadInput, require_whole
from elmgrove.reading.times import When, json_when, when_text

#: The most rows that an alarm looks back at, or is calm after.
MOST_ROWS = 1_000_000_000


@dataclass(frozen=True)
class AlarmRule:
    """An alarm when ``k`` of the last ``n`` rows were anomalous, and calm after ``cooldown`` rows.

    The default is what a person would choose: a row or two that are odd tell nobody, three of five
    do, and what comes back within 60 rows is still the same event. With a window, rows are inputs,
    and one row that is far off can make as many of them anomalous: that is an alarm, too.
    """

    k: int = 3
    n: int = 5
    cooldown: int = 60

    def __post_init__(self) -> None:
        for name, least in (("k", 1), ("n", 1), ("cooldown", 0)):
            object.__setattr__(
                self, name, require_whole(f"the alarm's {name}", getattr(self, name), least)
            )
            if getattr(self, name) > MOST_ROWS:
                raise BadInput(f"the alarm's {name} must be at most {MOST_ROWS:,} rows")
        if self.k > self.n:
            raise BadInput(f"an alarm needs 1 ≤ k ≤ n, not k = {self.k} and n = {self.n}")

    @classmethod
    def parsed(cls, text: str) -> "AlarmRule":
        """Reads a rule as people write it.

        >>> AlarmRule.parsed("2/4")
        AlarmRule(k=2, n=4, cooldown=60)
        """
        parts = text.split("/")
        if len(parts) not in (2, 3) or not all(part.isdecimal() for part in parts):
            raise BadInput(f"alarm: K/N or K/N/COOLDOWN, like 3/5 or 3/5/60, not {text!r}")
        return cls(*map(int, parts))

    @property
    def calm(self) -> int:
        """The rows without another alarm after which all is normal again: never less than n."""
        return max(self.cooldown, self.n)


class Hit(NamedTuple):
    """An anomalous row: its number, when it was, and how many rows had been learned by then."""

    row: Count
    when: When
    learned: Count = 0


class Alarm:
    """Applies k of n to a stream, of which it is told the anomalous rows alone.

    >>> alarm = Alarm(AlarmRule(k=2, n=3))
    >>> [alarm.raised(Hit(row, row)) for row in (1, 4, 6, 7)]
    [False, False, True, True]
    >>> alarm.first.row
    6
    """

    #: The last k anomalous rows.
    marks: list[Hit]

    def __init__(self, rule: AlarmRule) -> None:
        self.rule, self.marks = rule, []

    def raised(self, mark: Hit) -> bool:
        """Takes the next anomalous row in, and says whether k of the last n rows were anomalous."""
        self.marks = [*self.marks, mark][-self.rule.k :]
        return self.within(self.rule.n)

    def within(self, rows: int) -> bool:
        """Says whether k of so many rows were anomalous, up to the last anomalous one."""
        marks = self.marks
        return len(marks) == self.rule.k and marks[-1].row - marks[0].row < rows

    @property
    def first(self) -> Hit:
        return self.marks[0]


#: Causes of an event that its text names, and devices at which its rows are normal.
TOLD = 3
#: What is told of an event: that it began,
OPENED: Final = "opened"
#: that it is far more anomalous than was said before,
WORSENED: Final = "worse"
#: or that it is over.
ENDED: Final = "ended"


@dataclass(frozen=True)
class Event:
    """Anomalous rows that belong together, as they are known by now.

    ``begin``, ``end`` (None while it is open) and ``peak_at`` are times (seconds since 1970, UTC),
    or as whole numbers those of rows, where no time was told. ``peak`` is the highest score, and
    ``threshold`` what it was compared with; ``rows`` counts anomalous rows. ``causes`` are those of
    the strongest rows: the mean share of each feature, with what the peak shows and what was
    expected there. ``changing`` says that it lasted, and may be a new normal; ``answered`` what
    somebody said it was. ``known`` names others at whom most of its rows would have been
    normal.

    >>> flow = Cause("flow", 0.9, 22.0, 31.0)
    >>> print(Event(3, 17, 52, 8.1, 21, 1.0, 31, (flow,), known=("pump-3",)))
    event 3: row 17 to row 52, 31 rows anomalous, peak 8.1 × threshold, normal at pump-3; flow 22 \
(not 31)
    """

    number: Count
    begin: When
    end: When | None
    peak: float
    peak_at: When
    threshold: float
    rows: Count
    causes: tuple[Cause, ...]
    changing: bool = False
    answered: str = ""
    known: tuple[str, ...] = ()

    def __str__(self) -> str:
        since = "since " if self.end is None else ""
        answered = f"; answered: {self.answered}" if self.answered else ""
        return f"event {self.number}: {since}{self.span}, {self.facts}{answered}"

    @property
    def span(self) -> str:
        """When it was, in words; while it is open, when it began."""
        begin = when_text(self.begin)
        return begin if self.end is None else f"{begin} to {when_text(self.end)}"

    @property
    def facts(self) -> str:
        """How many rows, how far off, where else that is normal, and because of what, in words."""
        rows = f"{self.rows} row{'s' if self.rows != 1 else ''} anomalous"
        peak = f", peak {self.peak / self.threshold:.3g} × threshold" if self.threshold else ""
        reasons = ", ".join(map(str, self.causes[:TOLD]))
        told = [f"{rows}{peak}", normal_at(self.known)]
        return ", ".join(filter(None, told)) + (f"; {reasons}" if reasons else "")

    @property
    def fields(self) -> dict[str, Any]:
        """What there is to tell, as JSON holds it; times in ISO 8601, or numbers of rows."""
        return {
            "number": self.number,
            "begin": json_when(self.begin),
            "end": None if self.end is None else json_when(self.end),
            "peak": self.peak,
            "peak_at": json_when(self.peak_at),
            "threshold": self.threshold,
            "rows": self.rows,
            "changing": self.changing,
            "answered": self.answered or None,
            "known": list(self.known),
            "causes": [cause.fields for cause in self.causes],
        }


def normal_at(names: Sequence[str]) -> str:
    """Says at whom rows would have been normal; nothing where they would have been at nobody.

    >>> normal_at(["pump-3"]), normal_at(["a", "b", "c", "d", "e"])
    ('normal at pump-3', 'normal at a, b, c and 2 more')
    """
    more = f" and {len(names) - TOLD} more" if len(names) > TOLD else ""
    return f"normal at {', '.join(names[:TOLD])}{more}" if names else ""


class EventUpdate(NamedTuple):
    """What is new: an event ``opened``, is ``worse`` or ``ended``."""

    kind: Literal["opened", "worse", "ended"]
    event: Event

    def __str__(self) -> str:
        event = self.event
        if self.kind == OPENED:
            return f"event {event.number} opened at {event.span}: {event.facts}"
        if self.kind == WORSENED:
            return f"event {event.number} is worse: since {event.span}, {event.facts}"
        return f"event {event.number} ended: {event.span}, {event.facts}"


#: The strongest rows of an event, whose causes are the event's.
STRONGEST = 8


class TopRow(NamedTuple):
    """A row that is among the strongest of its event."""

    score: float
    threshold: float
    when: When
    causes: tuple[Cause, ...]


@dataclass
class OpenEvent:
    """The event that is open, as it grows."""

    number: Count
    begin: When
    #: The last row at which there was an alarm's worth of anomalous rows.
    last: Count
    last_at: When
    rows: Count = 0
    #: Anomalous rows since then, and the strongest of them: they count once there is another.
    loose: Count = 0
    strong: list[TopRow] = field(default_factory=list)
    changing: bool = False
    strongest: list[TopRow] = field(default_factory=list)
    #: The peak that was last told, and the score that a row must exceed to be one of the strongest:
    #: 0, or, once it got worse, that by which it did.
    told: float = 0.0
    floor: float = 0.0
    #: Rows learned before it began, and up to the last row that prolonged it.
    after: Count = 0
    until: Count = 0
    #: What somebody said it was, and who and when; '' as long as nobody has.
    answered: str = ""
    #: For each other device, at how many of the rows it would have been normal.
    known: dict[str, Count] = field(default_factory=dict)

    def add(self, when: When, verdict: Verdict | None) -> None:
        """Counts an anomalous row, and explains it if it is among the strongest."""
        self.loose += 1
        if verdict is None:
            return
        for name in verdict.known:
            if name in self.known or len(self.known) < 20:
                self.known[name] = self.known.get(name, 0) + 1
        score = _number(verdict.score)
        if score <= self.floor or (
            len(self.strongest) == STRONGEST and score <= self.strongest[-1].score
        ):
            return
        if len(self.strong) == STRONGEST and score <= self.strong[-1].score:
            return
        strong = TopRow(score, verdict.threshold, when, tuple(verdict.explain(8)))
        self.strong = _strongest([*self.strong, strong])

    def confirm(self, mark: Hit) -> None:
        """Takes the anomalous rows up to this one as part of the event."""
        self.rows, self.loose = self.rows + self.loose, 0
        if self.strong:
            self.strongest, self.strong = _strongest([*self.strongest, *self.strong]), []
        self.last, self.last_at, self.until = mark.row, mark.when, mark.learned

    def tell(self) -> Event:
        """Gives the event to tell somebody, who knows its peak from then on."""
        event = self.event()
        self.told = event.peak
        return event

    def tell_worse(self) -> Event:
        """Gives the event to tell again, as the rows show it by which it is worse."""
        self.floor = 4.0 * self.told
        self.strongest = [strong for strong in self.strongest if strong.score > self.floor]
        return self.tell()

    def event(self, end: When | None = None) -> Event:
        peak = self.strongest[0] if self.strongest else TopRow(0.0, 0.0, self.begin, ())
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
            self.answered,
            self._known(),
        )

    def _known(self) -> tuple[str, ...]:
        """Those at whom more than half of the rows would have been normal, most rows first."""
        half = (self.rows + self.loose) / 2
        order = sorted(self.known, key=lambda name: -self.known[name])
        return tuple(name for name in order if self.known[name] > half)

    def _causes(self) -> tuple[Cause, ...]:
        shares, seen = dict[str, float](), dict[str, Cause]()
        for strong in self.strongest:
            for cause in strong.causes:
                shares[cause.feature] = shares.get(cause.feature, 0.0) + cause.share
                # That of the strongest row which has it.
                seen.setdefault(cause.feature, cause)
        order = sorted(shares, key=lambda feature: -shares[feature])
        # What each sensor has to do with a row overlaps: together it is the whole at most.
        whole = max(float(len(self.strongest)), sum(shares.values()))
        return tuple(seen[name]._replace(share=shares[name] / whole) for name in order[:8])


def _number(score: float) -> float:
    """A score as JSON holds it, which knows no infinity; one that is no number is the largest."""
    return score if score < sys.float_info.max else sys.float_info.max


def _strongest(strong: list[TopRow]) -> list[TopRow]:
    return sorted(strong, key=lambda one: -one.score)[:STRONGEST]


#: Events that ended and are remembered.
CLOSED = 20


class Events:
    """Gathers anomalous rows to events: an alarm opens one, and no other while it is open.

    It begins with the first of the k anomalous rows. A row at which k of the last n were anomalous
    prolongs it. It ends with the last such row, when the cool-down has gone by without another, and
    n rows without an anomalous one: what comes back sooner is the same event, and no second alarm.

    When what is normal is ``changing``, an event opens if there is none (anomalous rows may be many
    and never k of n). From then on k anomalous rows within the cool-down prolong it, and it takes
    four times the cool-down to end.

    It is told again where k of the last n rows are all far stronger than the peak that was last
    told: a slight fault that lasts is not to hide a large one.
    """

    _alarm: Alarm
    #: Rows observed up to now.
    row: Count
    #: Events up to now, and the open one.
    count: Count
    running: OpenEvent | None
    #: Rows learned before the last event that ended, and up to its end.
    last_learned: tuple[Count, Count]
    #: The last events that ended, newest last.
    closed: tuple[Event, ...]
    #: What nobody has taken yet, oldest first.
    news: list[EventUpdate]

    def __init__(self, rule: AlarmRule) -> None:
        self._alarm = Alarm(rule)
        self.row = self.count = 0
        self.running, self.last_learned, self.closed = None, (0, 0), ()
        self.news = []
        #: Rows learned up to now.
        self.learned = 0
        # The verdicts on the last anomalous rows; none from before a restart.
        self._verdicts = dict[int, Verdict]()

    @property
    def rule(self) -> AlarmRule:
        """The rule by which events open and end; another holds from the next row on."""
        return self._alarm.rule

    @rule.setter
    def rule(self, rule: AlarmRule) -> None:
        self._alarm.rule = rule
        self._alarm.marks = self._alarm.marks[-rule.k :]

    @property
    def open(self) -> Event | None:
        return None if self.running is None else self.running.event()

    def follow(self, verdict: Verdict, state: str) -> None:
        """Takes in an anomalous row, or any while an event is open; tells the verdict its event.

        ``state`` is the detector's after the row.
        """
        found_out = state == CHANGING != verdict.state
        if verdict.anomalous:
            self._add(verdict, state, found_out)
        running = self.running
        if running is None:
            return
        if found_out and not running.changing:
            running.changing = verdict.alarm = True
        elif self._is_over(running, state):
            self._end(running)

    def take_updates(self) -> list[EventUpdate]:
        news, self.news = self.news, []
        return news

    def _tell(self, kind: Literal["opened", "worse", "ended"], event: Event) -> None:
        self.news = [*self.news, EventUpdate(kind, event)][-CLOSED:]

    def _add(self, verdict: Verdict, state: str, found_out: bool) -> None:
        when = self.row if verdict.time is None else verdict.time
        mark = Hit(self.row, when, self.learned)
        raised, marks = self._alarm.raised(mark), self._alarm.marks
        self._verdicts[self.row] = verdict
        self._verdicts = {
            row: known for row, known in self._verdicts.items() if row >= marks[0].row
        }
        if self.running is not None:
            self.running.add(when, verdict)
        elif raised or found_out:
            self._begin(verdict)
        running = self.running
        if running is None:
            return
        if raised or found_out or (state == CHANGING and self._alarm.within(self.rule.calm)):
            running.confirm(mark)
            verdict.event = running.number
        if verdict.alarm:
            self._tell(OPENED, running.tell())
        elif raised:
            verdicts = [self._verdicts.get(one.row) for one in marks]
            if all(one and _number(one.score) > 4.0 * running.told for one in verdicts):
                self._tell(WORSENED, running.tell_worse())

    def _begin(self, verdict: Verdict) -> None:
        marks = [mark for mark in self._alarm.marks if self.row - mark.row < self.rule.calm]
        self.count += 1
        self.running = OpenEvent(self.count, marks[0].when, self.row, marks[-1].when)
        self.running.after = marks[0].learned
        for mark in marks:
            self.running.add(mark.when, self._verdicts.get(mark.row))
        self.running.confirm(marks[-1])
        verdict.alarm = True

    def _is_over(self, running: OpenEvent, state: str) -> bool:
        calm = self.rule.calm * (4 if state == CHANGING else 1)
        # An answer forgets the last anomalous rows, and undoing it opens the event without them.
        marks = self._alarm.marks
        since = self.row - (marks[-1].row if marks else running.last)
        return self.row - running.last >= calm and since >= self.rule.n

    def end(self) -> None:
        """Ends the open event, if there is one: somebody said that anomalous rows are normal.

        So they count for no alarm any more, either.
        """
        self._alarm.marks.clear()
        if self.running is not None:
            self._end(self.running)

    def reopen(self, running: OpenEvent) -> None:
        """Opens the last event again, which somebody had ended: that was undone."""
        self.closed = self.closed[:-1]
        running.last = self.row
        self.running = running
        self._tell(OPENED, running.tell())

    def answer(self, number: int, answered: str) -> None:
        """Notes what somebody said of an event, or with '' that nobody has."""
        if self.running is not None and self.running.number == number:
            self.running.answered = answered
        self.closed = tuple(
            replace(event, answered=answered) if event.number == number else event
            for event in self.closed
        )

    def _end(self, running: OpenEvent) -> None:
        event = running.event(running.last_at)
        self.last_learned = (running.after, running.until)
        self.closed = (*self.closed, event)[-CLOSED:]
        self._tell(ENDED, event)
        self.running = None

    def complete(self) -> None:
        numbers = [event.number for event in (*self.closed, self.running) if event is not None]
        marks = self._alarm.marks
        if (
            max(numbers, default=0) > self.count
            or any(mark.row > self.row for mark in marks)
            or len(marks) > self.rule.k
            or max(len(self.closed), len(self.news)) > CLOSED
            or self.last_learned[0] > self.last_learned[1]
        ):
            raise BadInput("events: one of them, or an anomalous row, is not among those counted")
