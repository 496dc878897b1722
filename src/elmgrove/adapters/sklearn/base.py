"""What the scikit-learn estimators share: the hidden layer's parameters, and the OS-ELM."""

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from elmgrove.algebra import OSELM, Array, HiddenLayer


class LayerEstimator(BaseEstimator):
    """An estimator of scikit-learn with a hidden layer."""

    activation: str
    weights: str
    random_state: Any

    def _layer(self, inputs: int, units: int) -> HiddenLayer:
        """Makes the layer from the parameters.

        A whole number as ``random_state`` is the layer's seed as it stands, so that estimators
        and plain detectors of the same seed can merge.
        """
        seed = self.random_state
        if not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(2**31)
        return HiddenLayer(inputs, units, self.activation, self.weights, int(seed))


class OSELMEstimator(LayerEstimator):
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

    @property
    def _new(self) -> bool:
        return not hasattr(self, "model_")

    def _learn(self, X: Array, T: Array, *, from_zero: bool) -> Self:
        model = self._fresh(X.shape[1], T.shape[1]) if from_zero else self.model_
        model.learn_many(X, T)
        self.model_ = model
        return self

    def _fresh(self, inputs: int, outputs: int) -> OSELM:
        layer = self._layer(inputs, self.units)
        return OSELM(layer, outputs, ridge=self.ridge, forgetting=self.forgetting)

    def _outputs(self, X: Any) -> Array:
        check_is_fitted(self)
        return self.model_.predict_many(validate_data(self, X, dtype=np.float64, reset=False))
