"""OS-ELM as a classifier of scikit-learn."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import validate_data

from elmgrove.adapters.sklearn.base import OSELMEstimator
from elmgrove.algebra import OSELM, Array, ClassEvidence, balance


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
    by class (``class_evidence_``), which takes the memory of ``units``² numbers for each, and is
    weighed once all is learned or merged: in any chunks and any order it is the same model.

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
    class_evidence_: ClassEvidence

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
        return self._weigh(self.class_evidence_ + other.class_evidence_, self.classes_)

    def _learn_labels(self, X: Array, y: Array, classes: Array, from_zero: bool) -> Self:
        one_hot = y[:, np.newaxis] == classes
        unknown = ~one_hot.any(axis=1)
        if unknown.any():
            label = y[unknown].tolist()[0]
            raise ValueError(f"{label!r} is not one of the classes {classes.tolist()}")
        by_class = self.class_weight is not None
        if not from_zero and self._by_class != by_class:
            raise ValueError("class_weight came or went since the first rows were learned: use fit")
        T = one_hot.astype(np.float64)
        if by_class:
            self._learn_by_class(X, T, classes, from_zero)
        else:
            self._learn(X, T, from_zero=from_zero)
            self.__dict__.pop("class_evidence_", None)
        self.classes_ = classes
        return self

    @property
    def _by_class(self) -> bool:
        return hasattr(self, "class_evidence_")

    def _learn_by_class(self, X: Array, T: Array, classes: Array, from_zero: bool) -> None:
        if self.forgetting != 1.0:
            # A class would forget with its own rows, and not with all that come.
            raise ValueError("class_weight needs forgetting=1: evidence by class is not forgotten")
        basis = self._fresh(X.shape[1], len(classes)).basis if from_zero else self.model_.basis
        new = ClassEvidence.of(basis, X, T)
        self._weigh(new if from_zero else self.class_evidence_ + new, classes)

    def _weigh(self, evidence: ClassEvidence, classes: Array) -> Self:
        """Solves for the model in which a row of each class counts as much as is asked for."""
        basis = evidence.basis
        model = OSELM(basis.layer, basis.outputs, ridge=self.ridge, basis=basis)
        model.merge(evidence.weighed(self._class_weights(evidence.counts, classes)))
        self.class_evidence_, self.model_ = evidence, model
        return self

    def _class_weights(self, counts: Array, classes: Array) -> Array:
        if self.class_weight == "balanced":
            return balance(counts)
        # scikit-learn's reading of a dict, and its refusal of anything else.
        return compute_class_weight(self.class_weight, classes=classes, y=classes)
