"""Feedback: somebody accepts or rejects anomalous rows, and can undo it."""

import math
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from elmgrove.algebra.rows import Array
from elmgrove.detector.events import Event, OpenEvent
from elmgrove.detector.history import (
    Bucket,
    Span,
    TakenOut,
    give_back,
    settle,
    take_out,
    take_out_learned,
)
from elmgrove.detector.inputs import Preparation
from elmgrove.detector.quarantine import Waiting
from elmgrove.detector.serialization import Count, restore, snapshot
from elmgrove.detector.verdict import causes_of
from elmgrove.errors import BadInput
from elmgrove.reading.times import format_time

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector


ACCEPT: Final = "accept"
REJECT: Final = "reject"
UNDO: Final = "undo"

_WORDS = {ACCEPT: "fine", REJECT: "a fault"}


@dataclass(frozen=True)
class Answer:
    """What somebody said: ``by`` whom, ``at`` what time (seconds since 1970), and what came of it.

    ``rows`` waited or were given and were learned or dropped, ``taken`` were learned before and
    taken out; of an undo ``rows`` wait again, and ``taken`` are the rows that were put back or, of
    an accept, taken out. ``event`` is the number of the event that it was about, if there was one;
    ``undone`` is the action that was undone.
    """

    action: Literal["accept", "reject", "undo"]
    by: str
    at: float | None
    rows: Count
    taken: Count
    event: int | None = None
    undone: Literal["accept", "reject"] | None = None

    @property
    def said(self) -> str:
        """What it was said to be, and who said so and when."""
        when = "" if self.at is None else f"{format_time(self.at)[:16]} UTC"
        who = ", ".join(filter(None, [self.by, when]))
        what = _WORDS.get(self.action, "undone")
        return f"{what} ({who})" if who else what

    def __str__(self) -> str:
        about = "" if self.event is None else f"event {self.event}: "
        if self.action == UNDO:
            what = "" if self.undone is None else f", before: {_WORDS[self.undone]}"
            return f"{about}{self.said}{what}; {self.rows:,} rows wait again"
        done = "learned" if self.action == ACCEPT else "dropped"
        return f"{about}{self.said}; {self.rows:,} rows {done}, {self.taken:,} taken out"


@dataclass
class Undoable:
    """How things were before the last answer, as far as that can't be found out otherwise.

    ``learned`` and ``until`` count the rows learned before and after it; ``out`` was taken out, and
    ``waiting`` are the rows that waited, as a quarantine. ``recent``, ``progress`` and ``drift``
    (None where nothing had changed) are snapshots; ``running`` is the event that was open, and
    ``answered`` what had been said of the event.
    """

    learned: Count
    until: Count
    recent: dict[str, Any]
    progress: dict[str, Any]
    drift: dict[str, Any] | None
    running: OpenEvent | None
    rejected: bool
    waiting: dict[str, Any]
    out: tuple[Bucket, ...] = ()
    answered: str = ""

    @classmethod
    def before(cls, detector: "Detector") -> "Undoable":
        gate, drift, none = detector.gate, detector.drift, detector.quarantine.like([])
        return cls(
            detector.learned,
            detector.learned,
            snapshot(gate.recent),
            snapshot(gate.progress),
            snapshot(drift) if drift.found else None,
            deepcopy(detector.events.running),
            detector.quarantine.rejected,
            snapshot(none),
        )

    @property
    def pins(self) -> tuple[int, ...]:
        """The numbers of learned rows around what was learned, and where something is missing."""
        ends = {self.learned, self.until}
        for one in self.out:
            # Where two follow each other, what is missing goes on.
            ends ^= {one.after, one.until}
        return tuple(sorted(ends | {self.learned, self.until}))


class Answers:
    """The last answers, newest last, and what undoes the last of them."""

    given: list[Answer]
    undoable: Undoable | None

    def __init__(self) -> None:
        self.given, self.undoable = [], None

    def add(self, answer: Answer) -> None:
        self.given = [*self.given, answer][-10:]

    def complete(self) -> None:
        if self.undoable is not None and not self.given:
            raise BadInput("what undoes an answer, and no answer")


def _known(number: float) -> float | None:
    return None if math.isnan(number) else number


# Errors that must be so many times as large as before to show are worth a word.
_BLUNT = 2.0


@dataclass(frozen=True)
class Feedback:
    """What came of an accept, a reject or an undo.

    ``rows`` waited or were given, and are learned or dropped now; after an undo they wait again.
    ``taken`` were learned before and taken out; ``exact`` says whether those are the rows that were
    meant, which is not so where only whole increments are known: they lasted from ``first`` to
    ``last``. ``put_back`` were taken out before an undo. ``event`` is the number of the event that
    it was about, and ``already`` what had been said of that before. ``blunter`` names the feature
    whose errors show least now, and how many times as large they must be as before; None if that
    is less than twice. ``raised`` is the threshold before, if it is less than half of what it is
    now.
    """

    action: str
    rows: int
    taken: int
    exact: bool
    first: float | None
    last: float | None
    state: str
    threshold: float | None
    blunter: tuple[str, float] | None = None
    raised: float | None = None
    event: int | None = None
    already: str = ""
    put_back: int = 0

    @property
    def fields(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        said = [self._of_rows]
        if self.put_back:
            said.append(_counted(self.put_back, "is learned again", "are learned again"))
        if self.taken and self.action == ACCEPT:
            words = ("was taken out", "were taken out", "learned before")
            said.append(f"all {_counted(self.taken, *words)}")
        elif self.taken:
            how = ", exactly"
            if not (self.exact or self.first is None or self.last is None):
                first, last = format_time(self.first), format_time(self.last)
                how = f" by whole increments, from {first} UTC to {last} UTC"
            said.append(_counted(self.taken, "was taken out", "were taken out", "learned") + how)
        elif self.action == REJECT:
            why = (
                ""
                if self.exact
                else (
                    ": what was learned since it began can't be told apart from what was learned "
                    "before (reject --from takes out whole hours)"
                )
            )
            said.append(f"nothing learned was taken out{why}")
        if self.already:
            before = f"event {self.event} was answered before: {self.already}"
            said.append(f"{before} (undo takes that back)")
        limit = "" if self.threshold is None else f", anomalous above {self.threshold:.3g}"
        limit += "" if self.raised is None else f" ({self.raised:.3g} before: smaller faults pass)"
        text = f"{'; '.join(said)}. Now {self.state}{limit}."
        if self.blunter is None:
            return text
        feature, times = self.blunter
        return (
            f"{text} One model of both normals: an error of {feature} must be {times:.1f} times as "
            "large as before to show. reject --to takes the old one out; accept --instead does so "
            "at once."
        )

    @property
    def _of_rows(self) -> str:
        if self.action == UNDO:
            return f"Undone: {_counted(self.rows, 'waits again', 'wait again')}"
        named = self.action == REJECT and self.event is not None and not self.already
        about = f"Event {self.event}: " if named else ""
        if not self.rows:
            return f"{about}no row waited" if named else "No row waited"
        done = "dropped, never to be learned"
        if self.action == ACCEPT:
            done = "learned as a new normal"
        return about + _counted(self.rows, f"was {done}", f"were {done}")


def accept(
    detector: "Detector",
    span: Span | None = None,
    *,
    event: int | None = None,
    rows: Any = None,
    times: Any = None,
    instead: bool = False,
    by: str = "",
    at: float | None = None,
) -> Feedback:
    """Learns rows that wait in quarantine as a new normal: all, or those of a span or an event.

    ``rows`` are learned in their place if they are given, as they were measured one after the other
    (at ``times``, if told). With ``instead`` the new normal takes the place of all that was learned
    before, which is taken out: one model of two normals that are far apart would hardly notice what
    lies between them (``PatternRule`` gives each its own). What was asked is answered: the event
    and the question are over. ``by`` says who answers, and ``at`` when.
    """
    meant, memory = _meant(detector, span, event), Undoable.before(detector)
    if rows is None:
        waiting = _release(detector, meant, span, event, Waiting.within)
        memory.waiting = snapshot(detector.quarantine.like(waiting))
    else:
        waiting = _given(detector, rows, times)
    residuals, threshold = _residuals(detector), detector.threshold
    taken = take_out_learned(detector, 0, detector.learned) if instead and waiting else TakenOut()
    memory.out, memory.until = taken.increments, detector.learned + len(waiting)
    if waiting:
        detector.increments.pins["answer"] = memory.pins
    # Without times nobody can say whether they were learned before, and were put back since.
    untimed = any(one.time is None for one in waiting)
    detector.adopt(waiting, by_hand=rows is not None or untimed)
    if waiting:
        detector.quarantine.rejected = False
        _note(detector, memory, ACCEPT, by, at, meant)
        if meant is None or meant.end is None or detector.events.running is None:
            # What was asked is answered: the event is over, and drift is from here on.
            detector.events.end()
            detector.drift.restart()
    told = _feedback(ACCEPT, detector, len(waiting), replace(taken, exact=True), meant)
    if 0.0 < _BLUNT * threshold <= detector.threshold < math.inf:
        told = replace(told, raised=threshold)
    return told if instead else replace(told, blunter=_blunter(detector, residuals))


def reject(
    detector: "Detector",
    span: Span | None = None,
    *,
    event: int | None = None,
    by: str = "",
    at: float | None = None,
) -> Feedback:
    """Says that rows were a fault: those that wait are dropped, and what was learned is taken out.

    Without a span or the number of an event that is all since the open event began, or since the
    change that is asked about; or where none is open, what was learned in the last event, unless
    somebody has said before what it was. The question is closed for good; the event stays open
    until rows are normal again.
    """
    meant, memory = _meant(detector, span, event), Undoable.before(detector)
    report = detector.drift.report
    asked = report is not None and (
        span is None or (report.since is not None and span.holds(report.since))
    )
    taken = _taken(detector, meant, span)
    dropped = _release(detector, meant, span, event, Waiting.touches)
    told = _feedback(REJECT, detector, len(dropped), taken, meant)
    if dropped or taken.rows or asked or (meant is not None and not meant.answered):
        memory.out, memory.waiting = taken.increments, snapshot(detector.quarantine.like(dropped))
        detector.increments.pins["answer"] = memory.pins
        _note(detector, memory, REJECT, by, at, meant)
    if dropped:
        detector.quarantine.rejected = True
    if asked:
        detector.drift.answered = True
    return told


def undo(detector: "Detector", *, by: str = "", at: float | None = None) -> Feedback:
    """Undoes the last accept or reject, however much was learned since.

    What was taken out is in the sums again, what was learned by it is taken out, rows wait again,
    and its event and question are open again, unless there was another event since.
    """
    memory = detector.answers.undoable
    if memory is None:
        raise BadInput("there is no answer to undo: the last accept or reject can be undone, once")
    last, events, gate = detector.answers.given[-1], detector.events, detector.gate
    gone, put_back = memory.until - memory.learned, sum(one.rows for one in memory.out)
    if gone or put_back:
        factor = give_back(detector, memory.out, memory.learned, memory.until)
        learned = memory.learned, memory.until, detector.learned
        gate.recent.go_back(memory.recent, learned, factor)
        settle(detector)
    restore(held := detector.quarantine.like([]), memory.waiting)
    detector.quarantine.put_back(held.waiting)
    detector.quarantine.rejected = memory.rejected
    if last.event is not None:
        events.answer(last.event, memory.answered)
    if last.action == REJECT:
        detector.drift.answered = False
    elif events.running is None and (last.event is None or last.event == events.count):
        if memory.running is not None:
            events.reopen(memory.running)
        restore(gate.progress, memory.progress)
        if memory.drift is not None:
            restore(detector.drift, memory.drift)
    undone: Any = last.action
    answer = Answer(UNDO, by, at, len(held), gone or put_back, last.event, undone)
    detector.answers.add(answer)
    detector.forget_undo()
    told = _feedback(UNDO, detector, answer.rows, TakenOut(gone), None)
    return replace(told, event=last.event, put_back=put_back)


def _note(
    detector: "Detector",
    memory: Undoable,
    action: Literal["accept", "reject"],
    by: str,
    at: float | None,
    meant: Event | None,
) -> None:
    """Notes who answered what, and lets it be what can be undone."""
    if meant is not None and meant.end is not None and meant.answered:
        # What waits now came after it.
        meant = None
    taken = sum(one.rows for one in memory.out)
    rows = len(memory.waiting["rows"]) or memory.until - memory.learned
    answer = Answer(action, by, at, rows, taken, None if meant is None else meant.number)
    if meant is not None:
        memory.answered = meant.answered
        detector.events.answer(meant.number, answer.said)
    detector.answers.add(answer)
    detector.answers.undoable = memory


def _meant(detector: "Detector", span: Span | None, number: int | None) -> Event | None:
    """The event that an answer is about: that of a number, one that began in a span, or the last.

    Where nothing is named that is the open one, or the last that ended if nobody has answered it.
    """
    events = detector.events
    known = [*events.closed, *filter(None, [events.open])]
    if number is not None:
        if span is not None:
            raise BadInput("an event, or from and to: name what is meant in one way")
        found = [one for one in known if one.number == number]
        if not found:
            raise BadInput(f"there is no event {number}, or it is too long ago: name from and to")
        return found[-1]
    if span is not None:
        begun = [one for one in known if isinstance(one.begin, float) and span.holds(one.begin)]
        return begun[-1] if begun else None
    return known[-1] if known else None


def _release(
    detector: "Detector",
    meant: Event | None,
    span: Span | None,
    number: int | None,
    wanted: Callable[[Waiting, Span | None], bool],
) -> list[Waiting]:
    """Takes those rows out of quarantine that are meant."""
    if number is not None and meant is not None and isinstance(meant.begin, float):
        span = _span_of(meant)
    return detector.quarantine.release(
        lambda one: wanted(one, span) or (number is not None and one.time is None)
    )


def _span_of(event: Event) -> Span:
    assert isinstance(event.begin, float)
    # A span ends before its end: so the last row is in it.
    return Span(event.begin, math.inf if event.end is None else event.end + 0.001)


def _taken(detector: "Detector", meant: Event | None, span: Span | None) -> TakenOut:
    """Takes out what was learned in a span, in an event, or since what is asked about."""
    events, watch = detector.events, detector.drift
    if span is not None:
        return take_out(detector, span)
    if meant is not None and meant.end is None and events.running is not None:
        return take_out_learned(detector, events.running.after, detector.learned)
    report = watch.report
    if report is not None:
        if report.since is not None:
            return take_out(detector, Span(report.since))
        learned = report.rows - round(report.anomalous * report.rows)
        return take_out_learned(detector, detector.learned - learned, detector.learned)
    if meant is None or meant.answered:
        return TakenOut()
    if meant.number == events.closed[-1].number:
        return take_out_learned(detector, *events.last_learned)
    if isinstance(meant.begin, int):
        raise BadInput(f"what was learned in event {meant.number} is not known any more")
    return take_out(detector, _span_of(meant))


def listed(detector: "Detector", causes: int = 3, last: int | None = None) -> list[dict[str, Any]]:
    """Lists what waits in quarantine, oldest first, each with what explains it, as JSON holds it.

    Time and score are as they were; causes are those that the model would find now. Only the
    ``last`` ones if a number is given: to explain each takes a while.
    """
    waiting = detector.quarantine.waiting
    return [
        {
            "time": row.time,
            "score": row.score,
            "causes": [one.fields for one in causes_of(detector.model, row.row, causes)],
        }
        for row in (waiting if last is None else waiting[-last:])
    ]


def _given(detector: "Detector", rows: Any, times: Any) -> list[Waiting]:
    """Rows of a stretch by itself, as inputs like those that wait."""
    preparation = Preparation(detector.basis)
    X, when = preparation.next_many(rows, times)
    periods = preparation.last_rows.periods(X, when)
    inputs = preparation.last_rows.add_many(X, when)
    return [
        Waiting(_known(time), None, x, _known(since))
        for x, (since, time) in zip(inputs, periods.tolist(), strict=True)
    ]


def _residuals(detector: "Detector") -> Array | None:
    """What the others leave open of each column of the newest row; None if there is no saying."""
    basis, model = detector.basis, detector.model
    if basis.score == "loss" or detector.patterns is not None or not model.evidence.count:
        return None
    distance = model.explainer(np.zeros(basis.inputs))
    residuals: Array = distance.residual[-basis.layer.inputs :]
    return residuals


def _blunter(detector: "Detector", before: Array | None) -> tuple[str, float] | None:
    after = _residuals(detector)
    if before is None or after is None:
        return None
    times = after / np.maximum(before, np.finfo(float).tiny)
    worst = int(times.argmax())
    return (detector.basis.names[worst], float(times[worst])) if times[worst] >= _BLUNT else None


def _feedback(
    action: str, detector: "Detector", rows: int, taken: TakenOut, meant: Event | None
) -> Feedback:
    threshold = detector.threshold
    return Feedback(
        action,
        rows,
        taken.rows,
        taken.exact,
        _known(taken.first),
        _known(taken.last),
        detector.state,
        threshold if threshold < math.inf else None,
        event=None if meant is None else meant.number,
        already="" if meant is None else meant.answered,
    )


def _counted(rows: int, one: str, many: str, which: str = "") -> str:
    named = f"{rows:,} row{'s' * (rows != 1)} {which}".rstrip()
    return f"{named} {one if rows == 1 else many}"
