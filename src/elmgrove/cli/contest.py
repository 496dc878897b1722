"""A contest: rows that are learned, labelled rows that are judged, and what each method says."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np

from elmgrove.adapters.rivals import HalfSpaceTrees, Mahalanobis, PyOD, Rival
from elmgrove.algebra.basis import Basis
from elmgrove.algebra.rows import Array, RowStore
from elmgrove.algebra.spectrum import Spectrum
from elmgrove.cli.options import tracked
from elmgrove.detector.detector import Detector
from elmgrove.detector.replay import Course, Prepared, Spell, course_of, spells_of, spells_told
from elmgrove.detector.verdict import Verdict
from elmgrove.detector.windows import choose_window, rows_to_decide
from elmgrove.device.settings import Settings, first_rows
from elmgrove.federation.member import Member
from elmgrove.reading.table import Table


class Ranking:
    """Rows in the order of their scores, most anomalous first; those with one score come together.

    ``found`` and ``false`` count the labelled and the other rows up to each score.
    """

    def __init__(self, labels: Array, scores: Array) -> None:
        order = np.argsort(-scores, kind="stable")
        ranked = scores[order]
        last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
        self._labelled, self._normal = int(labels.sum()), int((~labels).sum())
        self.found: Array = np.cumsum(labels[order])[last]
        self.false: Array = last + 1 - self.found

    @property
    def recall(self) -> Array:
        """The share of labelled rows among the most anomalous so many."""
        return np.asarray(self.found / self._labelled)

    @property
    def false_alarms(self) -> Array:
        """The share of normal rows among them."""
        return np.asarray(self.false / self._normal)

    @property
    def precision(self) -> Array:
        """The share of them that is labelled."""
        return np.asarray(self.found / (self.found + self.false))

    @cached_property
    def auc(self) -> float:
        """The area under the ROC curve: the share of pairs in which the labelled row scores higher.

        >>> Ranking(np.array([True, False, True]), np.array([3.0, 2.0, 2.0])).auc
        0.75
        """
        recall = np.append(0.0, self.recall)
        width = np.diff(self.false_alarms, prepend=0.0)
        return float(np.sum(width * (recall[1:] + recall[:-1]) / 2.0))

    @cached_property
    def average_precision(self) -> float:
        """The mean precision, weighted by how much recall grows with each score."""
        return float(np.sum(np.diff(self.recall, prepend=0.0) * self.precision))


@dataclass(frozen=True)
class Found:
    """What events made of labelled stretches.

    ``found`` stretches have an event that opened in them, or at most a tolerance before them;
    ``false_events`` opened anywhere else, however long they lasted. ``alarmed_outside`` is the
    share of unlabelled rows that lie inside events. ``delays`` are rows from a stretch's begin to
    the alarm, ``seconds`` the same as times where rows have them.
    """

    stretches: int
    found: int
    false_events: int
    alarmed_outside: float
    delays: list[int]
    seconds: list[float] | None


def stretches_of(labels: Array, calm: int) -> list[slice]:
    """Finds labelled rows that belong together; fewer than ``calm`` others may lie between them.

    No alarm rule tells stretches apart that are closer than the calm that ends an event.

    >>> stretches_of(np.array([True, True, False, True, False, False, True]), calm=2)
    [slice(0, 4, None), slice(6, 7, None)]
    """
    rows = np.flatnonzero(labels)
    parts = np.split(rows, np.flatnonzero(np.diff(rows) > calm) + 1)
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]


def found_by(
    spells: Sequence[Spell], labels: Array, calm: int, tolerance: int, times: Array | None = None
) -> Found:
    """Compares events with labels: an event finds a stretch only if it opened for it.

    What opened more than ``tolerance`` rows before a stretch is false, even where it lasts into it:
    else one event without an end would find everything.
    """
    stretches = stretches_of(labels, calm)
    opened = [
        [spell for spell in spells if stretch.start - tolerance <= spell.first < stretch.stop]
        for stretch in stretches
    ]
    right = {spell for some in opened for spell in some}
    inside = np.zeros(len(labels), bool)
    for spell in spells:
        inside[spell.first : spell.last + 1] = True
    # Of an alarm just before the stretch the delay is none.
    first = [
        (stretch.start, max(min(spell.told for spell in some), stretch.start))
        for stretch, some in zip(stretches, opened, strict=True)
        if some
    ]
    return Found(
        len(stretches),
        len(first),
        len({*spells} - right),
        float(inside[~labels].mean()),
        [told - start for start, told in first],
        None if times is None else [float(times[told] - times[start]) for start, told in first],
    )


#: The detector as it is, as the agent that goes on learning, and an agent that had no ``learn``.
OWN, LEARNING_ON, STREAM = "Elmgrove", "Elmgrove, learning", "Elmgrove, stream"
# KNN compares with every row learned: it gets at most so many of them.
_MOST_ROWS = 5000


class Library(NamedTuple):
    """A library to whose detectors one compares: its title, its module, and what installs it."""

    title: str
    module: str
    extra: str

    @property
    def missing(self) -> bool:
        """Whether it is not installed."""
        return find_spec(self.module) is None


NUMPY = Library("NumPy", "numpy", "")
PYOD, RIVER = Library("PyOD", "pyod", "evaluate"), Library("River", "river", "evaluate")
#: The methods that a detector is compared with, by name: whose they are, and how one is made.
RIVALS: dict[str, tuple[Library, Callable[[float], Rival]]] = {
    "Mahalanobis": (NUMPY, Mahalanobis),
    "HalfSpaceTrees": (RIVER, HalfSpaceTrees),
    **{name: (PYOD, partial(PyOD, name)) for name in ("ECOD", "IForest", "KNN")},
}


@dataclass(frozen=True)
class Measured:
    """What a method made of the rows that are judged, and how that compares with their labels."""

    name: str
    threshold: float
    ranking: Ranking
    recall: float
    precision: float | None
    false_alarms: float
    found: Found


class Contest:
    """Judges the labelled rows of a table by a detector, and by others that learn the same rows.

    Rows that complete no window are judged by nobody. Everybody's anomalous rows become events by
    the detector's alarm rule, and are compared with the labels by one rule.
    """

    def __init__(self, member: Member, table: Table) -> None:
        assert table.labels is not None, "a table that was read with its labels"
        self._member, self._table = member, table
        self._detector = detector = member.detector
        self._prepared = Prepared(detector, table.rows, table.gaps)
        #: The threshold: what counting has not shown yet is tried as it would be.
        self.limit = detector.gate.limit()
        whole = self._prepared.whole
        rule = detector.events.rule
        #: So many rows before a labelled stretch an event may open, and still be about it.
        self.tolerance = detector.basis.window + rule.n
        #: The places that are judged, their labels, and the stretches of those.
        self.places: Array = np.flatnonzero(whole)
        self.labels: Array = self._prepared.any_of(table.labels)[whole]
        self.stretches = stretches_of(self.labels, rule.calm)
        self._times = None if table.times is None else table.times[self._prepared.last[whole]]

    @property
    def not_judged(self) -> int:
        """The rows, or frames, that complete no window."""
        return len(self._prepared.whole) - len(self.places)

    @property
    def rate(self) -> float:
        """The share of normal rows that may be flagged, as the detector was told."""
        return self._detector.gate.policy.rate or 0.01

    @property
    def window(self) -> int:
        """The rows that the detector looks at together."""
        return self._detector.basis.window

    @property
    def rule(self) -> str:
        """The alarm rule, in words."""
        rule = self._detector.events.rule
        return f"{rule.k} of {rule.n} rows anomalous; it ends when {rule.calm} were calm"

    @property
    def calm(self) -> int:
        """The rows without an alarm that end an event."""
        return self._detector.events.rule.calm

    @cached_property
    def course(self) -> Course:
        """What the detector says, to be drawn."""
        table = self._table
        return course_of(
            self._detector,
            table.rows,
            table.times,
            table.gaps,
            lines=table.lines,
            limit=self.limit,
            name=self._member.name,
        )

    def own(self) -> Measured:
        """Judges by the detector as it is, as ``elmgrove score`` does."""
        flagged = self.course.anomalous[self.places]
        return self._measured(OWN, self._prepared.scores[self.places], self.limit, flagged)

    def learning_on(self) -> Measured:
        """Judges by a copy of the detector that learns what it finds normal, as the agent does."""
        return self._observed(LEARNING_ON, Member.from_bytes(self._member.to_bytes()).detector)

    def from_stream(self, before: Table, window: int | None) -> Measured:
        """Judges by a detector that ``elmgrove device run`` makes where nobody ran ``learn``.

        Its first rows decide scaling and window, and more of them decide again, if they ask for
        another window. All rows come as a stream: these first, with whatever anomalies there are
        in them.
        """
        spectrum = self._detector.basis.spectrum
        first = before.rows[: first_rows(Settings.start_rows, spectrum)]
        basis = _fitted(before, first, window or choose_window(first, spectrum).window, spectrum)
        for enough in rows_to_decide(basis.layer.inputs) if window is None else ():
            more = before.rows[basis.span(0, enough)]
            again = choose_window(more, spectrum).window if enough else basis.window
            if again != basis.window:
                basis = _fitted(before, more, again, spectrum)
        rule, policy = self._detector.events.rule, self._detector.gate.policy
        detector = Detector.for_basis(basis, threshold=policy, alarm=rule)
        _observe(detector, before)
        return self._observed(STREAM, detector)

    def _observed(self, name: str, detector: Detector) -> Measured:
        verdicts = _observe(detector, self._table)
        chosen = [verdicts[place] for place in self.places.tolist()]
        flagged = np.array([one.anomalous for one in chosen], bool)
        scores = np.array([one.score for one in chosen])
        told = spells_told([one.event for one in chosen], [one.alarm for one in chosen])
        k = detector.events.rule.k
        # An event begins with the first of the rows that raised its alarm.
        events = [one._replace(first=_last_of(flagged, one.told, k)) for one in told]
        return self._measured(name, scores, detector.threshold, flagged, events)

    def rivals(self, learned: Table) -> Iterator[Measured]:
        """Lets others learn the rows that the detector learned, and judge the same ones.

        Each gets plain rows; where the detector has windows, the same windows in a second try.
        """
        train = Prepared(self._detector, learned.rows, learned.gaps)
        window, places = self._detector.basis.window, np.flatnonzero(train.whole)
        tries = [(name, size) for name in RIVALS for size in sorted({1, window})]
        there = [(name, size) for name, size in tries if not RIVALS[name][0].missing]
        for name, size in tracked(there, "Comparing"):
            if size == 1:
                rows, judged = train.rows, self._prepared.rows[self.places]
            else:
                rows, judged = train.inputs(places), self._prepared.inputs(self.places)
            title = name if size == 1 else f"{name} × {size}"
            yield self._tried(title, RIVALS[name][1](self.rate), _thinned(name, rows), judged)

    def _tried(self, name: str, rival: Rival, rows: Array, judged: Array) -> Measured:
        rival.fit(rows)
        scores = rival.score(judged)
        return self._measured(name, scores, rival.threshold, ~(scores <= rival.threshold))

    def _measured(
        self,
        name: str,
        scores: Array,
        limit: float,
        flagged: Array,
        told: Sequence[Spell] | None = None,
    ) -> Measured:
        """Compares with the labels; events are those told, or those that the rule makes."""
        rule = self._detector.events.rule
        events = spells_of(flagged, rule) if told is None else told
        return Measured(
            name,
            limit,
            Ranking(self.labels, scores),
            float(flagged[self.labels].mean()),
            float(self.labels[flagged].mean()) if flagged.any() else None,
            float(flagged[~self.labels].mean()),
            found_by(events, self.labels, rule.calm, self.tolerance, self._times),
        )


def _fitted(table: Table, rows: RowStore, window: int, spectrum: Spectrum | None) -> Basis:
    return Basis.fitted(
        rows,
        table.names,
        categories=table.categories,
        scaling="standard",
        window=window,
        spectrum=spectrum,
    )


def _observe(detector: Detector, table: Table) -> list[Verdict]:
    verdicts = list[Verdict]()
    for stretch in table.stretches:
        detector.interrupt()
        verdicts += detector.observe_many(table.rows[stretch])
    return verdicts


def _last_of(flagged: Array, place: int, k: int) -> int:
    """The first of the last ``k`` places that are flagged, up to this one."""
    before = np.flatnonzero(flagged[: place + 1])[-k:]
    return int(before[0]) if len(before) else place


def _thinned(name: str, rows: Array) -> Array:
    if name != "KNN" or len(rows) <= _MOST_ROWS:
        return rows
    evenly: Array = rows[np.linspace(0, len(rows) - 1, _MOST_ROWS).astype(int)]
    return evenly
