"""Centroids: the drift detection of Yamada and Matsutani, written from their description.

"A Lightweight Concept Drift Detection Method for On-Device Learning on Resource-Limited Edge
Devices" (2023, arXiv 2212.09637), for one label. What is taken as their rule:

- The centroid c of the rows learned is kept, and the L1 distance of each such row from it gives the
  limit: mean + z · standard deviation, with z = 1.
- A row whose reconstruction error is above its own limit starts a check. Their error is that of an
  OS-ELM autoencoder; here it is Elmgrove's by the loss, with the threshold for 1 % of normal rows.
- In a check of W rows the centroid of the recent rows is updated with each, (c·n + x)/(n + 1), and
  with the last of them its L1 distance from c is compared with the limit: drift, or no check any
  more.

W is 10, 50 or 150 rows. The full text was not at hand: rule and parameters are as remembered.
"""

import numpy as np

from benchmarks.quality.windows import Matrix
from elmgrove import Detector, FalseAlarmRate

WINDOWS = (10, 50, 150)
_DEVIATIONS = 1.0


class Centroids:
    """Follows rows, and says with which of them drift is found."""

    def __init__(self, train: Matrix, window: int) -> None:
        self._centroid = train.mean(axis=0)
        away = np.abs(train - self._centroid).sum(axis=1)
        self._limit = float(away.mean() + _DEVIATIONS * away.std())
        self._errors = Detector.for_data(
            train, window=1, score="loss", warmup=0, threshold=FalseAlarmRate(0.01, 0.0)
        )
        self._errors.learn_many(train)
        self._window, self._checked = window, 0
        self._recent = self._centroid

    def found(self, rows: Matrix) -> list[int]:
        """Takes in rows; lists those with which drift was found."""
        anomalous = self._errors.score_many(rows) > self._errors.threshold
        return [row for row, x in enumerate(rows) if self._drifts(x, bool(anomalous[row]))]

    def _drifts(self, x: Matrix, anomalous: bool) -> bool:
        if not self._checked and not anomalous:
            return False
        n = self._checked
        self._recent = (self._recent * n + x) / (n + 1)
        self._checked = (n + 1) % self._window
        away = float(np.abs(self._recent - self._centroid).sum())
        return self._checked == 0 and away >= self._limit
