"""The recent rows that a device accepted, and how strange they were."""

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove.errors import BadInput


class Recent:
    """A bounded ring of accepted rows with their scores, and the scores of recent strays.

    A threshold that is a quantile of *accepted* scores alone eats itself: each row above it is
    left out, the quantile of the rest is lower, and so on; with a rate of 1 % four rows in five
    are refused after 100,000 normal ones. So rows that were refused by a little (``strays``) are
    remembered by their score for as long as the ring is long, and a threshold may count them.
    Rows refused by a lot are not: they say nothing about what normal rows do.
    """

    def __init__(self, capacity: int, width: int, dtype: np.dtype[Any]) -> None:
        self.capacity = capacity
        self._rows: Array = np.empty((capacity, width), dtype)
        self._scores: deque[float] = deque()
        self._next = 0
        self._clock = 0
        self._strays: deque[tuple[int, float]] = deque()
        #: The scores of the accepted rows in ascending order.
        self.ordered: list[float] = []

    def __len__(self) -> int:
        return len(self._scores)

    def accept(self, row: Array, score: float) -> None:
        """Puts a row in, and the oldest out when the ring is full."""
        self._tick()
        self._rows[self._next] = row
        self._next = (self._next + 1) % self.capacity
        if len(self._scores) == self.capacity:
            del self.ordered[bisect_left(self.ordered, self._scores.popleft())]
        self._scores.append(score)
        insort(self.ordered, score)

    def refuse(self, score: float, threshold: float) -> None:
        """Remembers a row that was refused by a little."""
        self._tick()
        if score <= self._reach(threshold):
            self._strays.append((self._clock, score))

    def extend(self, rows: Array) -> None:
        """Puts many rows in, each with a score of 0 until ``rescore`` gives them theirs."""
        for row in rows[-self.capacity :]:
            self.accept(row, 0.0)

    @property
    def rows(self) -> Array:
        """The accepted rows, oldest first."""
        if len(self) < self.capacity:
            return self._rows[: len(self)]
        return np.roll(self._rows, -self._next, axis=0)

    @property
    def strays(self) -> list[float]:
        """The scores of recent rows that were refused by a little."""
        return [score for _, score in self._strays]

    def rescore(self, scores: Array) -> None:
        """Gives ``rows`` new scores, in their order, by a model that has changed."""
        self._scores = deque(scores.tolist())
        self.ordered = sorted(self._scores)
        if self._strays:
            # No rows are left of them to score, only where they stood: above all accepted ones,
            # by a little. Without them each rescoring would lower the threshold.
            top = self.ordered[-1]
            reach = self._reach(top)
            self._strays = deque(
                (when, min(max(score, top), reach)) for when, score in self._strays
            )

    @property
    def arrays(self) -> dict[str, Array]:
        """All recent rows and scores as arrays, to be saved."""
        return {
            "ring": self.rows,
            "ring_scores": np.array(self._scores),
            "strays": np.array(self.strays),
            "stray_ages": np.array([self._clock - when for when, _ in self._strays], np.int64),
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from ``arrays``: rows, scores, and strays as old as they were."""
        if arrays["ring_scores"].shape != (len(arrays["ring"]),):
            raise BadInput("not one score for each recent row")
        self.extend(arrays["ring"])
        self.rescore(arrays["ring_scores"])
        strays = zip(arrays["strays"].tolist(), arrays["stray_ages"].tolist(), strict=True)
        self._strays.extend((self._clock - age, score) for score, age in strays)

    def _reach(self, limit: float) -> float:
        """How far above a limit a row is still refused by a little: as the median lies below."""
        return 2.0 * limit - self.ordered[len(self.ordered) // 2] if self.ordered else limit

    def _tick(self) -> None:
        self._clock += 1
        while self._strays and self._strays[0][0] <= self._clock - self.capacity:
            self._strays.popleft()
