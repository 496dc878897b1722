"""Page-Hinkley: whether rows have become rarer than they were, for good, and since when."""

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from elmgrove.algebra import Array
from elmgrove.detector.recent import Recent
from elmgrove.errors import BadInput

# One row in so many is as rare as a row can count: a huge score is no change.
_RAREST = math.log(100.0)
# Strays are above nearly all that was accepted: where more than this share is above, none matters.
_FEW = 0.1
# What is assumed of neighbours before any came: so many say one thing, known by so many rows.
_ASSUMED, _ASSUMED_ROWS = 2, 128.0
# Of older ones half is forgotten whenever there are so many.
_MOST_ROWS = 16384.0
# Rows whose sum shows what they have in common, however little each shows.
_BLOCKS = (32, 128)


def rarity(score: float, recent: Recent) -> float:
    """Says one in how many normal rows is as strange as a score, as a logarithm; at most 100.

    Whatever scores are like, that of normal rows has a mean of 1 and a deviation of 1.
    """
    accepted = recent.ordered
    above = len(accepted) - bisect_right(accepted, score)
    strays = recent.strays if above < _FEW * len(accepted) else ()
    above += sum(stray > score for stray in strays)
    return min(math.log((len(accepted) + len(strays) + 1.0) / (above + 1.0)), _RAREST)


def rarities(scores: Array, recent: Recent) -> Array:
    """Says of many scores what ``rarity`` says of one."""
    known = [np.sort(np.array(some)) for some in (recent.ordered, recent.strays)]
    accepted, strays = (len(some) - np.searchsorted(some, scores, "right") for some in known)
    matters = accepted < _FEW * len(known[0])
    above = accepted + np.where(matters, strays, 0)
    among = len(known[0]) + np.where(matters, len(known[1]), 0)
    return np.asarray(np.minimum(np.log((among + 1.0) / (above + 1.0)), _RAREST))


class PageHinkley:
    """Page's test by Hinkley: m = Σ (x − allowed), less its minimum.

    While x is less than allowed in the mean, m falls, and most rows are a new minimum. When x
    becomes more, m rises; its ``height`` above the minimum says how sure that is, and the minimum
    was the last row before. A step may be divided by how many rows say one thing together.

    It is written out here in place of River's, which would bring pandas to every device, does not
    tell since when, and takes neighbours for independent.

    >>> test = PageHinkley(allowed=1.65)
    >>> low = [test.add(x) for x in 20 * [0.5] + 15 * [4.0]]
    >>> low.count(True), round(test.height, 2), test.rows
    (20, 35.25, 15)
    """

    def __init__(self, allowed: float) -> None:
        self._allowed = allowed
        self.begin()

    def begin(self) -> None:
        """Lets the next row be the first after the minimum."""
        #: How far m is above its minimum; the rows since then, and the sum of x over them.
        self.height = self.sum = 0.0
        self.rows = 0

    def add(self, x: float, length: float = 1.0) -> bool:
        """Takes in the next x; says whether m is at a new minimum."""
        self.height += (x - self._allowed) / length
        self.sum += x
        self.rows += 1
        if self.height > 0.0:
            return False
        self.begin()
        return True

    @property
    def mean(self) -> float:
        """The mean of x since the minimum."""
        return self.sum / self.rows if self.rows else self._allowed

    # On disk

    @property
    def fields(self) -> list[float]:
        """Height, sum and rows, as JSON holds them."""
        return [self.height, self.sum, self.rows]

    def restore(self, fields: list[float]) -> None:
        """Goes on from ``fields``."""
        height, total, rows = map(_finite, fields)
        self.height, self.sum, self.rows = height, total, int(rows)


class Neighbours:
    """How many neighbouring rows say one thing, by the rarity of rows in quiet times."""

    def __init__(self, window: int) -> None:
        self._window = window
        # With y = rarity − 1: the rows, Σ y², and Σ y·(that of a window before).
        self.calm = self.squares = _ASSUMED_ROWS
        self.products = 0.0
        self._last: deque[float] = deque([0.0] * window, maxlen=window)
        # Of blocks of each size Σ (Σ y)², and Σ y of the last one that is not full.
        self._blocks = [_ASSUMED_ROWS * max(window, _ASSUMED)] * len(_BLOCKS)
        self._sums = [0.0] * len(_BLOCKS)
        self._row = 0

    @property
    def length(self) -> float:
        """So many rows say one thing: by each and the next, or by whole blocks.

        Where rows remember the last one the first is right; where a little that lasts is hidden
        under noise, the second. What is more than a window is known badly of few rows, and taken
        for more.
        """
        r = min(max(self.products / self.squares, 0.0), 0.99)
        known = max(self._window * (1.0 + r) / (1.0 - r), max(self._blocks) / self.squares)
        more = 1.0 + 2.0 * math.sqrt(_BLOCKS[-1] / self.calm)
        return self._window + more * (known - self._window)

    def add(self, rare: float) -> None:
        """Takes in the rarity of the next row."""
        y = rare - 1.0
        self.calm += 1.0
        self.squares += y * y
        self.products += y * self._last[0]
        self._last.append(y)
        self._row += 1
        for place, size in enumerate(_BLOCKS):
            self._sums[place] += y
            if self._row % size == 0:
                self._blocks[place] += self._sums[place] ** 2
                self._sums[place] = 0.0
        if self.calm > _MOST_ROWS:
            self._halve()

    def _halve(self) -> None:
        self.calm, self.squares, self.products = (
            one / 2.0 for one in (self.calm, self.squares, self.products)
        )
        self._blocks = [one / 2.0 for one in self._blocks]

    # On disk

    @property
    def fields(self) -> dict[str, Any]:
        """What was counted, as JSON holds it."""
        return {
            "known": [self.calm, self.squares, self.products],
            "last": list(self._last),
            "blocks": self._blocks,
            "sums": self._sums,
            "row": self._row,
        }

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Goes on from ``fields``."""
        self.calm, self.squares, self.products = map(_finite, fields["known"])
        self._last.extend(map(_finite, fields["last"]))
        self._blocks, self._sums = (
            [_finite(one) for one, _ in zip(fields[name], _BLOCKS, strict=True)]
            for name in ("blocks", "sums")
        )
        self._row = int(_finite(fields["row"]))


def _finite(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise BadInput(f"drift: {value!r} is no number that could have been counted")
    return float(value)
