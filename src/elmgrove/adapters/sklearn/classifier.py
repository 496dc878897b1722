"""OS-ELM as a classifier of scikit-learn."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import validate_data

from elmgrove.adapters.sklearn.base import OSELMEstimator
from elmgrove.algebra import Array


class OSELMClassifier(ClassifierMixin, OSELMEstimator):
    """Classifies rows by an OS-ELM with an output for each class; the largest wins.

    Outputs are trained towards 1 for rows of their class and 0 for others. Training is one pass
    in closed form, and ``partial_fit`` in any chunks gives what ``fit`` on all rows would. It
    does well on up to some hundred columns of similar size (scale them), and knows nothing of
    neighbouring pixels or words. More ``units`` bend the boundary more and cost their square
    for each row; ``ridge`` holds them back. ``random_state`` as a whole number is the seed of
    the hidden layer: two estimators with the same parameters, columns and classes cooperate by
    ``a.model_.merge(b.model_.evidence)``.

    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(return_X_y=True)
    >>> model = OSELMClassifier(units=512).fit(X[:1200] / 16, y[:1200])
    >>> round(model.score(X[1200:] / 16, y[1200:]), 3)
    0.961

    Small machines can have it in whole numbers, saved by ``elmgrove.storage.save``; outputs have
    the order of ``classes_``, and inputs here reach from 0 to 1:

    >>> from elmgrove.rounds import CompactClassifier
    >>> plain = OSELMClassifier(units=512, activation="relu", weights="binary")
    >>> learned = plain.fit(X[:1200] / 16, y[:1200]).model_
    >>> small = CompactClassifier.of(learned.basis, learned.beta, largest=1.0)
    >>> len(small.to_bytes())
    5772
    >>> found = plain.classes_[small.predict(X[1200:] / 16)]
    >>> round(plain.score(X[1200:] / 16, y[1200:]), 3), round(float((found == y[1200:]).mean()), 3)
    (0.958, 0.96)
    """

    classes_: Array

    def fit(self, X: Any, y: Any) -> Self:
        """Learns these rows and nothing else."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        return self._learn_labels(X, y, unique_labels(y), from_zero=True)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learns these rows as well; the first call must name all classes there will be."""
        first = self._new
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

    def _learn_labels(self, X: Array, y: Array, classes: Array, from_zero: bool) -> Self:
        one_hot = y[:, np.newaxis] == classes
        unknown = ~one_hot.any(axis=1)
        if unknown.any():
            label = y[unknown].tolist()[0]
            raise ValueError(f"{label!r} is not one of the classes {classes.tolist()}")
        self._learn(X, one_hot.astype(np.float64), from_zero=from_zero)
        self.classes_ = classes
        return self
