"""The part of a network that never learns: from rows to what its hidden units say."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.basis import Basis
from elmgrove.blas import Blas
from elmgrove.errors import BadInput
from elmgrove.rows import Rows

Array = NDArray[Any]


class Network:
    """A hidden layer in a number format, and the check of what comes in and should come out."""

    def __init__(self, basis: Basis, dtype: Any) -> None:
        if np.dtype(dtype) not in (np.float64, np.float32):
            raise BadInput(f"dtype must be float64 or float32, not {np.dtype(dtype)}")
        layer = basis.layer
        self.basis = basis
        self.dtype = np.dtype(dtype)
        self._inputs = Rows(layer.inputs, self.dtype, basis.features)
        self._targets = Rows(basis.outputs, self.dtype)
        self._blas = Blas(self.dtype)
        self._alpha_t = layer.alpha.astype(self.dtype).T
        self._b = layer.b.astype(self.dtype)
        self._activate = layer.activate if layer.activation != "identity" else None

    def hidden_one(self, x: Array) -> Array:
        """h of a row that is known to be good."""
        h: Array = self._blas.gemv(1.0, self._alpha_t, x, beta=1.0, y=self._b)
        return h if self._activate is None else self._activate(h)

    def hidden_many(self, X: Array) -> Array:
        """H of rows that are known to be good."""
        # SciPy's BLAS throughout: NumPy brings another one, whose threads would get in its way.
        H: Array = self._blas.gemm(1.0, self._alpha_t, X.T).T
        H += self._b
        return H if self._activate is None else self._activate(H)

    def _pairs(self, X: Any, T: Any) -> tuple[Array, Array]:
        X, _ = self._inputs.many(X)
        T, _ = self._targets.many(T)
        if len(X) != len(T):
            raise BadInput(f"{len(X)} rows of inputs, but {len(T)} rows of targets")
        return X, T
