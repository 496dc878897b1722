"""How good scores and decisions are, as the papers measure it."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra import Array
from elmgrove_papers import require_package


def auc(normal: Array, anomalous: Array) -> float:
    """The share of pairs in which the anomaly has the higher score (ROC-AUC); 0.5 is chance."""
    strange = np.repeat([False, True], [len(normal), len(anomalous)])
    scores = np.concatenate([normal, anomalous])
    return float(require_package("sklearn.metrics").roc_auc_score(strange, scores))


@dataclass(frozen=True)
class Decisions:
    """How many rows were taken for what. The positive class is normal, as in MLMG's Table II."""

    kept: int
    false_alarms: int
    missed: int
    caught: int

    @classmethod
    def of(cls, normal: Array, anomalous: Array, threshold: float) -> "Decisions":
        """Scores above the threshold are alarms."""
        alarms, caught = int((normal > threshold).sum()), int((anomalous > threshold).sum())
        return cls(len(normal) - alarms, alarms, len(anomalous) - caught, caught)

    @classmethod
    def sum(cls, parts: Iterable["Decisions"]) -> "Decisions":
        """Those of several devices, as one."""
        columns = zip(*((p.kept, p.false_alarms, p.missed, p.caught) for p in parts), strict=True)
        return cls(*map(sum, columns))

    @property
    def precision(self) -> float:
        """Of the rows taken for normal, those that are."""
        return self.kept / max(self.kept + self.missed, 1)

    @property
    def recall(self) -> float:
        """Of the normal rows, those taken for it."""
        return self.kept / max(self.kept + self.false_alarms, 1)

    @property
    def f_score(self) -> float:
        """The harmonic mean of the two."""
        return 2 * self.kept / max(2 * self.kept + self.missed + self.false_alarms, 1)

    @property
    def accuracy(self) -> float:
        """Of all rows, those taken for what they are."""
        total = self.kept + self.false_alarms + self.missed + self.caught
        return (self.kept + self.caught) / max(total, 1)

    @property
    def numbers(self) -> dict[str, float]:
        """The columns of Table II."""
        names = ("precision", "recall", "f_score", "accuracy")
        return {name: getattr(self, name) for name in names}
