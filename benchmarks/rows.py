"""Rows to learn and score: a few hidden causes plus noise, between 0 and 1, equal in each run."""

from collections.abc import Iterator
from functools import cache
from itertools import cycle

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]

#: As many columns as the papers' data set of human activities has.
INPUTS = 561
SEED = 7
_CAUSES = 20


@cache
def rows(count: int) -> Matrix:
    """Makes ``count`` rows, read-only."""
    rng = np.random.default_rng(SEED)
    directions = rng.normal(size=(_CAUSES, INPUTS)) / np.sqrt(_CAUSES)
    made: Matrix = 0.5 + 0.12 * rng.normal(size=(count, _CAUSES)) @ directions
    made += 0.02 * rng.normal(size=made.shape)
    np.clip(made, 0.0, 1.0, out=made)
    made.setflags(write=False)
    return made


def stream() -> Iterator[Matrix]:
    """Yields one row after another without end, each a new copy: in the cache, as if just read."""
    for row in cycle(rows(2048)):
        yield row.copy()
