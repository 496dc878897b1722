"""What a detector says about one row."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Cause(NamedTuple):
    """One feature's part in a score: ``share`` of the squared error, expected and seen value."""

    feature: str
    share: float
    seen: float
    expected: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """Score, threshold and decision for one row.

    ``threshold`` is infinite while the detector is still learning (``state`` says so).
    ``anomalous`` is about this row; ``alarm`` is what the alarm rule made of it and the rows
    before. ``promoted`` counts quarantined rows that this row made part of the model.
    """

    score: float
    threshold: float
    anomalous: bool
    learned: bool
    alarm: bool
    state: str
    promoted: int = 0
    row: NDArray[Any] = field(repr=False, compare=False, kw_only=True)
    output: NDArray[Any] = field(repr=False, compare=False, kw_only=True)
    features: tuple[str, ...] | None = field(default=None, repr=False, compare=False, kw_only=True)

    def explain(self, k: int = 3) -> list[Cause]:
        """The k features with the largest share of the error, in the detector's (scaled) units."""
        return explained(self.row, self.output, self.features, k)


def explained(
    row: NDArray[Any], output: NDArray[Any], features: tuple[str, ...] | None, k: int
) -> list[Cause]:
    """The k features in which a row and its reconstruction differ most."""
    error = np.square(row - output, dtype=np.float64)
    total = float(error.sum()) or 1.0
    worst = np.argsort(error)[::-1][:k]
    return [
        Cause(
            features[i] if features else f"column {i}",
            float(error[i]) / total,
            float(row[i]),
            float(output[i]),
        )
        for i in worst
    ]
