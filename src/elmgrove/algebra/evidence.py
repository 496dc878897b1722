"""Evidence: what a set of rows says about the model, in a form that can be added."""

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.linalg import (
    EPSILON,
    EPSILON_32,
    Factor,
    mirrored,
    regularized,
    require_ridge,
)
from elmgrove.algebra.rows import Array
from elmgrove.errors import BadInput, Mismatch, NotAdmissible, SingularSystem


class Admission(NamedTuple):
    """Whether evidence can come from rows, and if not, why; true or false by itself."""

    admissible: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.admissible


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over rows, and nothing else: U = Σ hᵀh, V = Σ hᵀt, energy = Σ ‖t‖², count.

    Adding two equals having seen the rows of both, whatever the order or the split;
    the ridge is not in U but added once, when solving. Arrays are copied and read-only.
    ``count`` is fractional where old rows were forgotten. ``resolution`` is the machine epsilon of
    the coarsest dtype that went into the sums: a float32 part stays coarse in a float64 sum.

    Evidence is not private by itself: from two states of it that are a few rows apart the
    rows between them can be computed.

    Evidence of a basis whose score is the distance is kept as ``Moments``, from which U and V
    follow.
    """

    #: The arrays and the numbers that are added up; everything else follows from them.
    ARRAYS: ClassVar[tuple[str, ...]] = ("U", "V")
    NUMBERS: ClassVar[tuple[str, ...]] = ("energy", "count")

    basis: Basis
    U: Array
    V: Array
    energy: float
    count: float
    resolution: float = 0.0

    def __post_init__(self) -> None:
        units, outputs = self.basis.layer.units, self.basis.outputs
        for name, shape in (("U", (units, units)), ("V", (units, outputs))):
            value = np.array(getattr(self, name))
            if value.shape != shape or value.dtype not in (np.float64, np.float32):
                raise BadInput(
                    f"{name} must be {shape[0]} × {shape[1]} of float64 or float32, "
                    f"not {value.shape} of {value.dtype}"
                )
            value.setflags(write=False)
            object.__setattr__(self, name, value)
        object.__setattr__(self, "energy", float(self.energy))
        object.__setattr__(self, "count", float(self.count))
        object.__setattr__(self, "resolution", honest_resolution(self.resolution, self.U.dtype))

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays that are added up, by name."""
        return {name: getattr(self, name) for name in self.ARRAYS}

    def _adopt(
        self, arrays: dict[str, Array], numbers: dict[str, float], resolution: float
    ) -> Self:
        """Makes evidence of this basis around new arrays, without copying them."""
        made = object.__new__(type(self))
        for array in arrays.values():
            array.setflags(write=False)
        made.__dict__.update(arrays, **numbers, basis=self.basis, resolution=resolution)
        return made

    def __reduce__(self) -> tuple[type["Evidence"], tuple[Any, ...]]:
        return Evidence, (self.basis, self.U, self.V, self.energy, self.count, self.resolution)

    @classmethod
    def zero(cls, basis: Basis) -> "Evidence":
        """Makes the evidence of no rows, which changes nothing when it is added."""
        units = basis.layer.units
        return Evidence(basis, np.zeros((units, units)), np.zeros((units, basis.outputs)), 0, 0)

    @classmethod
    def from_model(
        cls, basis: Basis, P: Array, beta: Array, count: float, ridge: float
    ) -> "Evidence":
        """Computes the evidence of a node that has only P and β (Ito 2020, §3.2).

        ``ridge`` is that with which P was learned: U = P⁻¹ − λI, V = P⁻¹β. Of the targets' energy
        P and β hold what they explain, and that is taken for all of it: β and every merge are
        right, but ``error_of`` lacks what the node's own model did not explain. Raises
        ``SingularSystem`` for an ill-conditioned P, ``NotAdmissible`` for what no rows can be.
        """
        if count == 0:
            # P is the ridge's alone, and what is left of it without would be rounding.
            return Evidence.zero(basis)
        require_ridge(ridge)
        P, beta = np.asarray(P), np.asarray(beta)
        if P.ndim != 2 or P.shape[0] != P.shape[1] or beta.shape[:1] != P.shape[:1]:
            raise BadInput(f"P {P.shape} and β {beta.shape} must have a row for each hidden unit")
        if not (np.isfinite(P).all() and np.isfinite(beta).all()):
            raise BadInput("P and β must be finite numbers")
        try:
            factor = Factor(P, 0.0)
        except SingularSystem as error:
            raise SingularSystem(
                f"P has no inverse, so there are no sums in it: {error}"
            ) from error
        inverse = mirrored(factor.inverse())
        # (13)
        squares, Q = np.linalg.eigh(inverse - ridge * np.eye(len(P)))
        V = inverse @ beta
        epsilon = EPSILON_32 if P.dtype == np.float32 else EPSILON
        rounding = epsilon / factor.reciprocal * float(inverse.diagonal().max())
        if squares[0] < -64.0 * rounding or squares[-1] <= 0.0:
            raise NotAdmissible(
                f"P⁻¹ less a ridge of {ridge:g} has negative squares: no rows have this P; was it "
                "learned with a smaller ridge?"
            )
        if rounding > 1e-6 * squares[-1]:
            raise SingularSystem(
                "P is too ill-conditioned to be turned back into sums: rounding would take "
                f"{rounding / squares[-1]:.0e} of them, and at most 1e-06 may be lost. Learn with "
                "another ridge, scale the columns, or send U and V"
            )
        # Directions that no row has have no squares, and rounding makes some of them negative.
        seen = squares > 0.0
        squares, Q = squares[seen], Q[:, seen]
        W, U = Q.T @ V, (Q * squares) @ Q.T
        # V = Hᵀt with U = HᵀH: what H explains of the targets is part of their energy.
        energy = float((W * W / squares[:, np.newaxis]).sum())
        made = Evidence(basis, (U + U.T) / 2.0, Q @ W, energy, count)
        made.require_admissible(f"P and β can't be those of {count:g} rows")
        return made

    def __add__(self, other: "Evidence") -> Self:
        """Adds the other's rows. Equation (8): U' = U + ΔU, V' = V + ΔV."""
        return self._combined(other, np.add, 1)

    def __sub__(self, other: "Evidence") -> Self:
        """Takes the other's rows out, as if they had never been there: (8) with the other sign."""
        return self._combined(other, np.subtract, -1)

    def _combined(self, other: "Evidence", step: Any, sign: int) -> Self:
        self.basis.require(other.basis)
        # Sums over no rows are those about any centre: what has rows decides about which.
        mine = self if self.count else cast(Self, other.aligned(self))
        other = mine.aligned(other)
        arrays = {name: step(array, other.arrays[name]) for name, array in mine.arrays.items()}
        numbers = {
            name: _total([getattr(self, name), sign * getattr(other, name)])
            for name in self.NUMBERS
        }
        return mine._adopt(arrays, numbers, max(self.resolution, other.resolution))

    def aligned(self, other: "Evidence") -> Self:
        """Gives the other's sums so that they can be added to these; ``Mismatch`` if they can't."""
        self.basis.require(other.basis)
        if type(other) is not type(self):
            raise Mismatch("one of the two holds sums of another kind")
        return other

    @staticmethod
    def sum(parts: Iterable["Evidence"]) -> "Evidence":
        """Adds all parts in the order given, without a copy for each step."""
        parts = list(parts)
        if not parts:
            raise BadInput("the sum of no evidence has no basis; start from zero_evidence(basis)")
        # As in adding two: what has rows decides.
        parts = list(map(next((part for part in parts if part.count), parts[0]).aligned, parts))
        first = parts[0]
        dtypes = [np.result_type(*(part.arrays[name] for part in parts)) for name in first.ARRAYS]
        arrays = {
            name: array.astype(dtype)
            for (name, array), dtype in zip(first.arrays.items(), dtypes, strict=True)
        }
        for part in parts[1:]:
            for name, array in part.arrays.items():
                arrays[name] += array
        numbers = {name: _total([getattr(part, name) for part in parts]) for name in first.NUMBERS}
        return first._adopt(arrays, numbers, max(part.resolution for part in parts))

    def weighted(self, weight: float) -> Self:
        """Gives the evidence in which every row counts so many times as much."""
        # Nothing of a negative number is −0, which a file does not hold as 0.
        arrays = {name: array * weight + 0.0 for name, array in self.arrays.items()}
        numbers = {name: weight * getattr(self, name) for name in self.NUMBERS}
        return self._adopt(arrays, numbers, self.resolution)

    def in_units_of(self, basis: Basis) -> Self:
        """Gives the same sums as those of a device that has this basis; ``Mismatch`` if it can't.

        Own units are all that may differ: what is so many deviations here is as many there.
        """
        self.basis.require(basis)
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, basis=basis)
        return made

    def about_mean(self) -> Self:
        """Gives the same sums in a form that shows nothing of a single row: here, as they are."""
        return self

    def close_to(self, other: "Evidence", tolerance: float = 1e-9) -> bool:
        """Says whether both are equal up to ``tolerance`` times the largest entry of each array."""
        if self.basis.fingerprint != other.basis.fingerprint or type(other) is not type(self):
            return False
        other = self.aligned(other)
        pairs = [
            (getattr(self, name), getattr(other, name)) for name in (*self.ARRAYS, *self.NUMBERS)
        ]
        return all(
            np.abs(np.subtract(a, b)).max() <= tolerance * max(np.abs(a).max(), np.abs(b).max())
            for a, b in pairs
        )

    def __eq__(self, other: object) -> bool:
        """Whether the two are equal to the last bit; ``close_to`` allows for rounding."""
        return isinstance(other, Evidence) and self.close_to(other, 0.0)

    def factor(self, ridge: float) -> Factor:
        """Factors U + λI, to solve with."""
        return regularized(self.U, ridge, self.resolution)

    def solve(self, ridge: float) -> Array:
        """Computes the best output weights, by (6) with a ridge: β = (U + λI)⁻¹ V."""
        return self.factor(ridge).solve(self.V)

    def error_of(self, beta: Array) -> float:
        """Computes Σ ‖t − hβ‖² of any β over the rows behind this evidence, without the rows."""
        # energy − 2 tr(βᵀV) + tr(βᵀUβ)
        beta = np.asarray(beta, np.float64)
        return (
            self.energy - 2.0 * float(np.vdot(beta, self.V)) + float(np.vdot(beta, self.U @ beta))
        )

    def typical_loss(self, ridge: float) -> float:
        """Estimates the loss Σ (t − y)² of one more row like these.

        Generalized cross-validation (Golub, Heath and Wahba 1979) on the n rows:
        RSS / (n (1 − df/n)²), where df = tr(U (U + λI)⁻¹) is how far these rows decide the fit.
        Infinite while there are fewer than about a third more rows than units: too few to tell.
        """
        if self.count <= 0.0:
            return np.inf
        factor = self.factor(ridge)
        freedom = 1.0 - float(np.trace(factor.solve(self.U))) / self.count
        # With less, the estimate swings by orders of magnitude from one row to the next.
        if freedom < 0.25:
            return np.inf
        residual = max(self.error_of(factor.solve(self.V)), 0.0)
        # Below this, an error is rounding.
        floor = 1e-12 * max(self.energy, 0.0) / self.count
        return max(residual / (self.count * freedom**2), floor)

    def without(self, other: "Evidence") -> "Evidence":
        """Subtracts other evidence; refused unless its rows can be among those behind this.

        The difference carries the rounding of the whole, so that is what it is measured by; and
        loosely, since after several differences it is the rounding of the largest whole.
        """
        other.require_admissible("the evidence to take out is not admissible")
        return (self - other).left_of(self)

    def left_of(self, whole: "Evidence") -> "Evidence":
        """Gives what is left of a whole without what its rounding makes impossible.

        ``NotAdmissible`` unless it can be: the sums of some of the rows behind the whole.
        """
        verdict = self.admissible(float(np.sqrt(self.resolution)), whole)
        if not verdict:
            raise NotAdmissible(f"what would be left was never learned here: {verdict.reason}")
        if self.count <= 1e-9 * whole.count:
            # No rows are left, so what is left is rounding.
            return whole.weighted(0.0)
        return self._mended(whole)

    def _mended(self, whole: "Evidence") -> "Evidence":
        return replace(self, energy=max(self.energy, 0.0))

    def admissible(
        self, tolerance: float | None = None, whole: "Evidence | None" = None
    ) -> Admission:
        """Decides whether some set of rows could have produced this, up to rounding.

        For what is a difference, rounding is a share of the sizes in the ``whole``. Every sum over
        rows passes. What passes need not be one: a device that lies and knows these rules can make
        sums that pass.
        """
        size = self if whole is None else self.aligned(whole)
        if tolerance is None:
            # Rounding of the sum as a share of its largest entry: equal rows round alike each time,
            # so it grows with their number. But that number is only claimed: it excuses up to a
            # limit.
            rows = 64.0 * len(self.arrays[self.ARRAYS[0]]) + size.count
            tolerance = min(rows * self.resolution, self.resolution**0.4)
        # What overflows is infinite, or no number at all, and passes no comparison.
        with np.errstate(over="ignore", invalid="ignore"):
            reason = self._impossible(size, tolerance)
        return Admission(reason is None, reason or "")

    def _impossible(self, whole: Self, tolerance: float) -> str | None:
        """The first reason why no rows can have produced this."""
        U, V, energy, count = self.U, self.V, self.energy, self.count
        if not all(np.isfinite(part).all() for part in (U, V, energy, count)):
            return "U, V, energy or count is not finite"
        if energy < -tolerance * max(whole.energy, 0.0) or count < -tolerance * max(whole.count, 0):
            return f"energy ({energy:g}) and count ({count:g}) can't be negative"
        diagonal, bound = U.diagonal().astype(np.float64), self.basis.layer.bound
        slack = tolerance * float(np.abs(whole.U).max())
        if np.abs(U - U.T).max() > slack:
            return "U is not symmetric"
        if diagonal.min() < -slack:
            return f"U has a negative diagonal entry ({diagonal.min():g})"
        if bound is not None and diagonal.max() > count * bound**2 + slack:
            return (
                f"U has a diagonal entry of {diagonal.max():g}, but {count:g} rows of hidden "
                f"outputs up to {bound:g} can't give more than {count * bound**2:g}"
            )
        if slack == 0.0:
            return None if not V.any() else "V is not 0 though U is"
        try:
            factor = Factor(U, slack)
        except SingularSystem:
            return "U is not positive semidefinite"
        # tr(Vᵀ(U + λI)⁻¹V) ≤ energy: what the hidden outputs explain of the targets is part of them
        explained = float(np.einsum("ij,ij->", V, factor.solve(V)))
        if not explained <= energy + math.sqrt(tolerance) * whole.energy:
            return f"V claims to explain {explained:g} of the targets' energy, which is {energy:g}"
        return None

    @property
    def largest(self) -> float:
        """The largest value that any of the sums can have."""
        # In sums over rows no entry of U is above its largest diagonal one, and none of V above the
        # larger of that and the energy: |V| ≤ √(U · energy).
        return max(float(self.U.diagonal().max()), self.energy)

    @property
    def mean_square(self) -> float:
        """The mean square of a detector's input a row, or what it takes to explain U if more."""
        if not self.count > 0.0:
            return 0.0
        inputs, layer = self.basis.inputs, self.basis.hidden
        found = self.energy / self.count
        if layer.bound is None:
            # |h| ≤ ‖x‖‖α‖ + |b|: hidden outputs of this size take rows of such squares.
            h = np.sqrt(np.maximum(self.U.diagonal(), 0.0) / self.count) - np.abs(layer.b)
            needed = np.maximum(h, 0.0) / np.maximum(np.linalg.norm(layer.alpha, axis=0), 1e-300)
            found = max(found, float(needed.max()) ** 2)
        return found / inputs

    def require_in_range(self) -> None:
        """Raises ``BadInput`` unless all values lie within the range of float64."""
        if not self.largest <= sys.float_info.max:
            raise BadInput("this evidence holds values beyond the range of float64")

    @cached_property
    def admission(self) -> Admission:
        """The verdict of ``admissible`` on these sums by themselves: they never change."""
        return self.admissible()

    def require_admissible(self, what: str) -> None:
        """Raises ``NotAdmissible`` with the reason, unless the evidence is admissible."""
        if not self.admission:
            raise NotAdmissible(f"{what}: {self.admission.reason}")


def honest_resolution(stated: float, dtype: np.dtype[Any]) -> float:
    """Gives one of the two resolutions that exist: none is so coarse as to excuse every error."""
    return EPSILON_32 if stated > EPSILON or dtype == np.float32 else EPSILON


def _total(values: list[float]) -> float:
    """The sum; 0 where rounding alone makes it negative."""
    total = float(sum(values))
    return 0.0 if -1e-12 * max(values) < total < 0.0 else total
