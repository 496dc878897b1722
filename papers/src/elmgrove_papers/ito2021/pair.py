"""Ito 2021, §5.3: two devices that know one pattern each, and what device A is tested with."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers.data import Labelled
from elmgrove_papers.ito2021.settings import ANOMALY_SHARE
from elmgrove_papers.measures import auc

Score = Callable[[Array], Array]


class Tested(NamedTuple):
    """Rows of A's pattern, of B's (none if it is the same), and of all others."""

    own: Array
    peers: Array
    strange: Array

    def auc(self, score: Score) -> float:
        """ROC-AUC where both patterns are normal."""
        normal = np.vstack([self.own, self.peers])
        return auc(score(normal), score(self.strange))


class Pair(NamedTuple):
    """The patterns p_A and p_B, by label. Of one and the same, each device has half the rows."""

    a: int
    b: int

    def learned(self, data: Labelled, most: int) -> tuple[Array, Array]:
        """The numbers of the rows that A and B learn, at most so many of a pattern."""
        own, peers = (np.flatnonzero(data.train_label == label)[:most] for label in self)
        return (own[::2], own[1::2]) if self.a == self.b else (own, peers)

    def tested(self, data: Labelled) -> Tested:
        """What both are tested with; the split has shuffled the rows, so the first few will do."""
        own = data.test[data.test_label == self.a]
        peers = data.test[(data.test_label == self.b) & (data.test_label != self.a)]
        strange = np.flatnonzero(~np.isin(data.test_label, self))
        few = max(1, int(ANOMALY_SHARE * (len(own) + len(peers))))
        return Tested(own, peers, data.test[strange[:few]])
