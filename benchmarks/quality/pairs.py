"""Pairs of MNIST's digits and HAR's activities, as Ito 2021 (§5.3) has them.

Two devices learn one pattern each and merge; both patterns are normal, all others are not, and
anomalies are a tenth of the normal test rows. Splits are those of ``elmgrove paper``. Peers that
can't merge learn the rows of both in one place.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.quality import adapter
from benchmarks.quality.measure import Quality, measured
from benchmarks.quality.methods import DEFAULT, FIRST, OTHERS, OWN, FirstRelease, Method
from benchmarks.quality.windows import Matrix
from elmgrove_papers.data import Labelled, har_scaled, mnist
from elmgrove_papers.figure import SEED
from elmgrove_papers.ito2021.settings import HAR, MNIST
from elmgrove_papers.pairs import TRAINING_SHARE, Pair

#: Rows of a pattern that peers learn at most: those that compare rows would take hours.
PEERS_ROWS = 1000
#: Rows of a pattern that a quick run learns at most.
QUICK_ROWS = 400


class Paired(NamedTuple):
    """What a set of pairs is called, where its rows are, its loader, and 0.1's hidden units."""

    name: str
    file: str
    units: int


SETS = {
    one.name: one
    for one in (
        Paired("HAR pairs", "uci_har_time265.npz", HAR.units),
        Paired("MNIST pairs", "mnist.npz", MNIST.units),
    )
}


@dataclass(frozen=True)
class PairCase:
    """One pair of one split."""

    set: str
    a: int
    b: int
    trial: int
    peers: bool
    quick: bool

    @property
    def device(self) -> str:
        """The pair's name, with its split: methods are compared on the same rows."""
        return f"{self.a} and {self.b}, split {self.trial + 1}"


class Merged:
    """Two of Elmgrove's detectors that learn a pattern each, of which the first then merges."""

    def __init__(self, score: str | None, seed: int, first: int) -> None:
        self._asked = (1, score, seed)
        self._first = first

    def fit(self, train: Matrix) -> None:
        """Learns the first rows here, the others there, and merges."""
        here, there = (adapter.made(train, *self._asked) for _ in range(2))
        here.learn(train[: self._first])
        there.learn(train[self._first :])
        here.merge(there)
        self._watcher = here

    def score(self, test: Matrix) -> Matrix:
        """Scores rows at the first device."""
        return self._watcher.score(test)

    @property
    def threshold(self) -> float:
        """The first device's own."""
        return self._watcher.threshold


def cases(name: str, quick: bool) -> list[PairCase]:
    """Lists the pairs: one split for each of three seeds; peers have every third pair of one."""
    labels = 6 if name == "HAR pairs" else 10
    chosen = list(combinations(range(labels), 2))
    chosen = chosen[::5][:3] if quick else chosen
    return [
        PairCase(name, a, b, trial, trial == 0 and (number % 3 == 0 or quick), quick)
        for trial in range(1 if quick else 3)
        for number, (a, b) in enumerate(chosen)
    ]


def compared(case: PairCase, folder: Path) -> dict[str, Quality]:
    """Measures every method on a pair."""
    data, pair = _split(case.set, case.trial, folder), Pair(case.a, case.b)
    rows = [data.train[one] for one in pair.learned(data, QUICK_ROWS if case.quick else 10**6)]
    tested = pair.tested(data)
    test = np.vstack(tested)
    labels = np.arange(len(test)) >= len(test) - len(tested.anomalous)
    train, first, seed = np.vstack(rows), len(rows[0]), SEED + case.trial
    methods: dict[str, Method] = {
        entry.name: Merged(entry.score, seed, first)
        for entry in OWN
        if not entry.windows or entry.name == DEFAULT
    }
    methods[FIRST] = FirstRelease(seed, SETS[case.set].units, "none")
    found = {name: measured(one, train, test, labels) for name, one in methods.items()}
    if case.peers:
        few = np.vstack([one[:PEERS_ROWS] for one in rows])
        found |= {
            entry.name: measured(entry.make(seed), few, test, labels)
            for entry in OTHERS
            if entry.name != FIRST and not entry.windows
        }
    return found


@lru_cache(1)
def _data(name: str, folder: Path) -> Labelled:
    return har_scaled(folder) if name == "HAR pairs" else mnist(folder)


@lru_cache(1)
def _split(name: str, trial: int, folder: Path) -> Labelled:
    """Splits as a trial of the paper's pairs does."""
    return _data(name, folder).shuffled(TRAINING_SHARE, np.random.default_rng((SEED, trial)))
