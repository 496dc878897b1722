"""Estimators for scikit-learn: an outlier detector, a classifier and a regressor.

They check their input as scikit-learn does and scale nothing: put a scaler before them in a
``Pipeline``, since of columns of different size the largest would decide alone.
"""

from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import default_score
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.layer import HiddenLayer, suggested_units
from elmgrove.algebra.oselm import OSELM
from elmgrove.algebra.rows import Array
from elmgrove.detector.detector import Detector
from elmgrove.detector.thresholds import FalseAlarmRate
from elmgrove.errors import require_extra

try:
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        MultiOutputMixin,
        OutlierMixin,
        RegressorMixin,
    )
    from sklearn.utils import check_random_state
    from sklearn.utils.class_weight import compute_class_weight
    from sklearn.utils.multiclass import check_classification_targets, unique_labels
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    require_extra("sklearn", "sklearn")
    raise

__all__ = ["ElmgroveOutlierDetector", "OSELMClassifier", "OSELMRegressor"]


def _layer(estimator: Any, inputs: int, units: int) -> HiddenLayer:
    """Makes the layer from an estimator's parameters.

    A whole number as ``random_state`` is the layer's seed as it stands, so that estimators and
    plain detectors of the same seed can merge.
    """
    seed = estimator.random_state
    if not isinstance(seed, Integral):
        seed = check_random_state(seed).randint(2**31)
    return HiddenLayer(inputs, units, estimator.activation, estimator.weights, int(seed))


class OSELMEstimator(BaseEstimator):
    """An estimator of scikit-learn that learns targets, with an OS-ELM (``model_``) inside."""

    model_: OSELM

    def __init__(
        self,
        units: int = 256,
        *,
        activation: str = "sigmoid",
        weights: str = "uniform",
        ridge: float = 1.0,
        forgetting: float = 1.0,
        random_state: Any = 0,
    ) -> None:
        self.units = units
        self.activation = activation
        self.weights = weights
        self.ridge = ridge
        self.forgetting = forgetting
        self.random_state = random_state

    def _learn(self, X: Array, T: Array, *, from_zero: bool) -> Self:
        model = self._fresh(X.shape[1], T.shape[1]) if from_zero else self.model_
        model.learn_many(X, T)
        self.model_ = model
        return self

    def _fresh(self, inputs: int, outputs: int) -> OSELM:
        layer = _layer(self, inputs, self.units)
        return OSELM(layer, outputs, ridge=self.ridge, forgetting=self.forgetting)

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self)
        return self.model_.predict_many(validate_data(self, X, dtype=np.float64, reset=False))


class ElmgroveOutlierDetector(OutlierMixin, BaseEstimator):
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

    def score_samples(self, X: Any) -> Array:
        """Scores rows, the higher the more normal: minus the detector's score."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return -self.detector_.score_many(X)

    def decision_function(self, X: Any) -> Array:
        """Scores rows less ``offset_``: below 0 is an outlier."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int_]:
        """Predicts 1 for a normal row, -1 for an outlier."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def _fresh(self, inputs: int) -> Detector:
        score = self.measure or default_score(self.activation)
        units = suggested_units(inputs, score) if self.units is None else self.units
        return Detector(
            _layer(self, inputs, units),
            score=score,
            ridge=self.ridge,
            forgetting=self.forgetting,
            # There is no stream on which a rate could be shown before it is relied on.
            threshold=FalseAlarmRate(self.contamination, confidence=0.0),
        )

    def _learn(self, detector: Detector, X: Array) -> Self:
        detector.learn_many(X)
        self.detector_ = detector
        return self

    def _decide(self, rows: Array) -> Self:
        # Not by ``score_samples``, to which these rows have lost the names that they came with.
        scores = -self.detector_.score_many(rows)
        self.offset_ = float(np.quantile(scores, self.contamination))
        return self


class OSELMClassifier(ClassifierMixin, OSELMEstimator):
    """Classifies rows by an OS-ELM with an output for each class; the largest wins.

    Outputs are trained towards 1 for rows of their class and 0 for others. Training is one pass
    in closed form, and ``partial_fit`` in any chunks gives what ``fit`` on all rows would. It
    does well on up to some hundred columns of similar size (scale them), and knows nothing of
    neighbouring pixels or words. More ``units`` bend the boundary more and cost their square
    for each row; ``ridge`` holds them back. ``random_state`` as a whole number is the seed of
    the hidden layer: two estimators with the same parameters, columns and classes cooperate by
    ``a.model_.merge(b.model_.evidence)``, and with a ``class_weight`` by ``a.merge(b)``.

    ``class_weight="balanced"`` lets all classes count alike, however many rows each has: use it
    where rare ones matter as much; where classes are as frequent in use as in learning, None makes
    fewer mistakes. A dict has the weight of each class, 1 where it says none. Evidence is then kept
    by class (``class_evidence_``, ``units``² numbers for each) and weighed once all is learned or
    merged: in any chunks and any order it is the same model.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = OSELMClassifier(units=512).fit(X[:1200] / 16, y[:1200])
    >>> round(model.score(X[1200:] / 16, y[1200:]), 3)
    0.961
    """

    classes_: Array
    class_evidence_: list[Evidence]

    def __init__(
        self,
        units: int = 256,
        *,
        activation: str = "sigmoid",
        weights: str = "uniform",
        ridge: float = 1.0,
        forgetting: float = 1.0,
        random_state: Any = 0,
        class_weight: dict[Any, float] | str | None = None,
    ) -> None:
        super().__init__(
            units,
            activation=activation,
            weights=weights,
            ridge=ridge,
            forgetting=forgetting,
            random_state=random_state,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any) -> Self:
        """Learns these rows and nothing else."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        return self._learn_labels(X, y, unique_labels(y), from_zero=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learns these rows as well; the first call must name all classes there will be."""
        first = not hasattr(self, "model_")
        if first and classes is None:
            raise ValueError("the first call of partial_fit needs classes: all there will be")
        known = unique_labels(classes) if first else self.classes_
        if classes is not None and not np.array_equal(unique_labels(classes), known):
            raise ValueError(f"the first call of partial_fit named the classes {known.tolist()}")
        X, y = validate_data(self, X, y, dtype=np.float64, reset=first)
        return self._learn_labels(X, y, known, from_zero=first)

    def decision_function(self, X: Any) -> Array:
        """Computes the output of each class; for two classes, the second's less the first's."""
        outputs = self._outputs(X)
        return outputs[:, 1] - outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any) -> Array:
        """Predicts the class with the largest output."""
        winners = self._outputs(X).argmax(axis=1)
        labels: Array = self.classes_[winners]
        return labels

    def merge(self, other: "OSELMClassifier") -> Self:
        """Learns what another estimator learned, as if its rows had been learned here.

        Both need a ``class_weight`` and the same classes, columns and parameters.
        """
        if not (self._by_class and other._by_class):
            raise ValueError(
                "merge needs evidence by class, of two fitted estimators with a class_weight; "
                "without one they merge by a.model_.merge(b.model_.evidence)"
            )
        if not np.array_equal(self.classes_, other.classes_):
            raise ValueError(
                f"classes {self.classes_.tolist()} here, {other.classes_.tolist()} there"
            )
        return self._weigh(_added(self.class_evidence_, other.class_evidence_), self.classes_)

    def _learn_labels(self, X: Array, y: Array, classes: Array, from_zero: bool) -> Self:
        one_hot = y[:, np.newaxis] == classes
        unknown = ~one_hot.any(axis=1)
        if unknown.any():
            label = y[unknown].tolist()[0]
            raise ValueError(f"{label!r} is not one of the classes {classes.tolist()}")
        by_class = self.class_weight is not None
        if not from_zero and self._by_class != by_class:
            raise ValueError("class_weight came or went since the first rows were learned: use fit")
        if by_class:
            self._learn_by_class(X, one_hot, classes, from_zero)
        else:
            self._learn(X, one_hot.astype(np.float64), from_zero=from_zero)
            self.__dict__.pop("class_evidence_", None)
        self.classes_ = classes
        return self

    @property
    def _by_class(self) -> bool:
        return hasattr(self, "class_evidence_")

    def _learn_by_class(self, X: Array, one_hot: Array, classes: Array, from_zero: bool) -> None:
        if self.forgetting != 1.0:
            # A class would forget with its own rows, and not with all that come.
            raise ValueError("class_weight needs forgetting=1: evidence by class is not forgotten")
        basis = self._fresh(X.shape[1], len(classes)).basis if from_zero else self.model_.basis
        parts = []
        for rows in one_hot.T:
            model = OSELM(basis.layer, basis.outputs, basis=basis)
            model.learn_many(X[rows], one_hot[rows].astype(np.float64))
            parts.append(model.evidence)
        self._weigh(parts if from_zero else _added(self.class_evidence_, parts), classes)

    def _weigh(self, parts: list[Evidence], classes: Array) -> Self:
        """Solves for the model in which a row of each class counts as much as is asked for."""
        counts = np.array([part.count for part in parts])
        if self.class_weight == "balanced":
            seen = counts > 0.0
            weights = counts.sum() / (seen.sum() * np.where(seen, counts, np.inf))
        else:
            # scikit-learn's reading of a dict, and its refusal of anything else.
            weights = compute_class_weight(self.class_weight, classes=classes, y=classes)
        basis = parts[0].basis
        model = OSELM(basis.layer, basis.outputs, ridge=self.ridge, basis=basis)
        weighted = zip(parts, weights.tolist(), strict=True)
        model.merge(Evidence.sum(part.weighted(weight) for part, weight in weighted))
        self.class_evidence_, self.model_ = parts, model
        return self


def _added(mine: list[Evidence], theirs: list[Evidence]) -> list[Evidence]:
    return [one + other for one, other in zip(mine, theirs, strict=True)]


class OSELMRegressor(MultiOutputMixin, RegressorMixin, OSELMEstimator):
    """Predicts one number or several a row by an OS-ELM, learned in one pass in closed form.

    ``partial_fit`` in any chunks gives what ``fit`` on all rows would. It suits smooth
    relations between columns of similar size (scale them); it is no better than a guess
    outside the region of the rows it learned. More ``units`` bend it more and cost their square
    for each row; ``ridge`` holds them back, and is what to try first where there are few rows.
    ``random_state`` as a whole number is the seed of the hidden layer: two estimators with the
    same parameters, columns and targets cooperate by ``a.model_.merge(b.model_.evidence)``.

    >>> from sklearn.datasets import make_friedman1
    >>> X, y = make_friedman1(1000, random_state=0)
    >>> model = OSELMRegressor(ridge=0.01).fit(X[:800], y[:800])
    >>> round(model.score(X[800:], y[800:]), 3)
    0.929
    """

    def fit(self, X: Any, y: Any) -> Self:
        """Learns these rows and nothing else."""
        return self._learn_numbers(X, y, from_zero=True)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learns these rows as well."""
        return self._learn_numbers(X, y, from_zero=not hasattr(self, "model_"))

    def predict(self, X: Any) -> Array:
        """Predicts the targets, in the shape in which they were learned."""
        outputs = self._outputs(X)
        return outputs.ravel() if self.single_target_ else outputs

    def _learn_numbers(self, X: Any, y: Any, from_zero: bool) -> Self:
        X, y = validate_data(
            self, X, y, dtype=np.float64, reset=from_zero, multi_output=True, y_numeric=True
        )
        self._learn(X, y.reshape(len(y), -1), from_zero=from_zero)
        self.single_target_ = y.ndim == 1
        return self
