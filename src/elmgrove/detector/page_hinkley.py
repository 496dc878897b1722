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
# What is assumed of neighbours before any came counts like so many rows.
_ASSUMED_ROWS = 128.0
# Of older ones half is forgotten whenever there are so many.
_MOST_ROWS = 16384.0
# Rows whose sum shows what they have in common, however little each shows.
_BLOCK = 128
# What is saved of neighbours.
_COUNTERS = ("calm", "squares", "products", "blocks", "block", "in_block")


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
        # With y = rarity − 1: the rows, Σ y², Σ y·(that of a window before), and Σ (Σ y of a
        # block)². Rows of one window say one thing.
        self._window = window
        self.calm = self.squares = _ASSUMED_ROWS
        self.products, self.blocks = 0.0, _ASSUMED_ROWS * window
        self.block, self.in_block = 0.0, 0
        self._last: deque[float] = deque([0.0] * window, maxlen=window)

    @property
    def length(self) -> float:
        """So many rows say one thing: by each and the next, or by whole blocks.

        Where rows remember the last one the first is right; where a little that lasts is hidden
        under noise, the second.
        """
        r = min(max(self.products / self.squares, 0.0), 0.99)
        return max(self._window * (1.0 + r) / (1.0 - r), self.blocks / self.squares)

    def add(self, rare: float) -> None:
        """Takes in the rarity of the next row."""
        y = rare - 1.0
        self.calm += 1.0
        self.squares += y * y
        self.products += y * self._last[0]
        self._last.append(y)
        self.block += y
        self.in_block += 1
        if self.in_block == _BLOCK:
            self.blocks += self.block**2
            self.block, self.in_block = 0.0, 0
        if self.calm > _MOST_ROWS:
            for name in ("calm", "squares", "products", "blocks"):
                setattr(self, name, getattr(self, name) / 2.0)

    # On disk

    @property
    def fields(self) -> dict[str, Any]:
        """What was counted, as JSON holds it."""
        known = {name: getattr(self, name) for name in _COUNTERS}
        return known | {"last": list(self._last)}

    def restore(self, fields: Mapping[str, Any]) -> None:
        """Goes on from ``fields``."""
        for name in _COUNTERS:
            setattr(self, name, _finite(fields[name]))
        self.in_block = int(self.in_block)
        self._last.extend(map(_finite, fields["last"]))


def _finite(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise BadInput(f"drift: {value!r} is no number that could have been counted")
    return float(value)
