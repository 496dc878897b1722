"""OS-ELM as a regressor of scikit-learn."""

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from elmgrove.adapters.sklearn.base import OSELMEstimator
from elmgrove.algebra import Array


class OSELMRegressor(MultiOutputMixin, RegressorMixin, OSELMEstimator):
    """A curved surface through the targets, one or several a row, in one pass of closed form.

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
        return self._learn_numbers(X, y, afresh=True)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learns these rows as well."""
        return self._learn_numbers(X, y, afresh=self._new)

    def predict(self, X: Any) -> Array:
        """The targets, in the shape in which they were learned."""
        outputs = self._outputs(X)
        return outputs.ravel() if self.single_target_ else outputs

    def _learn_numbers(self, X: Any, y: Any, afresh: bool) -> Self:
        X, y = validate_data(
            self, X, y, dtype=np.float64, reset=afresh, multi_output=True, y_numeric=True
        )
        self._learn(X, y.reshape(len(y), -1), afresh)
        self.single_target_ = y.ndim == 1
        return self
