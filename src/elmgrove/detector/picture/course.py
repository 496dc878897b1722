"""A course: what is said of rows one after another, and which of them belong together."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector.alarm import Alarm, AlarmRule
from elmgrove.detector.picture.sensors import InputSensors, Sensors
from elmgrove.errors import BadInput

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector


#: The axis of a course whose rows have times.
TIME = "time (UTC)"


class Spell(NamedTuple):
    """The places of an event: its first row, the one at which it was told, and its last."""

    first: int
    told: int
    last: int


@dataclass(frozen=True)
class Course:
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
    spells: Sequence[Spell]
    sensors: Sensors
    gaps: Sequence[int] = ()
    remark: str = ""
    loss: bool = False
    #: The place from which on rows wait in quarantine; None where all rows came like this.
    waiting: int | None = None
    peaks: Array = field(init=False)

    def __post_init__(self) -> None:
        if not len(self.scores):
            raise BadInput("no row to draw")
        peaks = [s.first + int(self.scores[s.first : s.last + 1].argmax()) for s in self.spells]
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


def course_of(
    detector: "Detector",
    rows: Any,
    times: Any = None,
    gaps: Iterable[int] = (),
    lines: Sequence[int] | None = None,
    name: str = "",
) -> Course:
    """Scores rows, without learning them, and lets the alarm rule make events of strange ones.

    ``gaps`` are the places of rows that do not follow the one before, ``lines`` those in which
    rows stand in a file.
    """
    basis = detector.basis
    edges = sorted({0, *gaps, len(rows)})
    prepared, scores, last = [], [], []
    for start, end in pairwise(edges):
        part = rows[start:end]
        prepared.append(detector.preparation.many(part))
        scores.append(detector.score_many(part))
        count = basis.frames_in(end - start)
        last += [start + basis.span(at, at + 1).stop - 1 for at in range(count)]
    X = np.concatenate([np.empty((0, basis.layer.inputs)), *prepared])
    starts = np.cumsum([0, *map(len, scores)])[:-1]
    age = np.arange(len(X)) - np.repeat(starts, [len(one) for one in scores])
    whole = age >= basis.window - 1
    back = np.arange(basis.window - 1, -1, -1)

    def inputs(places: Array) -> Array:
        stacked: Array = X[places[:, np.newaxis] - back].reshape(len(places), basis.inputs)
        return stacked

    limit = detector.threshold
    found = np.concatenate([np.empty(0), *scores])
    anomalous = whole & ~(found <= limit)
    if detector.excused and len(detector.elsewhere):
        for place in np.flatnonzero(anomalous).tolist():
            [x] = inputs(np.array([place]))
            anomalous[place] = not detector.elsewhere.known(x, limit)
    axis, where = _where(np.array(last, int), times, lines)
    return Course(
        name,
        basis.counted,
        axis,
        where,
        found,
        np.full(len(found), limit),
        anomalous,
        spells_of(anomalous, detector.gate.alarm.rule),
        InputSensors(detector.model, X, whole, inputs),
        [int(start) for start in starts[1:]],
        _remark(detector),
        basis.score == "loss",
    )


def course_of_state(detector: "Detector", name: str = "") -> Course:
    """Takes what a detector remembers: the last rows it learned, then those in quarantine."""
    recent, waiting = detector.gate.recent.rows, detector.quarantine.rows()
    inputs = np.concatenate([recent, waiting])
    basis, limit = detector.basis, detector.threshold
    if not len(inputs):
        raise BadInput("this state has learned no row yet: there is nothing to draw")
    scores = detector.model.scores(inputs)
    strange = np.arange(len(inputs)) >= len(recent)
    spell = Spell(len(recent), len(recent), len(inputs) - 1)
    return Course(
        name,
        basis.counted,
        "rows it learned last, then those in quarantine, in the order in which they came",
        np.arange(1.0, len(inputs) + 1.0),
        scores,
        np.full(len(inputs), limit),
        strange,
        [spell] if len(waiting) else [],
        InputSensors(
            detector.model,
            inputs[:, -basis.layer.inputs :],
            np.ones(len(inputs), bool),
            lambda places: np.asarray(inputs[places]),
        ),
        [len(recent)] if len(waiting) and len(recent) else [],
        _remark(detector),
        basis.score == "loss",
        len(recent),
    )


def spells_of(anomalous: Array, rule: AlarmRule) -> list[Spell]:
    """Finds the events that an alarm rule makes of rows.

    One begins with the first of the anomalous rows that raised the alarm, and ends with the last
    before as many rows in a row as the rule looks at were normal.
    """
    alarm, spells = Alarm(AlarmRule(rule.k, rule.n)), list[Spell]()
    strange = np.flatnonzero(anomalous).tolist()
    last = -math.inf
    for place in strange:
        for _ in range(min(place - (int(last) if spells or last >= 0 else -1) - 1, rule.n)):
            alarm.raised(False)
        raised = alarm.raised(True)
        if spells and place - spells[-1].last <= rule.n:
            spells[-1] = spells[-1]._replace(last=place)
        elif raised:
            first = max(0, place - rule.n + 1)
            led = first + int(anomalous[first : place + 1].argmax())
            spells.append(Spell(led, place, place))
        last = place
    return spells


def _where(last: Array, times: Any, lines: Sequence[int] | None) -> tuple[str, Array]:
    """The axis, and the time of each row; its line or number where times are missing or go back."""
    if times is not None and len(times):
        when = np.asarray(times, np.float64)[last]
        if (np.diff(when) >= 0.0).all():
            return TIME, when
    if lines is not None:
        return "line", np.asarray(lines, np.float64)[last]
    return "row", last.astype(np.float64)


def _remark(detector: "Detector") -> str:
    if math.isfinite(detector.threshold):
        return ""
    return (
        f"still learning: {detector.rows_missing} more {detector.basis.counted}, no threshold yet"
    )
