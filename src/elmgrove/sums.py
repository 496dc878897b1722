"""A learner's own sums, in the form in which a row is added fastest."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.basis import Basis
from elmgrove.blas import Blas
from elmgrove.errors import BadInput
from elmgrove.evidence import Evidence
from elmgrove.solver import epsilon, mirrored

Array = NDArray[Any]

# Rows that wait for their addition to V: one row reads and writes all of it, sixteen do no more.
_WAITING = 16


def in_dtype(part: Array, dtype: np.dtype[Any]) -> Array:
    """A copy in the layout that BLAS takes; refused where the dtype's range does not reach."""
    # What overflows is refused right below, in words.
    with np.errstate(over="ignore"):
        copied: Array = np.array(part, dtype, order="F")
    if not np.isfinite(copied).all():
        raise BadInput(f"this evidence holds values beyond the range of {dtype}")
    return copied


class Sums:
    """U, V, energy and count of the rows learned so far, older rows counting φ times less each.

    What is stored is U / scale and V / scale with scale = φ^rows, so forgetting costs nothing:
    a new row is added with weight 1 / scale. Long before the weights leave the range of the
    dtype, the scale is multiplied in. Of U only the upper triangle is kept.
    """

    def __init__(self, basis: Basis, forgetting: float, dtype: np.dtype[Any]) -> None:
        units = basis.layer.units
        self.basis = basis
        self.forgetting = forgetting
        self.U: Array = np.zeros((units, units), dtype, order="F")
        self._V: Array = np.zeros((units, basis.outputs), dtype, order="F")
        self._H: Array = np.empty((units, _WAITING), dtype, order="F")
        self._T: Array = np.empty((basis.outputs, _WAITING), dtype, order="F")
        self._waiting = 0
        self.scale = 1.0
        self.energy = 0.0
        self.count = 0.0
        self.resolution = epsilon(dtype)
        self._smallest = float(np.sqrt(self.resolution))
        self._blas = Blas(dtype)

    def add_row(self, h: Array, t: Array, energy: float) -> None:
        """U ← φU + hᵀh, V ← φV + hᵀt."""
        if self.forgetting < 1.0:
            self._age(1)
        weight = 1.0 / self.scale
        self.U = self._blas.syr(weight, h, a=self.U, overwrite_a=1)
        self._H[:, self._waiting] = h if weight == 1.0 else weight * h
        self._T[:, self._waiting] = t
        self._waiting += 1
        if self._waiting == _WAITING:
            self._settle()
        self.energy += energy
        self.count += 1.0

    @property
    def V(self) -> Array:
        """Σ hᵀt / scale, over all rows; reading it changes nothing, from any thread."""
        if not self._waiting:
            return self._V
        H, T = self._H[:, : self._waiting], self._T[:, : self._waiting]
        V: Array = self._blas.gemm(1.0, H, T, trans_b=1, beta=1.0, c=self._V)
        return V

    def outputs(self, w: Array) -> Array:
        """wᵀV, without adding the waiting rows to V first."""
        gemv, k = self._blas.gemv, self._waiting
        y: Array = gemv(1.0, self._V, w, trans=1)
        if k:
            shares = gemv(1.0, self._H[:, :k], w, trans=1)
            y = gemv(1.0, self._T[:, :k], shares, beta=1.0, y=y, overwrite_y=1)
        return y

    def add_rows(self, H: Array, T: Array) -> None:
        """The same for many rows at once, in their order."""
        rows = len(H)
        if self.forgetting < 1.0:
            # Row i of k is followed by k − 1 − i others; √φ on each side of both products.
            root = np.sqrt(self.forgetting ** np.arange(rows - 1, -1, -1.0)).astype(H.dtype)
            H, T = H * root[:, None], T * root[:, None]
            self._age(rows)
        weight = 1.0 / self.scale
        self.U = self._blas.syrk(weight, H.T, beta=1.0, c=self.U, overwrite_c=1)
        self._V = self._blas.gemm(weight, H.T, T.T, trans_b=1, beta=1.0, c=self._V, overwrite_c=1)
        flat = T.reshape(-1)
        self.energy += float(self._blas.dot(flat, flat))
        self.count += self._weight_of(rows)

    def load(self, evidence: Evidence) -> None:
        """Puts this evidence in the place of all that was learned."""
        self.U, self._V = (in_dtype(part, self.U.dtype) for part in (evidence.U, evidence.V))
        self._waiting = 0
        self.scale, self.energy, self.count = 1.0, evidence.energy, evidence.count
        self.resolution = max(evidence.resolution, epsilon(self.U.dtype))

    @property
    def evidence(self) -> Evidence:
        """The sums as a value of their own, unaffected by what is learned later."""
        return Evidence(
            self.basis,
            mirrored(self.U) * self.scale,
            self.V * self.scale,
            self.energy,
            self.count,
            self.resolution,
        )

    def _age(self, rows: int) -> None:
        faded = self.forgetting**rows
        self.scale *= faded
        self.energy *= faded
        self.count *= faded
        if self.scale < self._smallest:
            self.U *= self.scale
            self._settle()
            self._V *= self.scale
            self.scale = 1.0

    def _settle(self) -> None:
        if self._waiting:
            H, T = self._H[:, : self._waiting], self._T[:, : self._waiting]
            self._V = self._blas.gemm(1.0, H, T, trans_b=1, beta=1.0, c=self._V, overwrite_c=1)
            self._waiting = 0

    def _weight_of(self, rows: int) -> float:
        """1 + φ + … + φ^(rows − 1)."""
        if self.forgetting == 1.0:
            return float(rows)
        return (1.0 - self.forgetting**rows) / (1.0 - self.forgetting)
