"""Ito 2021, §5.3: two devices that know one pattern each, alone and after they have merged."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import numpy as np

from elmgrove.algebra import Array, Basis
from elmgrove.detector import PatternRule
from elmgrove.federation import Charter, Member
from elmgrove_papers.answers import Score, anomalous, unknown
from elmgrove_papers.data import Labelled
from elmgrove_papers.fleet import Fleet, Meeting, in_memory
from elmgrove_papers.measures import auc

#: Samples to learn from; anomalies as a share of the normal test rows.
TRAINING_SHARE, ANOMALY_SHARE = 0.8, 0.1


class Tested(NamedTuple):
    """Rows of A's pattern, of B's (none if it is the same), and of all others."""

    own: Array
    peers: Array
    anomalous: Array

    def seen_by_b(self) -> "Tested":
        """Gives the same rows, where B's pattern is the own one."""
        return Tested(self.peers, self.own, self.anomalous)

    def auc(self, score: Score) -> float:
        """Gives the ROC-AUC where both patterns are normal."""
        normal = np.vstack([self.own, self.peers])
        return auc(score(normal), score(self.anomalous))

    def aucs(self, score: Score) -> dict[str, float]:
        """Gives the ROC-AUC where both patterns are normal, and that of each alone."""
        own, peers, anomalous = map(score, self)
        return {
            "auc": auc(np.concatenate([own, peers]), anomalous),
            "auc_own": auc(own, anomalous),
            "auc_peers": auc(peers, anomalous),
        }


class Pair(NamedTuple):
    """The patterns p_A and p_B, by label. Of one and the same, each device has half the rows."""

    a: int
    b: int

    def learned(self, data: Labelled, most: int) -> tuple[Array, Array]:
        """Gives the numbers of the rows that A and B learn, at most so many of a pattern."""
        own, peers = (np.flatnonzero(data.train_label == label)[:most] for label in self)
        return (own[::2], own[1::2]) if self.a == self.b else (own, peers)

    def tested(self, data: Labelled) -> Tested:
        """Gives what both are tested with, of a split that has shuffled the rows."""
        own = data.test[data.test_label == self.a]
        peers = data.test[(data.test_label == self.b) & (data.test_label != self.a)]
        anomalous = np.flatnonzero(~np.isin(data.test_label, self))
        few = max(1, int(ANOMALY_SHARE * (len(own) + len(peers))))
        return Tested(own, peers, data.test[anomalous[:few]])

    @property
    def names(self) -> tuple[str, str]:
        """The devices' names, after what each learns; of one pattern each has half."""
        if self.a == self.b:
            return f"{self.a}-first-half", f"{self.a}-second-half"
        return f"{self.a}", f"{self.b}"


class Encounter(NamedTuple):
    """Two devices that have learned, and have not heard from each other yet."""

    fleet: Fleet
    names: tuple[str, str]

    def alone(self) -> tuple[Score, Score]:
        """Gives how device A scores rows, and how device B does."""
        a, b = (self.fleet.detector(name).score_many for name in self.names)
        return a, b

    def merged(self) -> Score:
        """Runs the cooperative model update, and gives how device A scores rows then."""
        self.fleet.sync()
        return anomalous(self.fleet, self.names[0])

    def answers(self) -> list[tuple[Score, Score]]:
        """Lets the two sync, and gives the scores of each by ``anomalous`` and by ``unknown``."""
        self.fleet.sync()
        return [(anomalous(self.fleet, name), unknown(self.fleet, name)) for name in self.names]


class PatternDevices:
    """Devices that know one pattern each; with a ``rule``, by a model for each of its parts.

    Each learns its pattern once, at most so many rows of it; in every pair that it is in it
    begins from that state. With ``merged`` both are one model.
    """

    def __init__(
        self,
        data: Labelled,
        most: int,
        basis: Basis,
        rule: PatternRule | None,
        merged: bool = True,
    ) -> None:
        self._data = data
        self._most = most
        self._rule = rule
        self._charter = Charter("devices", basis, merged=merged)
        self._states: dict[str, bytes] = {}

    @contextmanager
    def met(self, pair: Pair, meeting: Meeting = in_memory) -> Iterator[Encounter]:
        """Lets the two devices of a pair meet."""
        charter = self._charter
        with closing(Fleet(charter.basis, self._rule, meeting, charter.merged)) as fleet:
            for name, rows in zip(pair.names, pair.learned(self._data, self._most), strict=True):
                fleet.join(self._member(name, rows))
            yield Encounter(fleet, pair.names)

    def _member(self, name: str, rows: Array) -> Member:
        if name not in self._states:
            member = self._charter.start(name, patterns=self._rule)
            member.detector.learn_many(self._data.train[rows])
            self._states[name] = member.to_bytes()
        return Member.from_bytes(self._states[name])
