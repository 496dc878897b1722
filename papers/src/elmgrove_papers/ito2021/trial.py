"""A trial of §5.3: a split of the data, and all pairs of its patterns."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, starmap

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.daef import NARROW, WIDE
from elmgrove_papers.data import Labelled
from elmgrove_papers.figure import SEED, Run
from elmgrove_papers.ito2021.settings import PairsSetting
from elmgrove_papers.pairs import TRAINING_SHARE, Pair

BEFORE, AFTER, BP_NN3, BP_NN5, BP_NN3_FL = "before", "after", "BP-NN3", "BP-NN5", "BP-NN3-FL"
#: What the paper does not have.
PATTERNS, THREE_PATTERNS = "after, with patterns", "after, with three patterns each"
OURS = (PATTERNS, THREE_PATTERNS)
#: Of another paper: two shapes of its autoencoder.
DAEF = (WIDE, NARROW)
#: ROC-AUC by the pattern of device A (row) and of device B (column), for each model.
Maps = dict[str, list[list[float]]]


@dataclass(frozen=True)
class PairsTrial:
    """A split of the data; all its models learn the same rows, at most so many a pattern."""

    data: Labelled
    setting: PairsSetting
    number: int
    most: int

    @classmethod
    def of(cls, data: Labelled, setting: PairsSetting, number: int, most: int) -> "PairsTrial":
        """Takes 80 % of the rows, at random, to learn from."""
        split = data.shuffled(TRAINING_SHARE, np.random.default_rng((SEED, number)))
        return cls(split, setting, number, most)

    @property
    def pairs(self) -> list[Pair]:
        """All pairs of patterns; one pattern on both devices is the diagonal."""
        return list(starmap(Pair, combinations_with_replacement(range(len(self.data.names)), 2)))

    def empty(self) -> Array:
        """Makes a map to fill in."""
        return np.full((len(self.data.names),) * 2, np.nan)

    @cached_property
    def single(self) -> Array:
        """The rows in the networks' precision."""
        return self.data.train.astype(np.float32)

    def text(self, model: str, run: Run) -> str:
        """Says what a progress bar shows."""
        return f"Trial {self.number + 1} of {run.trials}: {model}"
