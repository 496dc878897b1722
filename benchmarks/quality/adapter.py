"""Elmgrove as this benchmark calls it: what changes with the library's interface is here alone."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.quality.windows import Labels, Matrix, stacked, stacked_each
from elmgrove import Detector, HiddenLayer, Scaling
from elmgrove.algebra import suggested_units

_MAKE: Any = getattr(Detector, "for_data", None)
#: Whether this version has ``Detector.for_data``, and with it distances and windows of its own.
NEW = _MAKE is not None
#: False alarms that are asked for; the default of every version.
RATE = 0.01
WATCHING = "watching"


class Seen(NamedTuple):
    """What a detector said of consecutive rows, one entry for each."""

    score: Matrix
    anomalous: Labels
    alarm: Labels
    state: list[str]

    @classmethod
    def of(cls, verdicts: Iterable[Any]) -> "Seen":
        """Collects verdicts."""
        told = [(v.score, v.anomalous, v.alarm, v.state) for v in verdicts]
        score, anomalous, alarm, state = zip(*told, strict=True)
        return cls(np.array(score), np.array(anomalous, bool), np.array(alarm, bool), list(state))


class Watcher(Protocol):
    """A detector for rows like those that it was made for."""

    @property
    def window(self) -> int:
        """The rows that it looks at together."""

    @property
    def threshold(self) -> float:
        """The score above which a row is strange."""

    def learn(self, rows: Matrix) -> None:
        """Learns consecutive rows that are normal."""

    def score(self, rows: Matrix) -> Matrix:
        """Scores each of these consecutive rows, without learning them."""

    def observe(self, rows: Matrix) -> Seen:
        """Scores, decides and learns, row by row."""

    def merge(self, other: Any) -> None:
        """Takes in what another watcher learned itself."""


def offers(score: str | None) -> bool:
    """Says whether this version has such a score; None is its default."""
    return NEW or score != "distance"


def made(rows: Matrix, window: int | None, score: str | None, seed: int) -> Watcher:
    """Makes a detector for rows like these, with this version's defaults where None is given."""
    if not NEW:
        return _Before(rows, window or 1, seed)
    stated = {"window": window, "score": score}
    return _Now(_MAKE(rows, seed=seed, **{k: v for k, v in stated.items() if v is not None}))


class _Now:
    """Uses ``Detector.for_data``."""

    def __init__(self, detector: Any) -> None:
        self.detector = detector

    @property
    def window(self) -> int:
        return int(self.detector.window)

    @property
    def threshold(self) -> float:
        return float(self.detector.threshold)

    def learn(self, rows: Matrix) -> None:
        self.detector.learn_many(rows)

    def score(self, rows: Matrix) -> Matrix:
        return np.asarray(self.detector.score_many(rows), np.float64)

    def observe(self, rows: Matrix) -> Seen:
        return Seen.of(self.detector.observe_many(rows))

    def merge(self, other: Any) -> None:
        self.detector.merge(other.detector.evidence)


class _Before:
    """Uses a detector without windows of its own (0.1): rows are stacked here."""

    def __init__(self, rows: Matrix, window: int, seed: int) -> None:
        self.window = window
        seen = stacked(rows, window)
        width = seen.shape[1]
        layer = HiddenLayer(width, suggested_units(width), seed=seed)
        self.detector = Detector(layer, scaling=Scaling.fitted("standard", seen))
        self._last = rows[:0]

    @property
    def threshold(self) -> float:
        return self.detector.threshold

    def learn(self, rows: Matrix) -> None:
        self.detector.learn_many(stacked(rows, self.window))
        self._last = rows[len(rows) - self.window + 1 :]

    def score(self, rows: Matrix) -> Matrix:
        return self.detector.score_many(stacked_each(rows, self.window))

    def observe(self, rows: Matrix) -> Seen:
        known = np.vstack([self._last, rows])
        windows = stacked_each(known, self.window)[len(self._last) :]
        self._last = known[len(known) - self.window + 1 :]
        return Seen.of(self.detector.observe(row) for row in windows)

    def merge(self, other: Any) -> None:
        self.detector.merge(other.detector.evidence)
