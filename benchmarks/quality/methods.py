"""All methods under one protocol: fit normal rows, score later ones, say where anomalous begins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from benchmarks.quality import adapter
from benchmarks.quality.peers import MOST_ROWS, PEERS, SEEDED, STREAM_OR_MERGE
from benchmarks.quality.windows import Matrix, stacked, stacked_each
from elmgrove import HiddenLayer, Scaling
from elmgrove.algebra.layer import suggested_units

WINDOW = 10
FIRST = "Elmgrove 0.1 (loss)"
DEFAULT = "Elmgrove"
#: Rows are thinned with this seed where a method gets at most so many.
_THINNING = 1


class Method(Protocol):
    """A detector as it is compared."""

    def fit(self, train: Matrix) -> None:
        """Learns normal rows, which follow each other."""

    def score(self, test: Matrix) -> Matrix:
        """Says how anomalous each of these rows is, which follow each other."""

    @property
    def threshold(self) -> float:
        """The score above which a row is anomalous, for a rate of 1 %."""


@dataclass(frozen=True)
class Entry:
    """A line of the table: a method, or the same with windows of rows."""

    name: str
    make: Callable[[int], Method]
    seeded: bool
    #: Whether windows are asked for, by this line's name or stacked for it.
    windows: bool = False
    own: bool = False
    #: The score that is asked of Elmgrove; None is its default.
    score: str | None = None
    #: Whether it can learn row by row or be merged.
    streams: bool = True

    @property
    def peer(self) -> str:
        """The method's name without the windows."""
        return self.name.removesuffix(_ENDING)


class Own:
    """Elmgrove, made for the rows that it learns."""

    def __init__(self, window: int | None, score: str | None, seed: int) -> None:
        self._asked = (window, score, seed)

    def fit(self, train: Matrix) -> None:
        """Learns normal rows."""
        self.watcher = adapter.made(train, *self._asked)
        self.watcher.learn(train)

    def score(self, test: Matrix) -> Matrix:
        """Scores rows without learning them."""
        return self.watcher.score(test)

    @property
    def threshold(self) -> float:
        """The detector's own."""
        return self.watcher.threshold


class FirstRelease:
    """The loss of 0.1 as its equations have it: one layer, β = (U + λI)⁻¹V, mean squared error.

    ``units`` and ``scaling`` are those of ``elmgrove learn`` unless stated.
    """

    def __init__(self, seed: int, units: int | None = None, scaling: str = "standard") -> None:
        self._seed, self._units, self._kind = seed, units, scaling

    def fit(self, train: Matrix) -> None:
        """Learns normal rows, of one device or of several: their sums are the same."""
        width = train.shape[1]
        self._scaling = Scaling.fitted(self._kind, train)
        units = self._units or suggested_units(width, "loss")
        self._layer = HiddenLayer(width, units, seed=self._seed)
        X = self._scaled(train)
        H = self._layer(X)
        U = H.T @ H + 1e-3 * np.eye(units)
        self._beta = cho_solve(cho_factor(U), H.T @ X)
        self._limit = float(np.quantile(self.score(train), 1 - adapter.RATE))

    def score(self, test: Matrix) -> Matrix:
        """Gives the mean squared error of each row's reconstruction."""
        X = self._scaled(test)
        return np.asarray(np.square(X - self._layer(X) @ self._beta).mean(axis=1))

    @property
    def threshold(self) -> float:
        """A quantile of the scores of the rows learned."""
        return self._limit

    def _scaled(self, rows: Matrix) -> Matrix:
        return rows if self._kind == "none" else self._scaling(rows)


class Stacked:
    """Any method on windows of rows; the rows to learn are thinned if it gets at most so many."""

    def __init__(self, method: Method, window: int, most: int | None) -> None:
        self._method, self._window, self._most = method, window, most

    def fit(self, train: Matrix) -> None:
        """Learns windows of normal rows."""
        rows = stacked(train, self._window)
        if self._most is not None and len(rows) > self._most:
            chosen = np.random.default_rng(_THINNING).permutation(len(rows))[: self._most]
            rows = rows[np.sort(chosen)]
        self._method.fit(rows)

    def score(self, test: Matrix) -> Matrix:
        """Scores the window that ends at each row."""
        return self._method.score(stacked_each(test, self._window))

    @property
    def threshold(self) -> float:
        """The method's."""
        return self._method.threshold


def _own(name: str, window: int | None, score: str | None) -> Entry:
    windows = window != 1
    return Entry(name, lambda seed: Own(window, score, seed), True, windows, True, score)


def _peer(name: str, window: int) -> Entry:
    title = name if window == 1 else name + _ENDING
    return Entry(
        title,
        lambda seed: Stacked(PEERS[name](seed), window, MOST_ROWS.get(name)),
        name in SEEDED,
        windows=window > 1,
        streams=name in STREAM_OR_MERGE,
    )


_ENDING = f", w = {WINDOW}"
OWN = [
    _own(DEFAULT, None, None),
    _own("Elmgrove distance", 1, "distance"),
    _own("Elmgrove distance" + _ENDING, WINDOW, "distance"),
    _own("Elmgrove loss", 1, "loss"),
    _own("Elmgrove loss" + _ENDING, WINDOW, "loss"),
]
OTHERS = [
    Entry(FIRST, lambda seed: FirstRelease(seed), True),
    *(_peer(name, window) for name in PEERS for window in (1, WINDOW)),
]


def entries(windows: bool) -> list[Entry]:
    """Lists the methods to compare; without windows where rows do not follow each other."""
    return [
        entry for entry in OWN + OTHERS if windows or not entry.windows or entry.name == DEFAULT
    ]
