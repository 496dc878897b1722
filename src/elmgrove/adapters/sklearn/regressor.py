"""OS-ELM as a regressor of scikit-learn."""

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from elmgrove.adapters.sklearn.base import OSELMEstimator
from elmgrove.algebra import Array


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
        return self._learn_numbers(X, y, from_zero=self._new)

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
