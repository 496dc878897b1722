"""One way to call detectors in Elmgrove's own form, scikit-learn's and River's."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]


class Driver(NamedTuple):
    """A detector's calls: learn and score, a row or many. Higher scores are stranger."""

    learn_one: Callable[[Any], object]
    learn_many: Callable[[Any], object]
    score_one: Callable[[Any], float]
    score_many: Callable[[Any], Scores]


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

    def score_many(rows: Any) -> Scores:
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
