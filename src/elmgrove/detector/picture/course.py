"""A course: what is said of rows one after another, and which of them belong together."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector.alarm import Alarm, AlarmRule, Mark
from elmgrove.detector.picture.sensors import InputSensors, Sensors
from elmgrove.detector.prepared import Prepared
from elmgrove.detector.when import when_text
from elmgrove.errors import BadInput

if TYPE_CHECKING:
    from elmgrove.detector.detector import Detector


# Events of before that a picture tells.
_TOLD = 4
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
    #: Events of before, in words.
    history: Sequence[str] = ()
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
    lines: Any = None,
    limit: float | None = None,
    name: str = "",
) -> Course:
    """Scores rows, without learning them, and lets the alarm rule make events of strange ones.

    ``gaps`` are the places of rows that do not follow the one before, ``lines`` those in which
    rows stand in a file. ``limit`` is a threshold instead of the detector's.
    """
    prepared = Prepared(detector, rows, gaps)
    limit = detector.threshold if limit is None else limit
    anomalous = prepared.whole & ~(prepared.scores <= limit)
    axis, where = _where(prepared.last, times, lines)
    return Course(
        name,
        detector.basis.counted,
        axis,
        where,
        prepared.scores,
        np.full(len(prepared.scores), limit),
        anomalous,
        spells_of(anomalous, detector.events.rule),
        InputSensors(detector.model, prepared.rows, prepared.whole, prepared.inputs),
        prepared.gaps,
        _remark(detector) if limit == math.inf else "",
        detector.basis.score == "loss",
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
        "; ".join(filter(None, [_since(detector), "" if limit < math.inf else _remark(detector)])),
        basis.score == "loss",
        len(recent),
        _history(detector),
    )


def spells_of(anomalous: Array, rule: AlarmRule) -> list[Spell]:
    """Finds the events that an alarm rule makes of rows, as ``Events`` does of a stream.

    A stream's events last longer while what is normal is changing, which rows alone do not tell.

    >>> spells_of(np.array([0, 1, 0, 1, 1, 0, 0, 0, 1], bool), AlarmRule(k=2, n=3, cooldown=3))
    [Spell(first=1, told=3, last=4)]
    """
    alarm, spells = Alarm(rule), list[Spell]()
    running, before = False, 0
    for row in np.flatnonzero(anomalous).tolist():
        # Whether no row in between was calm enough to end the event.
        running = running and row <= max(spells[-1].last + rule.calm, before + rule.n)
        raised, before = alarm.raised(Mark(row, row)), row
        if raised and running:
            spells[-1] = spells[-1]._replace(last=row)
        elif raised:
            running = True
            spells.append(Spell(alarm.first.row, row, row))
    return spells


def spells_told(events: Sequence[int | None], alarms: Sequence[bool]) -> list[Spell]:
    """Finds the events that were told of rows: the number of each row's, and where alarms were.

    >>> spells_told([None, 7, 7, None, 7, 8], [False, True, False, False, False, True])
    [Spell(first=1, told=1, last=4), Spell(first=5, told=5, last=5)]
    """
    places = dict[int, list[int]]()
    for place, event in enumerate(events):
        if event is not None:
            places.setdefault(event, []).append(place)
    told = [next((row for row in rows if alarms[row]), rows[0]) for rows in places.values()]
    return [Spell(rows[0], at, rows[-1]) for rows, at in zip(places.values(), told, strict=True)]


def _where(last: Array, times: Any, lines: Any) -> tuple[str, Array]:
    """The axis, and the time of each row; its line or number where times are missing or go back."""
    if times is not None and len(times):
        when = np.asarray(times, np.float64)[last]
        if (np.diff(when) >= 0.0).all():
            return TIME, when
    if lines is not None:
        return "line", np.asarray(lines, np.float64)[last]
    return "row", last.astype(np.float64)


def _since(detector: "Detector") -> str:
    """Says when the rows came that wait in quarantine; nothing where no time was told."""
    times = [one.time for one in detector.quarantine.waiting if one.time is not None]
    return f"{when_text(min(times))} to {when_text(max(times))}" if times else ""


def _history(detector: "Detector") -> list[str]:
    """The last events that a detector remembers, newest last."""
    running = detector.events.open
    known = [*detector.events.closed, *([] if running is None else [running])]
    return [str(event) for event in known[-_TOLD:]]


def _remark(detector: "Detector") -> str:
    return (
        f"still learning: {detector.rows_missing} more {detector.basis.counted}, no threshold yet"
    )
