"""Elmgrove as this benchmark calls it: what changes with the library's interface is here alone."""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.quality.windows import Labels, Matrix
from elmgrove import Detector

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
        """The score above which a row is anomalous."""

    def learn(self, rows: Matrix) -> None:
        """Learns consecutive rows that are normal."""

    def score(self, rows: Matrix) -> Matrix:
        """Scores each of these consecutive rows, without learning them."""

    def observe(self, rows: Matrix) -> Seen:
        """Scores, decides and learns, row by row."""

    def merge(self, other: Any) -> None:
        """Takes in what another watcher learned itself."""


def made(rows: Matrix, window: int | None, score: str | None, seed: int) -> Watcher:
    """Makes a detector for rows like these, with the defaults where None is given."""
    return _Watcher(Detector.for_data(rows, window=window or "auto", score=score, seed=seed))


class _Watcher:
    """Uses ``Detector.for_data``."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector

    @property
    def window(self) -> int:
        return self.detector.window

    @property
    def threshold(self) -> float:
        return self.detector.threshold

    def learn(self, rows: Matrix) -> None:
        self.detector.learn_many(rows)

    def score(self, rows: Matrix) -> Matrix:
        return np.asarray(self.detector.score_many(rows), np.float64)

    def observe(self, rows: Matrix) -> Seen:
        return Seen.of(self.detector.observe_many(rows))

    def merge(self, other: Any) -> None:
        self.detector.merge(other.detector.evidence)
