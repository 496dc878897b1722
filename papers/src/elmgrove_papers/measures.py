"""How good scores and decisions are, as the papers measure it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers import require_package


def auc(normal: Array, anomalous: Array) -> float:
    """Computes the ROC-AUC: the share of pairs in which the anomaly has the higher score."""
    labels = np.repeat([False, True], [len(normal), len(anomalous)])
    scores = np.concatenate([normal, anomalous])
    return float(require_package("sklearn.metrics").roc_auc_score(labels, scores))


@dataclass(frozen=True)
class Decisions:
    """How many rows were taken for what. The positive class is normal, as in MLMG's Table II."""

    kept: int
    false_alarms: int
    missed: int
    caught: int

    @classmethod
    def of(cls, normal: Array, anomalous: Array, threshold: float) -> "Decisions":
        """Counts decisions: scores above the threshold are alarms."""
        alarms, caught = int((normal > threshold).sum()), int((anomalous > threshold).sum())
        return cls(len(normal) - alarms, alarms, len(anomalous) - caught, caught)

    @classmethod
    def sum(cls, parts: Iterable["Decisions"]) -> "Decisions":
        """Adds the decisions of several devices."""
        columns = zip(*((p.kept, p.false_alarms, p.missed, p.caught) for p in parts), strict=True)
        return cls(*map(sum, columns))

    @property
    def precision(self) -> float:
        """The share of normal rows among those taken for normal."""
        return self.kept / max(self.kept + self.missed, 1)

    @property
    def recall(self) -> float:
        """The share of the normal rows that were taken for normal."""
        return self.kept / max(self.kept + self.false_alarms, 1)

    @property
    def f_score(self) -> float:
        """The harmonic mean of precision and recall."""
        return 2 * self.kept / max(2 * self.kept + self.missed + self.false_alarms, 1)

    @property
    def accuracy(self) -> float:
        """The share of all rows that were taken for what they are."""
        total = self.kept + self.false_alarms + self.missed + self.caught
        return (self.kept + self.caught) / max(total, 1)

    @property
    def numbers(self) -> dict[str, float]:
        """The columns of Table II."""
        names = ("precision", "recall", "f_score", "accuracy")
        return {name: getattr(self, name) for name in names}
