"""Other libraries' detectors, each with its own defaults and its own threshold for 1 %."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.quality.adapter import RATE
from benchmarks.quality.windows import Matrix
from elmgrove.adapters.rivals import PYOD, HalfSpaceTrees, PyOD, Rival, Standard


class LedoitWolf:
    """The Mahalanobis distance under scikit-learn's shrunk covariance, on standard columns."""

    def __init__(self, seed: int) -> None:
        self._model: Any = import_module("sklearn.covariance").LedoitWolf()

    def fit(self, train: Matrix) -> None:
        """Learns normal rows."""
        self._scale = Standard(train)
        self._model.fit(self._scale(train))
        self._limit = float(np.quantile(self.score(train), 1 - RATE))

    def score(self, test: Matrix) -> Matrix:
        """Scores rows."""
        return np.asarray(self._model.mahalanobis(self._scale(test)), np.float64)

    @property
    def threshold(self) -> float:
        """A quantile of the scores of the rows learned."""
        return self._limit


#: Those that can learn row by row, or be had from sums or counts of several devices.
STREAM_OR_MERGE = ("HalfSpaceTrees", "Ledoit-Wolf", "PCA", "ECOD")
#: Those that compare with every row learned: they get at most so many of them.
MOST_ROWS = {"LOF": 5000, "KNN": 5000}
PEERS: dict[str, Callable[[int], Rival]] = {
    **{name: partial(PyOD, name, RATE) for name in PYOD},
    "Ledoit-Wolf": LedoitWolf,
    "HalfSpaceTrees": partial(HalfSpaceTrees, RATE),
}
