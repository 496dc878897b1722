"""Moments: the sums over rows that a distance is computed from, about a stated centre."""

from typing import Any, ClassVar, Self

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.blas import Blas
from elmgrove.algebra.cholesky import epsilon, mirrored
from elmgrove.algebra.evidence import Admission, Evidence, honest_resolution
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput

#: Rows that wait for their addition: one row reads and writes all of C, so many do no more.
WAITING = 256
# Rows a product: large enough for BLAS to run at full speed, small enough for its caches.
_BLOCK = 1024


class Moments(Evidence):
    """Sums over rows about a centre c: C = Σ (yA)ᵀy, s = Σ y, e = Σ y², count, where y = x − c.

    A are the layer's weights α, or none (A = I) where there are as many units as inputs: then C holds
    all products and nothing depends on a seed. Like all evidence these add up exactly; sums about
    another centre are moved first, which is exact but for rounding. A centre near the rows is
    what makes large offsets harmless: products about 0 would lose all that is 1e-8 of the mean.
    The papers' U and V follow from them.
    """

    ARRAYS: ClassVar[tuple[str, ...]] = ("C", "s", "e")
    NUMBERS: ClassVar[tuple[str, ...]] = ("count",)

    C: Array
    s: Array
    e: Array
    centre: Array

    def __init__(
        self,
        basis: Basis,
        C: Array,
        s: Array,
        e: Array,
        count: float,
        centre: Array | None = None,
        resolution: float = 0.0,
    ) -> None:
        inputs = basis.inputs
        centre = np.zeros(inputs) if centre is None else centre
        shapes = {"C": (mixed(basis), inputs), "s": (inputs,), "e": (inputs,), "centre": (inputs,)}
        for (name, shape), given in zip(shapes.items(), (C, s, e, centre), strict=True):
            value = np.array(given)
            allowed = (np.float64, np.float32) if name == "C" else (np.float64,)
            if value.shape != shape or value.dtype not in allowed:
                raise BadInput(
                    f"{name} must be {shape} of float64, not {value.shape} of {value.dtype}"
                )
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "basis", basis)
        object.__setattr__(self, "count", float(count))
        object.__setattr__(self, "resolution", honest_resolution(resolution, self.C.dtype))

    def __reduce__(self) -> tuple[type[Evidence], tuple[Any, ...]]:
        given = (self.basis, self.C, self.s, self.e, self.count, self.centre, self.resolution)
        return Moments, given

    def _adopt(
        self, arrays: dict[str, Array], numbers: dict[str, float], resolution: float
    ) -> Self:
        made = super()._adopt(arrays, numbers, resolution)
        made.__dict__["centre"] = self.centre
        return made

    def aligned(self, other: Evidence) -> Self:
        """Gives the other's sums about this centre; ``Mismatch`` if they can't be added."""
        return super().aligned(other).about(self.centre)

    def about(self, centre: Array) -> Self:
        """Gives these sums about another centre, as the same rows would have given them."""
        if np.array_equal(centre, self.centre):
            return self
        # y' = y − δ
        delta, A = centre - self.centre, mixing(self.basis)
        delta_A, s_A = (delta, self.s) if A is None else (delta @ A, self.s @ A)
        C = self.C - np.outer(delta_A, self.s) - np.outer(s_A - self.count * delta_A, delta)
        e = self.e - 2.0 * delta * self.s + self.count * delta**2
        moved = self._adopt(
            {
                "C": C.astype(self.C.dtype),
                "s": self.s - self.count * delta,
                "e": np.maximum(e, 0.0),
            },
            {"count": self.count},
            self.resolution,
        )
        moved.__dict__["centre"] = np.array(centre)
        return moved

    @property
    def mean(self) -> Array:
        """The mean of the rows, less the centre; 0 where there are none."""
        mean: Array = self.s / self.count if self.count > 0.0 else np.zeros_like(self.s)
        return mean

    # The papers' sums, where h = xα + b

    @property
    def V(self) -> Array:
        """The sum V = Σ hᵀx."""
        alpha, bias = self.basis.hidden.alpha, self._bias
        products = self.C if mixing(self.basis) is not None else alpha.T @ self.C
        fixed = np.outer(alpha.T @ self.s + self.count * bias, self.centre)
        V: Array = products + np.outer(bias, self.s) + fixed
        return V

    @property
    def U(self) -> Array:
        """The sum U = Σ hᵀh."""
        alpha, bias = self.basis.hidden.alpha, self._bias
        products = self.C if mixing(self.basis) is not None else alpha.T @ self.C
        cross = np.outer(bias, self.s @ alpha)
        U: Array = products @ alpha + cross + cross.T + self.count * np.outer(bias, bias)
        return (U + U.T) / 2.0

    @property
    def energy(self) -> float:
        """The sum Σ ‖x‖²."""
        c = self.centre
        return float(self.e.sum() + 2.0 * c @ self.s + self.count * c @ c)

    @property
    def _bias(self) -> Array:
        # h = yα + (cα + b)
        layer = self.basis.hidden
        bias: Array = self.centre @ layer.alpha + layer.b
        return bias

    # What honest moments must satisfy

    @property
    def largest(self) -> float:
        """The largest value that any of the sums can have."""
        return max(float(np.abs(array).max()) for array in (*self.arrays.values(), self.centre))

    def _not_negative(self) -> "Moments":
        return self._adopt(
            {"C": np.array(self.C), "s": np.array(self.s), "e": np.maximum(self.e, 0.0)},
            {"count": self.count},
            self.resolution,
        )

    def admissible(
        self, tolerance: float | None = None, whole: Evidence | None = None
    ) -> Admission:
        """Decides whether some set of rows could have produced this, up to rounding.

        For what is a difference, rounding is a share of the sizes in the ``whole``.
        """
        size = self if whole is None else self.aligned(whole)
        if tolerance is None:
            # Rounding grows with the rows; but their number is only claimed, up to a limit.
            rounding = (64.0 * len(self.C) + size.count) * self.resolution
            tolerance = min(rounding, self.resolution**0.4)
        # What overflows is infinite, or no number at all, and passes no comparison.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            reason = _first_reason(self, size, tolerance)
        return Admission(reason is None, reason or "")


def mixing(basis: Basis) -> Array | None:
    """Gives the weights A that mix the inputs, inputs × units; None where nothing is mixed."""
    return None if basis.layer.units >= basis.inputs else basis.hidden.alpha


def mixed(basis: Basis) -> int:
    """Counts the mixtures of inputs that C holds products of: the units, at most all inputs."""
    return min(basis.layer.units, basis.inputs)


def zero_evidence(basis: Basis, dtype: Any = np.float64) -> Evidence:
    """Makes the evidence of no rows in the form that a basis has: ``Moments`` for a distance."""
    if basis.score == "loss":
        return Evidence.zero(basis, dtype)
    inputs = basis.inputs
    C = np.zeros((mixed(basis), inputs), dtype)
    return Moments(basis, C, np.zeros(inputs), np.zeros(inputs), 0.0)


def _first_reason(given: Moments, size: Moments, tolerance: float) -> str | None:
    arrays = (*given.arrays.values(), given.centre, np.array(given.count))
    if not all(np.isfinite(array).all() for array in arrays):
        return "C, s, e, count or the centre is not finite"
    if given.count < -tolerance * max(size.count, 0.0):
        return f"count ({given.count:g}) can't be negative"
    slack = tolerance * np.maximum(size.e, 0.0)
    if (given.e < -slack).any():
        return f"e has a negative entry ({given.e.min():g})"
    # (Σ y)² ≤ N Σ y²
    if (given.s**2 > (given.count * (1.0 + tolerance) + tolerance) * (given.e + slack)).any():
        return f"s is larger than {given.count:g} rows with these squares can add up to"
    return _product_reason(given, size, tolerance, np.sqrt(np.maximum(size.e, 0.0)))


def _product_reason(given: Moments, size: Moments, tolerance: float, scale: Array) -> str | None:
    """What is wrong with C: not symmetric, not semidefinite, or more than the squares allow."""
    A = mixing(given.basis)
    # A column without a deviation has no products either: what is divided by 0 there is not finite.
    unit = np.where(scale > 0.0, scale, 1.0)
    C = np.asarray(given.C, np.float64) / unit
    if A is None:
        C /= unit[:, np.newaxis]
        if np.abs(C.diagonal() - given.e / unit**2).max() > np.sqrt(tolerance):
            return "C's diagonal is not e"
        U = C
    else:
        weights = np.sqrt(np.maximum((scale @ np.abs(A)) ** 2, np.finfo(float).tiny))
        C /= weights[:, np.newaxis]
        U = (C * unit) @ (A / weights)
    if np.abs(C).max() > 1.0 + np.sqrt(tolerance):
        return "C has an entry that is larger than the squares allow"
    if np.abs(U - U.T).max() > np.sqrt(tolerance):
        return "C is not symmetric where it must be"
    m = np.maximum(given.count, 0.0)
    lowest = np.linalg.eigvalsh((U + U.T) / 2.0)[0]
    if lowest < -len(U) * max(tolerance, given.resolution) * max(1.0, np.abs(U).max()) - 1e-300 * m:
        return "C is not positive semidefinite"
    return None if A is None else _explained_reason(C, U, given.e / unit**2, tolerance)


def _explained_reason(C: Array, U: Array, e: Array, tolerance: float) -> str | None:
    # C_jᵀ(U + λI)⁻¹C_j ≤ e_j: what the mixtures explain of a column is part of it
    most = max(float(U.diagonal().max()), np.finfo(float).tiny)
    ridged = (U + U.T) / 2.0 + 4.0 * len(U) * tolerance * most * np.eye(len(U))
    explained = np.einsum("ij,ij->j", C, np.linalg.solve(ridged, C))
    if (explained > e + np.sqrt(tolerance)).any():
        return "C claims to explain more of a column than there is"
    return None


class MomentSums:
    """The moments of the rows learned so far; new rows wait and are added many at a time.

    With every row, the older ones count φ times less. The centre is 0 where rows are scaled, else
    the first row learned.
    """

    def __init__(self, basis: Basis, forgetting: float, dtype: np.dtype[Any]) -> None:
        self.basis = basis
        self.forgetting = forgetting
        self.dtype = dtype
        self._A = mixing(basis)
        if self._A is not None:
            self._A = self._A.astype(dtype)
        self._blas = Blas(dtype)
        self._centred = basis.scaling.kind != "none"
        self._rows: Array = np.empty((WAITING, basis.inputs), dtype)
        self.waiting = 0
        self.load(zero_evidence(basis, dtype))

    def load(self, evidence: Evidence) -> None:
        """Puts this evidence in the place of all that was learned."""
        if not isinstance(evidence, Moments):
            raise BadInput("a distance is computed from moments, and this evidence has none")
        self._C = np.array(evidence.C, self.dtype, order="F")
        self._s, self._e = np.array(evidence.s), np.array(evidence.e)
        self._count = evidence.count
        self._centre: Array | None = evidence.centre
        if not self._centred and evidence.count <= 0.0:
            self._centre = None
        self._resolution = max(evidence.resolution, epsilon(self.dtype))
        self.waiting = 0

    def add(self, x: Array) -> None:
        """Adds one row."""
        if self.waiting == WAITING:
            self.fold()
        self._rows[self.waiting] = x
        self.waiting += 1

    def add_many(self, X: Array) -> None:
        """Adds many rows at once, as ``add`` would one after another."""
        self.fold()
        for start in range(0, len(X), _BLOCK):
            self._put(X[start : start + _BLOCK])

    def fold(self) -> None:
        """Adds the rows that wait to the sums."""
        if self.waiting:
            self._put(self._rows[: self.waiting])
            self.waiting = 0

    @property
    def rows_waiting(self) -> Array:
        """The rows that wait to be added."""
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
        if self._centre is None:
            self._centre = np.array(X[0], np.float64)
        Y = X if self._centred and not self._centre.any() else X - self._centre.astype(X.dtype)
        if self.forgetting < 1.0:
            # Row i of k is followed by k − 1 − i others; √φ on each side of the product.
            root = np.sqrt(self.forgetting ** np.arange(len(X) - 1, -1, -1.0))
            faded = self.forgetting ** len(X)
            self._C *= np.asarray(faded, self.dtype)
            self._s, self._e, self._count = self._s * faded, self._e * faded, self._count * faded
            self._s += (root**2) @ Y
            self._count += float(root @ root)
            Y = Y * root[:, np.newaxis].astype(Y.dtype)
        else:
            self._s += Y.sum(axis=0, dtype=np.float64)
            self._count += len(X)
        self._e += np.einsum("ij,ij->j", Y, Y, dtype=np.float64)
        if self._A is None:
            self._C = mirrored(
                self._blas.syrk(1.0, Y.T, beta=1.0, c=np.asfortranarray(self._C), overwrite_c=1)
            )
            self._C[np.diag_indices_from(self._C)] = self._e
        else:
            H = self._blas.gemm(1.0, self._A.T, Y.T)
            self._C = self._blas.gemm(
                1.0, H, Y.T, trans_b=1, beta=1.0, c=np.asfortranarray(self._C), overwrite_c=1
            )
