"""Other libraries' detectors, each with its own defaults and its own threshold for 1 %."""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from benchmarks.quality.adapter import RATE
from benchmarks.quality.windows import Matrix
from elmgrove.algebra.rows import Array

# What River's trees know is so many rows.
_TREE_ROWS = 250
#: PyOD's detectors, and the modules they are in.
PYOD = {"ECOD": "ecod", "PCA": "pca", "IForest": "iforest", "LOF": "lof", "KNN": "knn"}
#: Those whose scores depend on a seed.
SEEDED = ("IForest", "HalfSpaceTrees")


class Rival(Protocol):
    """A detector of another library, as it is compared with."""

    def fit(self, train: Array) -> None:
        """Learns normal rows."""
        ...

    def score(self, test: Array) -> Array:
        """Says how anomalous each of these rows is."""
        ...

    @property
    def threshold(self) -> float:
        """The score above which a row is anomalous."""
        ...


class Standard:
    """Columns with mean 0 and deviation 1 over the rows learned; constant ones keep their unit."""

    def __init__(self, train: Array) -> None:
        deviation, spread = train.std(axis=0), np.ptp(train, axis=0)
        self._mean = train.mean(axis=0)
        self._deviation = np.where(spread > 0, deviation, 1.0)

    def __call__(self, rows: Array) -> Array:
        """Scales rows."""
        return np.asarray((rows - self._mean) / self._deviation)


class PyOD:
    """A detector of PyOD with its defaults, on standard columns; contamination is the rate."""

    def __init__(self, name: str, rate: float, seed: int = 0) -> None:
        self._name = name
        options = {"random_state": seed} if name in SEEDED else {}
        self._model: Any = getattr(import_module(f"pyod.models.{PYOD[name]}"), name)(
            contamination=rate, **options
        )

    def fit(self, train: Array) -> None:
        """Learns normal rows."""
        varying = np.ptp(train, axis=0) > 0
        # PCA divides by the variance of each direction: of constant columns that is 0.
        self._kept = varying if self._name == "PCA" and varying.any() else np.full_like(varying, 1)
        self._scale = Standard(train[:, self._kept])
        self._model.fit(self._scale(train[:, self._kept]))

    def score(self, test: Array) -> Array:
        """Scores rows; what is no number, as where it divides by 0, is as anomalous as can be."""
        rows = self._scale(test[:, self._kept])
        scores = np.asarray(self._model.decision_function(rows), np.float64)
        return np.nan_to_num(scores, nan=1e300, posinf=1e300, neginf=-1e300)

    @property
    def threshold(self) -> float:
        """PyOD's own: a quantile of the scores of the rows learned."""
        return float(self._model.threshold_)


class HalfSpaceTrees:
    """River's trees with their defaults, on columns from 0 to 1 over the rows learned.

    They go on learning while they score, as they are meant to: what they know is their last 250
    rows (half of the rows learned where that is less, or they would know nothing). Their threshold
    is a quantile of the scores of the second half of the rows learned, each scored before that.
    """

    def __init__(self, rate: float, seed: int = 0) -> None:
        self._rate, self._seed = rate, seed

    def fit(self, train: Array) -> None:
        """Learns normal rows, one by one."""
        window = max(min(_TREE_ROWS, len(train) // 2), 1)
        trees: Any = import_module("river.anomaly").HalfSpaceTrees
        self._trees = trees(window_size=window, seed=self._seed)
        self._low, spread = train.min(axis=0), np.ptp(train, axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        scores = self.score(train)
        self._limit = float(np.quantile(scores[len(scores) // 2 :], 1 - self._rate))

    def score(self, test: Array) -> Array:
        """Scores rows one by one, and learns each."""
        names = list(range(test.shape[1]))
        return np.array([self._both(names, row) for row in (test - self._low) / self._spread])

    def _both(self, names: list[int], row: Array) -> float:
        x = dict(zip(names, row.tolist(), strict=True))
        score = float(self._trees.score_one(x))
        self._trees.learn_one(x)
        return score

    @property
    def threshold(self) -> float:
        """A quantile of the scores of rows before they were learned."""
        return self._limit


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
