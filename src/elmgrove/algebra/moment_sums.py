"""Summing rows up: the moments of a stream, to which many rows are added at a time."""

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence
from elmgrove.algebra.linalg import EPSILON, mirrored
from elmgrove.algebra.moments import Moments, mixing, zero_evidence
from elmgrove.algebra.rows import Array
from elmgrove.algebra.unsent import Fresh
from elmgrove.errors import BadInput

#: Rows that wait for their addition: one row reads and writes all of C, so many do no more.
WAITING = 512
# Rows a product: large enough for BLAS to run at full speed, small enough for its caches.
_BLOCK = 1024


class MomentSums:
    """The moments of the rows learned so far; new rows wait and are added many at a time.

    With every row, the older ones count φ times less. The centre is 0 where rows are scaled, else
    the first row learned.
    """

    def __init__(self, basis: Basis, forgetting: float) -> None:
        self.basis = basis
        self.forgetting = forgetting
        self._A = mixing(basis)
        self._centred = basis.scaling.kind != "none"
        self._rows: Array = np.empty((WAITING, basis.inputs))
        self.waiting = 0
        #: What was learned since something was last given away.
        self.fresh = Fresh(basis)
        self.load(zero_evidence(basis))

    def load(self, evidence: Evidence) -> None:
        if not isinstance(evidence, Moments):
            raise BadInput("a distance is computed from moments, and this evidence has none")
        self._C = np.array(evidence.C, np.float64, order="F")
        self._s, self._e = np.array(evidence.s), np.array(evidence.e)
        self._count = evidence.count
        self._centre: Array | None = evidence.centre
        if not self._centred and evidence.count <= 0.0:
            self._centre = None
        self._resolution = max(evidence.resolution, EPSILON)
        self.waiting = 0
        if evidence.count > 0.0:
            self.fresh.doubt(evidence)

    def add(self, x: Array) -> None:
        if self.waiting == WAITING:
            self.fold()
        self._rows[self.waiting] = x
        self.waiting += 1

    def add_many(self, X: Array) -> None:
        self.fold()
        for start in range(0, len(X), _BLOCK):
            self._put(X[start : start + _BLOCK])

    def fold(self) -> None:
        if self.waiting:
            self._put(self._rows[: self.waiting])
            self.waiting = 0

    @property
    def rows_waiting(self) -> Array:
        return self._rows[: self.waiting]

    @property
    def count(self) -> float:
        """The rows learned, as far as they are not forgotten."""
        if self.forgetting == 1.0:
            return self._count + self.waiting
        faded = self.forgetting**self.waiting
        return self._count * faded + (1.0 - faded) / (1.0 - self.forgetting)

    @property
    def evidence(self) -> Moments:
        """What was learned, as a value that later rows do not change."""
        self.fold()
        return self.settled

    @property
    def settled(self) -> Moments:
        """What was learned but for the rows that wait."""
        centre = np.zeros(len(self._s)) if self._centre is None else self._centre
        return Moments(self.basis, self._C, self._s, self._e, self._count, centre, self._resolution)

    def _put(self, X: Array) -> None:
        self.fresh.add(X, self.forgetting)
        if self._centre is None:
            self._centre = np.array(X[0], np.float64)
        Y = X if self._centred and not self._centre.any() else X - self._centre
        if self.forgetting < 1.0:
            # Row i of k is followed by k − 1 − i others; √φ on each side of the product.
            root = np.sqrt(self.forgetting ** np.arange(len(X) - 1, -1, -1.0))
            faded = self.forgetting ** len(X)
            self._C *= faded
            self._s, self._e, self._count = self._s * faded, self._e * faded, self._count * faded
            self._s += (root**2) @ Y
            self._count += float(root @ root)
            Y = Y * root[:, np.newaxis]
        else:
            self._s += Y.sum(axis=0)
            self._count += len(X)
        self._e += np.einsum("ij,ij->j", Y, Y)
        if self._A is None:
            self._C = mirrored(
                dsyrk(1.0, Y.T, beta=1.0, c=np.asfortranarray(self._C), overwrite_c=1)
            )
            self._C[np.diag_indices_from(self._C)] = self._e
        else:
            H = dgemm(1.0, self._A.T, Y.T)
            self._C = dgemm(
                1.0, H, Y.T, trans_b=1, beta=1.0, c=np.asfortranarray(self._C), overwrite_c=1
            )
