"""Replays a detector over a table: its verdict on each row, and the events in it."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elmgrove.algebra.distance import Distance
from elmgrove.algebra.rows import Array
from elmgrove.detector.events import Alarm, AlarmRule, Hit
from elmgrove.detector.model import Model
from elmgrove.detector.verdict import Cause, causes_of, explained
from elmgrove.errors import BadInput
from elmgrove.reading.times import when_text

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector


class ScoredRows:
    """The rows of a file, scored without being learned, some at a time.

    ``gaps`` are the places of rows that do not follow the one before. Where rows are samples, there
    is a place for each whole frame. A place is ``whole`` where its row completes a window: the
    others are scored by the rows that there are, and not judged.
    """

    def __init__(
        self,
        detector: "Detector",
        rows: Any,
        gaps: Iterable[int] = (),
        track: Callable[[Sequence[Any]], Iterable[Any]] = iter,
    ) -> None:
        self.basis = basis = detector.basis
        self._detector, self._given = detector, rows
        first, step = (
            basis.span(0, 1).stop - 1,
            1 if basis.spectrum is None else basis.spectrum.step,
        )
        #: Rows that follow each other, and the places of those, or of the frames in them.
        self.stretches = list[tuple[slice, slice]]()
        last, count = [np.empty(0, int)], 0
        for start, end in pairwise(sorted({0, *gaps, len(rows)})):
            last.append(np.arange(start + first, end, step))
            places = slice(count, count := count + len(last[-1]))
            self.stretches.append((slice(start, end), places))
        #: Where each stands in the file: the last of its samples, if it is a frame.
        self.last: Array = np.concatenate(last)
        self.scores: Array = np.empty(count)
        self.whole: Array = np.ones(count, bool)
        #: The places that do not follow the one before.
        self.gaps = sorted({places.start for _, places in self.stretches} - {0, count})
        self._score(track)

    def _score(self, track: Callable[[Sequence[Any]], Iterable[Any]]) -> None:
        before, size = self.basis.window - 1, 1 << 16
        blocks = [
            (given, places, start)
            for given, places in self.stretches
            for start in range(places.start, places.stop, size)
        ]
        for given, places, start in track(blocks):
            end = min(start + size, places.stop)
            # The rows before that windows of this block need.
            lead = min(start - places.start, before)
            rows = self._rows(given, start - places.start - lead, end - places.start)
            self.scores[start:end] = self._detector.score_many(rows)[lead:]
            if start == places.start:
                self.whole[start : min(start + before, end)] = False

    def _rows(self, given: slice, begin: int, end: int) -> Array:
        """The rows as given of some places of a stretch, counted from its begin."""
        span = self.basis.span(begin, end)
        rows: Array = self._given[given.start + span.start : given.start + span.stop]
        return rows

    def prepared(self, given: slice, begin: int, end: int) -> Array:
        """Some rows of a stretch, or the features of frames, as the model gets them."""
        return self._detector.preparation.many(self._rows(given, begin, end))

    @cached_property
    def rows(self) -> Array:
        """All rows, or the features of frames, as the model gets them."""
        every = [self._detector.preparation.many(self._given[given]) for given, _ in self.stretches]
        return np.concatenate([np.empty((0, self.basis.layer.inputs)), *every])

    def causes(self, place: int, k: int = 3) -> list[Cause]:
        """Finds what explains the score at a place."""
        return causes_of(self._detector.model, self._input(place), k)

    def known(self, place: int) -> tuple[str, ...]:
        """Names those elsewhere for whom the input at a place would have been normal."""
        if not self.whole[place]:
            return ()
        return self._detector.elsewhere.known(self._input(place), self._detector.gate.limit())

    def _input(self, place: int) -> Array:
        given, places = next(one for one in self.stretches if one[1].start <= place < one[1].stop)
        index = place - places.start
        return self.prepared(given, max(index - self.basis.window + 1, 0), index + 1).reshape(-1)

    def inputs(self, places: Array) -> Array:
        """Gives the inputs at places that are whole: windows of rows, side by side."""
        back = np.arange(self.basis.window - 1, -1, -1)
        side_by_side: Array = self.rows[places[:, np.newaxis] - back]
        return side_by_side.reshape(len(places), self.basis.inputs)

    def any_of(self, labels: Array) -> Array:
        """Gives the label of each place: that of its row, or of any sample of its frame."""
        if self.basis.spectrum is None:
            return labels[self.last]
        first = self.last - self.basis.spectrum.length + 1
        spans = zip(first.tolist(), self.last.tolist(), strict=True)
        return np.array([labels[a : b + 1].any() for a, b in spans], bool)


class Expected(NamedTuple):
    """What a sensor should have shown at some places, and how far it usually is from there.

    Both are NaN where nobody knows.
    """

    value: Array
    deviation: Array


class Sensors:
    """The sensors of a replay, by name: what a model explains of its inputs.

    ``last`` are the rows that inputs end with, as the model is given them; ``inputs`` gives the
    inputs at some places, and ``whole`` marks the places at which there is one.
    """

    def __init__(
        self, model: Model, last: Array, whole: Array, inputs: Callable[[Array], Array]
    ) -> None:
        self._model, self._basis = model, model.basis
        self._last, self._whole, self._inputs = last, whole, inputs

    def causes(self, places: Sequence[int]) -> list[list[Cause]]:
        """Finds what explains the inputs at these places; nothing where there is none."""
        columns = self._basis.layer.inputs
        return [
            causes_of(self._model, self._inputs(np.array([place]))[0], columns)
            if self._whole[place]
            else []
            for place in places
        ]

    def values(self, name: str) -> Array:
        column = self._basis.names.index(name)
        shift, scale = self._basis.scaling.units(column)
        return np.asarray(self._last[:, column], np.float64) * scale + shift

    def expected(self, name: str, places: Array) -> Expected:
        """Gives what a sensor should have shown, by all other sensors of the input."""
        basis, column = self._basis, self._basis.names.index(name)
        shift, scale = basis.scaling.units(column)
        block = column + basis.layer.inputs * np.arange(basis.window)
        value, deviation = np.full(len(places), np.nan), np.full(len(places), np.nan)
        there = np.flatnonzero(self._whole[places])
        X = self._inputs(places[there])
        for view, group in self._views(X):
            at = there[group]
            if isinstance(view, Distance):
                expected, usual = view.expected(X[group], block)
                value[at], deviation[at] = expected[:, -1] * scale + shift, usual[-1] * scale
                continue
            for place, x in zip(at, X[group], strict=True):
                causes = explained(basis, view, x, basis.inputs)
                [value[place]] = [c.expected for c in causes if c.feature == name and not c.ago]
        return Expected(value, deviation)

    def _views(self, X: Array) -> Iterable[tuple[object, list[int]]]:
        """What explains these inputs, each with the places of those that it explains."""
        found = {}
        groups = defaultdict(list)
        for place, x in enumerate(X):
            view = self._model.explainer(x)
            found[id(view)] = view
            groups[id(view)].append(place)
        return [(found[key], group) for key, group in groups.items()]


#: The axis of a replay whose rows have times.
TIME = "time (UTC)"


class Interval(NamedTuple):
    """The places of an event: its first row, the one with its alarm, and its last."""

    first: int
    alarm: int
    last: int


@dataclass(frozen=True)
class Replay:
    """Scores, thresholds and events of rows one after another, and the sensors behind them.

    ``where`` is the time of each row, in seconds since 1970 (UTC), if the ``axis`` is ``TIME``, and
    else its number. A threshold is infinite where there is none yet. ``gaps`` are the places of
    rows that do not follow the one before. ``remark`` says in words what else there is to know.
    """

    name: str
    counted: str
    axis: str
    where: Array
    scores: Array
    thresholds: Array
    anomalous: Array
    intervals: Sequence[Interval]
    sensors: Sensors
    gaps: Sequence[int] = ()
    remark: str = ""
    loss: bool = False
    #: The place from which on rows wait in quarantine; None where all rows came like this.
    waiting: int | None = None
    #: Events of before, in words.
    history: Sequence[str] = ()
    peaks: Array = field(init=False)

    def __post_init__(self) -> None:
        if not len(self.scores):
            raise BadInput("no row to draw")
        peaks = [s.first + int(self.scores[s.first : s.last + 1].argmax()) for s in self.intervals]
        object.__setattr__(self, "peaks", np.array(peaks, int))

    @property
    def times(self) -> Array:
        """How many times the threshold each score is; the score itself where there is none."""
        limits = self.thresholds
        usable = (limits > 0.0) & np.isfinite(limits)
        return self.scores / np.where(usable, limits, 1.0)

    @property
    def worst(self) -> int:
        """The place of the row that is farthest above its threshold."""
        return int(self.times.argmax())

    @classmethod
    def of_rows(
        cls,
        detector: "Detector",
        rows: Any,
        times: Any = None,
        gaps: Iterable[int] = (),
        lines: Any = None,
        name: str = "",
    ) -> "Replay":
        """Scores rows without learning them; the alarm rule makes events of anomalous ones.

        ``gaps`` are the places of rows that do not follow the one before, ``lines`` those in which
        rows stand in a file.
        """
        prepared, limit = ScoredRows(detector, rows, gaps), detector.threshold
        anomalous = prepared.whole & ~(prepared.scores <= limit)
        axis, where = _where(prepared.last, times, lines)
        return cls(
            name,
            detector.basis.counted,
            axis,
            where,
            prepared.scores,
            np.full(len(prepared.scores), limit),
            anomalous,
            intervals_by_rule(anomalous, detector.events.rule),
            Sensors(detector.model, prepared.rows, prepared.whole, prepared.inputs),
            prepared.gaps,
            _remark(detector) if limit == math.inf else "",
            detector.basis.score == "loss",
        )

    @classmethod
    def of_state(cls, detector: "Detector", name: str = "") -> "Replay":
        """Replays what a detector remembers: the rows it learned last, then quarantine."""
        recent, waiting = detector.gate.recent.rows, detector.quarantine.rows()
        inputs = np.concatenate([recent, waiting])
        basis, limit = detector.basis, detector.threshold
        if not len(inputs):
            raise BadInput("this state has learned no row yet: there is nothing to draw")
        scores = detector.model.scores(inputs)
        anomalous = np.arange(len(inputs)) >= len(recent)
        interval = Interval(len(recent), len(recent), len(inputs) - 1)
        waited = [one.time for one in detector.quarantine.waiting if one.time is not None]
        since = f"{when_text(min(waited))} to {when_text(max(waited))}" if waited else ""
        running = detector.events.open
        events = [*detector.events.closed, *([] if running is None else [running])]
        return cls(
            name,
            basis.counted,
            "rows it learned last, then those in quarantine, in the order in which they came",
            np.arange(1.0, len(inputs) + 1.0),
            scores,
            np.full(len(inputs), limit),
            anomalous,
            [interval] if len(waiting) else [],
            Sensors(
                detector.model,
                inputs[:, -basis.layer.inputs :],
                np.ones(len(inputs), bool),
                lambda places: np.asarray(inputs[places]),
            ),
            [len(recent)] if len(waiting) and len(recent) else [],
            "; ".join(filter(None, [since, "" if limit < math.inf else _remark(detector)])),
            basis.score == "loss",
            len(recent),
            [str(event) for event in events[-4:]],
        )


def intervals_by_rule(anomalous: Array, rule: AlarmRule) -> list[Interval]:
    """Finds the events that an alarm rule makes of rows, as ``Events`` does of a stream.

    A stream's events last longer while what is normal is changing, which rows alone do not tell.

    >>> anomalous = np.array([0, 1, 0, 1, 1, 0, 0, 0, 1], bool)
    >>> intervals_by_rule(anomalous, AlarmRule(k=2, n=3, cooldown=3))
    [Interval(first=1, alarm=3, last=4)]
    """
    alarm, intervals = Alarm(rule), list[Interval]()
    running, before = False, 0
    for row in np.flatnonzero(anomalous).tolist():
        # Whether no row in between was calm enough to end the event.
        running = running and row <= max(intervals[-1].last + rule.calm, before + rule.n)
        raised, before = alarm.raised(Hit(row, row)), row
        if raised and running:
            intervals[-1] = intervals[-1]._replace(last=row)
        elif raised:
            running = True
            intervals.append(Interval(alarm.first.row, row, row))
    return intervals


def intervals_of_events(events: Sequence[int | None], alarms: Sequence[bool]) -> list[Interval]:
    """Finds the events that were told of rows: the number of each row's, and where alarms were.

    >>> intervals_of_events([None, 7, 7, None, 7, 8], [False, True, False, False, False, True])
    [Interval(first=1, alarm=1, last=4), Interval(first=5, alarm=5, last=5)]
    """
    places = dict[int, list[int]]()
    for place, event in enumerate(events):
        if event is not None:
            places.setdefault(event, []).append(place)
    told = [next((row for row in rows if alarms[row]), rows[0]) for rows in places.values()]
    return [Interval(rows[0], at, rows[-1]) for rows, at in zip(places.values(), told, strict=True)]


def _where(last: Array, times: Any, lines: Any) -> tuple[str, Array]:
    """The axis, and the time of each row; its line or number where times are missing or go back."""
    if times is not None and len(times):
        when = np.asarray(times, np.float64)[last]
        if (np.diff(when) >= 0.0).all():
            return TIME, when
    if lines is not None:
        return "line", np.asarray(lines, np.float64)[last]
    return "row", last.astype(np.float64)


def _remark(detector: "Detector") -> str:
    return (
        f"still learning: {detector.rows_missing} more {detector.basis.counted}, no threshold yet"
    )
