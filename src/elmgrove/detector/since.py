"""What a watch remembers of rows: sums since the last minimum, and the means of blocks before."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from elmgrove.algebra import Array, Packed
from elmgrove.errors import BadInput

#: Of more columns than this, how they move together is not looked at.
RELATED = 64
# Rows that wait for their addition: most never get there, since a minimum comes first.
_WAITING = 64
# Rows of the youngest blocks; blocks of one size, of which more are folded together; all of them.
_BLOCK, _ALIKE, _MOST = 16, 8, 64


class Since:
    """Sums over all rows since a change began, if one did: count, mean, and how they vary.

    They begin again with every minimum of Page-Hinkley's sum. So when it rings they hold the rows
    since the change, and no others.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._waiting: list[Array] = []
        self._clear()

    def begin(self) -> None:
        """Forgets all rows: the next one is the first."""
        self._waiting.clear()
        if self.rows:
            self._clear()

    def _clear(self) -> None:
        #: The rows, those of them that were strange, and when the first one came.
        self.rows = self.strange = 0
        self.time: float | None = None
        self._centre: Array | None = None

    def add(self, x: Array, strange: bool, time: float | None) -> None:
        """Takes in the next row."""
        if not self.rows:
            self.time = time
        self.rows += 1
        self.strange += strange
        self._waiting.append(x)
        if len(self._waiting) == _WAITING:
            self._fold()

    def add_many(self, X: Array, strange: int, time: float | None) -> None:
        """Takes in rows at once, of which so many were strange; ``time`` is that of the first."""
        if not self.rows:
            self.time = time
        self.rows += len(X)
        self.strange += strange
        self._fold()
        self._sum_up(X)

    @property
    def mean(self) -> Array:
        """The mean of the rows."""
        self._fold()
        assert self._centre is not None
        mean: Array = self._centre + self._s / self.rows
        return mean

    @property
    def covariance(self) -> Array:
        """How the rows vary about their mean; of more than 64 columns, the variances alone."""
        self._fold()
        m = self._s / self.rows
        if self._columns > RELATED:
            return np.asarray(np.maximum(self._products / self.rows - m**2, 0.0))
        return np.asarray(self._products / self.rows - np.outer(m, m))

    def _fold(self) -> None:
        if self._waiting:
            X = np.array(self._waiting)
            self._waiting.clear()
            self._sum_up(X)

    def _sum_up(self, X: Array) -> None:
        X = np.asarray(X, np.float64)
        if self._centre is None:
            # Near the rows, so that a large offset swallows nothing.
            self._centre = X[0]
            self._s, self._products = np.zeros(self._columns), np.zeros(self._shape)
        Y = X - self._centre
        self._s += Y.sum(axis=0)
        self._products += (Y * Y).sum(axis=0) if self._columns > RELATED else Y.T @ Y

    @property
    def _shape(self) -> tuple[int, ...]:
        return (self._columns,) * (1 if self._columns > RELATED else 2)

    # On disk

    def pack(self) -> Packed:
        """Packs its sums; a watch in quiet times has none."""
        self._fold()
        fields = {"rows": self.rows, "strange": self.strange, "time": self.time}
        if self._centre is None:
            return fields, {}
        sums = {"sum": self._s, "products": self._products}
        return fields, {"centre": self._centre, **sums}

    def restore(self, fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        """Goes on from what was packed."""
        self.rows, self.strange, self.time = fields["rows"], fields["strange"], fields["time"]
        if self.rows:
            self._centre = np.array(arrays["centre"])
            self._s, self._products = (np.array(arrays[name]) for name in ("sum", "products"))
            if self._s.shape != (self._columns,) or self._products.shape != self._shape:
                raise BadInput("drift: sums of other columns than the model has")


class Passage(NamedTuple):
    """Rows that followed each other: how many, their mean, and their mean time (or no number)."""

    rows: int
    time: float
    mean: Array


class History:
    """The means of blocks of rows, up to the last: young blocks are short, and older ones long.

    Neighbouring blocks of one size are folded together where there are more than eight, so a few
    dozen blocks reach back for some ten thousand rows.
    """

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self.begin()

    def begin(self) -> None:
        """Forgets all rows."""
        self._blocks: list[Passage] = []
        self._open: list[Array] = []
        self._times: list[float] = []

    def add(self, x: Array, time: float | None) -> None:
        """Takes in the next row."""
        self._open.append(x)
        self._times.append(math.nan if time is None else time)
        if len(self._open) == _BLOCK:
            self._blocks.append(self._closed())
            self._open, self._times = [], []
            self._blocks = _folded(self._blocks)

    @property
    def blocks(self) -> list[Passage]:
        """All blocks, the oldest first; the last one may be short."""
        return [*self._blocks, self._closed()] if self._open else list(self._blocks)

    def _closed(self) -> Passage:
        mean = np.mean(np.array(self._open, np.float64), axis=0)
        return Passage(len(self._open), float(np.mean(self._times)), mean)

    # On disk

    @property
    def arrays(self) -> dict[str, Array]:
        """All blocks as arrays, to be saved; rows that complete none are left out."""
        return {
            "drift_block_rows": np.array([block.rows for block in self._blocks], np.int64),
            "drift_block_times": np.array([block.time for block in self._blocks], np.float64),
            "drift_block_means": np.array([block.mean for block in self._blocks]).reshape(
                len(self._blocks), self._columns
            ),
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Goes on from ``arrays``."""
        names = ("drift_block_rows", "drift_block_times", "drift_block_means")
        rows, times, means = (arrays[name] for name in names)
        if means.shape != (len(rows), self._columns) or len(times) != len(rows):
            raise BadInput("drift: blocks of other columns than the model has")
        found = zip(rows.tolist(), times.tolist(), means, strict=True)
        self._blocks = [Passage(*one) for one in found]


def _folded(blocks: list[Passage]) -> list[Passage]:
    """Folds the two oldest of one size together where there are too many, and drops the oldest."""
    size = _BLOCK
    while True:
        alike = [place for place, block in enumerate(blocks) if block.rows == size]
        if len(alike) <= _ALIKE:
            return blocks[-_MOST:]
        first, second = (blocks[place] for place in alike[:2])
        mean, time = (first.mean + second.mean) / 2.0, (first.time + second.time) / 2.0
        blocks = [*blocks[: alike[0]], Passage(2 * size, time, mean), *blocks[alike[1] + 1 :]]
        size *= 2
