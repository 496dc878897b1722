"""The detector as an outlier estimator of scikit-learn."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from elmgrove.adapters.sklearn.base import LayerEstimator
from elmgrove.algebra import default_score, suggested_units
from elmgrove.detector import Detector, FalseAlarmRate

Vector = NDArray[np.float64]


class ElmgroveOutlierDetector(OutlierMixin, LayerEstimator):
    """Scores how unlike the rows it learned a row is, by a ``Detector`` (``detector_``) inside.

    Works where normal rows are one cloud, however stretched; not where they are several clouds
    far apart. It learns every row it is given: fit it on normal rows. A typical row scores about
    -1, whatever the units. With ``measure="loss"``, or an activation other than the identity,
    scores are mean squared errors of reconstructing the row; nothing is scaled, so scale before.

    ``units`` None means as many as ``elmgrove.algebra.suggested_units`` says. ``contamination`` is
    the share of the learned rows that ``predict`` calls outliers (-1); after ``partial_fit``, of
    the latest 512 rows. Of new rows it is more, unless the learned ones are many;
    ``detector_.threshold`` allows for that. Each row stands alone: windows over a time series are
    the plain ``Detector``'s. The other parameters are the detector's; an int as ``random_state``
    is its seed.

    >>> from sklearn.datasets import load_digits
    >>> X, digit = load_digits(return_X_y=True)
    >>> zeros, ones = X[digit == 0] / 16, X[digit == 1] / 16
    >>> model = ElmgroveOutlierDetector(contamination=0.05).fit(zeros[:150])
    >>> model.score_samples(np.vstack([zeros[-2:], ones[:2]])).round(1).tolist()
    [-1.3, -2.4, -33.3, -38.6]
    >>> round(model.offset_, 1), round(-model.detector_.threshold, 1)
    (-1.6, -5.1)
    """

    def __init__(
        self,
        units: int | None = None,
        *,
        activation: str = "identity",
        weights: str = "uniform",
        ridge: float = 1e-3,
        forgetting: float = 1.0,
        contamination: float = 0.01,
        random_state: Any = 0,
        measure: str | None = None,
    ) -> None:
        self.units = units
        self.activation = activation
        self.weights = weights
        self.ridge = ridge
        self.forgetting = forgetting
        self.contamination = contamination
        self.random_state = random_state
        self.measure = measure

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns these rows and nothing else; they all decide where outliers begin."""
        X = validate_data(self, X, dtype=np.float64)
        return self._learn(self._fresh(X.shape[1]), X)._decide(X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learns these rows as well; the latest rows learned decide where outliers begin."""
        first = not hasattr(self, "detector_")
        X = validate_data(self, X, dtype=np.float64, reset=first)
        self._learn(self._fresh(X.shape[1]) if first else self.detector_, X)
        return self._decide(self.detector_.gate.recent.rows)

    def score_samples(self, X: Any) -> Vector:
        """Scores rows, the higher the more normal: minus the detector's score."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return -self.detector_.score_many(X)

    def decision_function(self, X: Any) -> Vector:
        """Scores rows less ``offset_``: below 0 is an outlier."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int_]:
        """Predicts 1 for a normal row, -1 for an outlier."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _fresh(self, inputs: int) -> Detector:
        score = self.measure or default_score(self.activation)
        units = suggested_units(inputs, score) if self.units is None else self.units
        return Detector(
            self._layer(inputs, units),
            score=score,
            ridge=self.ridge,
            forgetting=self.forgetting,
            # There is no stream on which a rate could be shown before it is relied on.
            threshold=FalseAlarmRate(self.contamination, confidence=0.0),
        )

    def _learn(self, detector: Detector, X: Vector) -> Self:
        detector.learn_many(X)
        self.detector_ = detector
        return self

    def _decide(self, rows: Vector) -> Self:
        # Not by ``score_samples``, to which these rows have lost the names that they came with.
        scores = -self.detector_.score_many(rows)
        self.offset_ = float(np.quantile(scores, self.contamination))
        return self
