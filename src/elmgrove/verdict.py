"""What a detector says about one row."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis

Array = NDArray[Any]


class Cause(NamedTuple):
    """One feature's part in a score: its share of the squared error, seen and expected value."""

    feature: str
    share: float
    seen: float
    expected: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Score, threshold and decision for one row.

    ``threshold`` is infinite while the detector is still learning (``state`` says so).
    ``anomalous`` is about this row; ``alarm`` is what the alarm rule made of it and the rows
    before. ``promoted`` counts quarantined rows that this row made part of the model. ``pattern``
    is the number of the normal pattern that explains the row best (negative: one of others).
    """

    score: float
    threshold: float
    anomalous: bool
    learned: bool
    alarm: bool
    state: str
    promoted: int
    pattern: int
    row: Array = field(repr=False, compare=False)
    output: Array = field(repr=False, compare=False)
    basis: Basis = field(repr=False, compare=False)

    def explain(self, k: int = 3) -> list[Cause]:
        """The k features with the largest share of the error; values in the row's own units.

        This is where the reconstruction fails. ``Detector.blame`` looks for the feature that
        made it fail, which costs more and is often another one.
        """
        error = np.square(self.row - self.output, dtype=np.float64)
        return causes(self.basis, error / (error.sum() or 1.0), self.row, self.output, k)


def causes(basis: Basis, share: Array, seen: Array, expected: Array, k: int) -> list[Cause]:
    """The k features with the largest share, named and in their own units."""
    seen, expected = basis.scaling.undone(seen), basis.scaling.undone(expected)
    names = basis.features
    return [
        Cause(
            names[i] if names else f"column {i}",
            float(share[i]),
            float(seen[i]),
            float(expected[i]),
        )
        for i in np.argsort(share)[::-1][:k]
    ]
