# The part of pyoselm's interface that the benchmarks use; the package's own has no annotations.
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

class OSELMRegressor:
    def __init__(
        self,
        n_hidden: int = ...,
        activation_func: str | Callable[[NDArray[np.float64]], NDArray[np.float64]] = ...,
        *,
        use_woodbury: bool = ...,
        random_state: int = ...,
    ) -> None: ...
    def fit(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> Self: ...
    def partial_fit(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> Self: ...
    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]: ...
