"""A trial for the laws: new detectors, and rows that are known to be normal or strange.

Detectors are called in one way, be they in Elmgrove's own form, scikit-learn's or River's.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Driver(NamedTuple):
    """A detector's calls: learn and score, a row or many. Higher scores are stranger."""

    learn_one: Callable[[Any], object]
    learn_many: Callable[[Any], object]
    score_one: Callable[[Any], float]
    score_many: Callable[[Any], Array]


def drive(detector: Any) -> Driver:
    """Makes the driver that fits the methods of the detector."""
    if hasattr(detector, "score_samples"):
        return _scikit_learn(detector)
    if hasattr(detector, "score_many"):
        return Driver(
            detector.learn_one, detector.learn_many, detector.score_one, detector.score_many
        )
    return _river(detector)


def _scikit_learn(detector: Any) -> Driver:
    """scikit-learn always takes many rows, and scores normal ones high."""

    def score_many(rows: Any) -> Array:
        return -np.asarray(detector.score_samples(rows))

    return Driver(
        learn_one=lambda row: detector.partial_fit([row]),
        learn_many=detector.partial_fit,
        score_one=lambda row: float(score_many([row])[0]),
        score_many=score_many,
    )


def _river(detector: Any) -> Driver:
    """River always takes one row, as a dict."""

    def learn_many(rows: Any) -> None:
        for row in rows:
            detector.learn_one(_named(row))

    return Driver(
        learn_one=lambda row: detector.learn_one(_named(row)),
        learn_many=learn_many,
        score_one=lambda row: detector.score_one(_named(row)),
        score_many=lambda rows: np.array([detector.score_one(_named(row)) for row in rows]),
    )


def _named(row: Sequence[Any]) -> dict[str, Any]:
    return {f"x{column}": value for column, value in enumerate(row)}


class Trial:
    """Makes detectors and rows to try laws on.

    Normal rows are made of two hidden numbers each and a little noise; strange rows have the same
    mean and spread in each column, but nothing in common.
    """

    def __init__(self, make: Callable[[], Any], inputs: int, tolerance: float) -> None:
        self._make = make
        self.inputs = inputs
        self.tolerance = tolerance

    def fresh(self) -> Driver:
        """Makes a detector that learned nothing yet."""
        return drive(self._make())

    def taught(self) -> Driver:
        """Makes a detector that learned the normal rows."""
        driver = self.fresh()
        driver.learn_many(self.normal)
        return driver

    def pattern(self, seed: int, rows: int) -> Array:
        """Makes rows of one pattern: each seed is another pattern."""
        rng = np.random.default_rng(seed)
        mixing = rng.uniform(-0.5, 0.5, (2, self.inputs))
        mixing[rng.integers(2, size=self.inputs), np.arange(self.inputs)] += 1.0
        hidden = rng.uniform(0, 1, (rows, 2))
        noise = rng.normal(0, 0.01, (rows, self.inputs))
        made: Array = hidden @ mixing + noise
        return made

    @cached_property
    def normal(self) -> Array:
        """Rows to learn."""
        return self.pattern(1, 200)[:140]

    @cached_property
    def unseen(self) -> Array:
        """Rows of the pattern that ``normal`` has, not to be learned."""
        return self.pattern(1, 200)[140:]

    @cached_property
    def strange(self) -> Array:
        """Unseen rows with each column shuffled by itself."""
        return np.random.default_rng(2).permuted(self.unseen, axis=0)

    @cached_property
    def other(self) -> Array:
        """Rows of another pattern."""
        return self.pattern(3, 120)

    def differ(self, a: Any, b: Any) -> bool:
        """Says whether two scores, or lists of scores, differ by more than rounding."""
        return bool(np.abs(np.subtract(a, b)).max() > self.tolerance * np.abs(a).max())


Law = Callable[[Trial], None]


def require(holds: Any, otherwise: str) -> None:
    """Raises ``AssertionError`` unless it holds, under ``python -O`` as well."""
    if not holds:
        raise AssertionError(otherwise)
