"""Moments: the sums over rows that a distance is computed from, about a stated centre."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.evidence import Evidence, honest_resolution
from elmgrove.algebra.linalg import EPSILON, mirrored
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import OWN, Levels
from elmgrove.errors import BadInput


class Moments(Evidence):
    """Sums over rows about a centre c: C = Σ (yA)ᵀy, s = Σ y, e = Σ y², count, where y = x − c.

    A are the layer's weights α, or none (A = I) where there are as many units as inputs: then C
    holds all products and nothing depends on a seed. Like all evidence these add up exactly; sums
    about another centre are moved first. A centre near the rows makes large offsets harmless:
    products about 0 would lose all that is 1e-8 of the mean. The papers' U and V follow from them.
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
        # What is beyond range is infinite, and is refused where it would be used.
        with np.errstate(over="ignore", invalid="ignore"):
            C = self.C - np.outer(delta_A, self.s) - np.outer(s_A - self.count * delta_A, delta)
            e = self.e - 2.0 * delta * self.s + self.count * delta**2
            if A is None:
                C = (C + C.T) / 2.0
                C[np.diag_indices_from(C)] = e
            moved = self._adopt(
                {"C": C, "s": self.s - self.count * delta, "e": e},
                {"count": self.count},
                self.resolution,
            )
            moved.__dict__["centre"] = np.array(centre)
            moved.centre.setflags(write=False)
            return moved._steadied(self.e + self.count * delta**2)

    def about_mean(self) -> Self:
        """Gives the same sums about a centre that follows from them alone, near their mean.

        The centre of what was learned is the first row, which nobody else is to know. Where rows
        are scaled it is 0, and stays.
        """
        if not self.centre.any() or not self.count > 0.0:
            return self
        squares = np.maximum(self.e - self.count * self.mean**2, 0.0)
        return self.about(centre_near(self.centre + self.mean, squares / self.count))

    def stilled(self, columns: Array) -> Self:
        """Gives these sums as if the columns marked had been at the centre all the time."""
        C, s, e = np.array(self.C), np.where(columns, 0.0, self.s), np.where(columns, 0.0, self.e)
        e = np.maximum(e, 0.0)
        C[:, columns] = 0.0
        if mixing(self.basis) is None:
            C[columns] = 0.0
            C[np.diag_indices_from(C)] = e
        return self._adopt({"C": C, "s": s, "e": e}, {"count": self.count}, self.resolution)

    @property
    def mean(self) -> Array:
        """The mean of the rows, less the centre; 0 where there are none."""
        mean: Array = self.s / self.count if self.count > 0.0 else np.zeros_like(self.s)
        return mean

    @property
    def variance(self) -> Array:
        """The variance of each column; 0 where only rounding is left of it."""
        # What is beyond range is infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.mean
            square = self.e / self.count if self.count > 0.0 else np.zeros_like(mean)
            variance: Array = square - mean**2
            # Equal squares added up, a block after another, are known to a third of this share.
            variance[variance <= max(256.0 * EPSILON, 8.0 * self.resolution) * square] = 0.0
            return variance

    @property
    def levels(self) -> Levels:
        """Where each column lies and how far it moves, in the data's units; own units stay those.

        A column of a window has several places, which are taken together.
        """
        scaling, window = self.basis.scaling, self.basis.window
        # What is beyond range is infinite.
        with np.errstate(over="ignore", invalid="ignore"):
            split = (np.split(some, window) for some in (self.mean + self.centre, self.variance))
            found = Levels.together([Levels(1.0, *place) for place in zip(*split, strict=True)])
            mean, variance = found.mean, found.variance
            if scaling.kind not in ("none", OWN):
                scale = np.array(scaling.scale)
                mean, variance = mean * scale + scaling.shift, variance * scale**2
        tails = np.array(scaling.tails) if scaling.tails else None
        return Levels(self.count, mean, variance, tails=tails)

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

    @property
    def mean_square(self) -> float:
        """The mean square a row of the input that has most of it."""
        squares = self.e + self.centre * (2.0 * self.s + self.count * self.centre)
        return float(squares.max()) / self.count if self.count > 0.0 else 0.0

    def _mended(self, whole: Evidence) -> Self:
        return self._steadied(self.aligned(whole).e)

    def _steadied(self, size: Array) -> Self:
        """Gives sums that rows can have, where squares of this size cancelled.

        Their rounding may leave less than nothing of a column, or products that no squares allow.
        So it is taken for variance of its own, and what is no more than that for nothing.
        """
        cancelled = size > 16.0 * self.e
        if not cancelled.any():
            return self
        A = mixing(self.basis)
        noise = np.where(cancelled, 4.0 * np.sqrt(len(size)) * self.resolution * size, 0.0)
        lost = self.e <= noise
        s = np.where(lost, 0.0, self.s)
        m = s / self.count if self.count > 0.0 else np.zeros_like(s)
        e = np.where(lost, 0.0, np.maximum(self.e, s * m) + noise)
        C = np.array(self.C)
        C[:, lost] = 0.0
        if A is None:
            C[lost] = 0.0
            C[np.diag_indices_from(C)] = e
        else:
            C += (A * np.where(lost, 0.0, e - self.e)[:, np.newaxis]).T
        numbers = {"count": self.count}
        steady = self._adopt({"C": C, "s": s, "e": e}, numbers, self.resolution)
        if A is None or steady.admissible():
            return steady
        # What is rounding in a mixture can't be told any more: the columns stand for themselves.
        C = np.outer(s @ A, m) + (A * (e - s * m)[:, np.newaxis]).T
        return self._adopt({"C": C, "s": s, "e": e}, numbers, self.resolution)

    def close_to(self, other: Evidence, tolerance: float = 1e-9) -> bool:
        """Says whether both are equal up to ``tolerance``: a share of what the squares allow."""
        if self.basis.fingerprint != other.basis.fingerprint or type(other) is not type(self):
            return False
        other = self.aligned(other)
        count = max(self.count, other.count)
        # Sums may cancel out where nothing is wrong: |s| ≤ √(N e), and |C| ≤ √(e e).
        root = np.sqrt(np.maximum(self.e, other.e))
        A = mixing(self.basis)
        products = np.outer(root if A is None else root @ np.abs(A), root)
        pairs = (
            (self.C, other.C, products),
            (self.s, other.s, np.sqrt(count) * root),
            (self.e, other.e, root**2),
            (self.count, other.count, count),
        )
        return all(bool((np.abs(a - b) <= tolerance * size).all()) for a, b, size in pairs)

    def _impossible(self, whole: Self, tolerance: float) -> str | None:
        C, s, e, count = self.C, self.s, self.e, self.count
        if not all(np.isfinite(part).all() for part in (C, s, e, self.centre, count)):
            return "C, s, e, count or the centre is not finite"
        if count < -tolerance * max(whole.count, 0.0):
            return f"count ({count:g}) can't be negative"
        slack = tolerance * np.maximum(whole.e, 0.0)
        if (e < -slack).any():
            return f"e has a negative entry ({e.min():g})"
        # Squares of this size and less are not exact any more.
        limits = np.finfo(np.float64 if self.resolution == EPSILON else np.float32)
        below_range = float(limits.tiny) / self.resolution
        # (Σ y)² ≤ N Σ y²
        rows = max(count, 0.0) + tolerance * max(whole.count, 0.0)
        most = np.sqrt(np.maximum(e, 0.0) + 2.0 * slack + below_range)
        if not (np.abs(s) <= (1.0 + tolerance) * np.sqrt(rows) * most).all():
            return f"s is larger than {count:g} rows with these squares can add up to"
        # A column without squares has no products either, but for those of values below range.
        return self._impossible_products(np.sqrt(np.maximum(whole.e, below_range)), tolerance)

    def _impossible_products(self, unit: Array, tolerance: float) -> str | None:
        """What is wrong with C: not symmetric, not semidefinite, or more than squares allow."""
        C, A, rounding = self.C / unit, mixing(self.basis), np.sqrt(tolerance)
        e = self.e / unit**2
        if A is None:
            C /= unit[:, np.newaxis]
            if not np.abs(C.diagonal() - e).max() <= rounding:
                return "C's diagonal is not e"
            U = C
        else:
            # |Σ_j y_j α_ji| of one row is at most Σ_j |y_j| |α_ji|
            weights = unit @ np.abs(A)
            C /= weights[:, np.newaxis]
            U = C @ (unit[:, np.newaxis] * (A / weights))
        if not np.abs(C).max() <= 1.0 + rounding:
            return "C has an entry that is larger than the squares allow"
        if not np.abs(U - U.T).max() <= rounding:
            return "C is not symmetric where it must be"
        U = (U + U.T) / 2.0
        if not np.linalg.eigvalsh(U)[0] >= -len(U) * tolerance:
            return "C is not positive semidefinite"
        if A is None:
            return None
        # C_jᵀ(U + λI)⁻¹C_j ≤ e_j: what the mixtures explain of a column is part of it
        ridge = 4.0 * len(U) * max(tolerance, EPSILON)
        explained = np.einsum("ij,ij->j", C, np.linalg.solve(U + ridge * np.eye(len(U)), C))
        if not (explained <= e + rounding).all():
            return "C claims to explain more of a column than there is"
        return None


def centre_near(mean: Array, variance: Array) -> Array:
    """Rounds a mean to a multiple of about a quarter of a deviation, and so to the same for all."""
    _, exponent = np.frexp(np.sqrt(variance))
    unit = np.ldexp(1.0, np.clip(exponent - 2, -1000, 1000))
    near = (variance > 0.0) & (np.abs(mean) < 2.0**52 * unit)
    centre = np.array(mean)
    centre[near] = np.rint(mean[near] / unit[near]) * unit[near]
    return centre


def mixing(basis: Basis) -> Array | None:
    """Gives the weights A that mix the inputs, inputs × units; None where nothing is mixed."""
    return None if basis.layer.units >= basis.inputs else basis.hidden.alpha


def mixed(basis: Basis) -> int:
    """Counts the mixtures of inputs that C holds products of: the units, at most all inputs."""
    return min(basis.layer.units, basis.inputs)


def zero_evidence(basis: Basis) -> Evidence:
    """Makes the evidence of no rows in the form that a basis has: ``Moments`` for a distance."""
    if basis.score == "loss":
        return Evidence.zero(basis)
    inputs = basis.inputs
    C = np.zeros((mixed(basis), inputs))
    return Moments(basis, C, np.zeros(inputs), np.zeros(inputs), 0.0)


@lru_cache(maxsize=8)
def triangle(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Gives the places of the upper triangle of a square."""
    rows, columns = np.triu_indices(size)
    return rows, columns


#: Something as fields that JSON holds, and arrays by name.
Packed = tuple[dict[str, Any], dict[str, Array]]


def pack_evidence(evidence: Evidence) -> Packed:
    """Packs evidence into its numbers and arrays; the basis goes apart from them.

    Of what is symmetric only the upper triangle is packed, and a centre of 0 is not.
    """
    fields = {name: getattr(evidence, name) for name in evidence.NUMBERS}
    arrays = dict(evidence.arrays)
    first, whole = next(iter(arrays.items()))
    if _is_symmetric(evidence.basis):
        arrays[first] = whole[triangle(len(whole))]
    if isinstance(evidence, Moments) and evidence.centre.any():
        arrays["centre"] = evidence.centre
    if evidence.resolution > EPSILON and whole.dtype == np.float64:
        fields["resolution"] = evidence.resolution
    return fields, arrays


def unpack_evidence(basis: Basis, fields: dict[str, Any], arrays: dict[str, Array]) -> Evidence:
    resolution = fields.get("resolution", 0.0)
    if basis.score == "loss":
        U, V = _square(basis.layer.units, arrays["U"]), arrays["V"]
        return Evidence(basis, U, V, fields["energy"], fields["count"], resolution)
    C = _square(basis.inputs, arrays["C"]) if _is_symmetric(basis) else arrays["C"]
    s, e, centre = arrays["s"], arrays["e"], arrays.get("centre")
    return Moments(basis, C, s, e, fields["count"], centre, resolution)


def numbers_in(basis: Basis) -> int:
    """Counts the numbers that evidence is packed in, beside its count and where its centre lies."""
    # Nothing of that size is made: an unknown sender may have stated it.
    units, inputs = basis.layer.units, basis.inputs
    if basis.score == "loss":
        return units * (units + 1) // 2 + units * basis.outputs
    products = units * inputs if units < inputs else inputs * (inputs + 1) // 2
    return products + 2 * inputs


def _is_symmetric(basis: Basis) -> bool:
    return basis.score == "loss" or mixing(basis) is None


def _square(size: int, upper: Array) -> Array:
    # Before anything of that size is made: an unknown sender may have stated it.
    if upper.shape != (size * (size + 1) // 2,):
        raise BadInput(f"{upper.shape} is not the upper triangle of {size} × {size}")
    square = np.zeros((size, size), upper.dtype)
    square[triangle(size)] = upper
    return mirrored(square)


def pack_part(prefix: str, evidence: Evidence) -> Packed:
    """Packs one evidence among others: the names of its arrays begin with ``prefix``."""
    numbers, arrays = pack_evidence(evidence)
    return numbers, {f"{prefix}.{name}": array for name, array in arrays.items()}


def unpack_part(
    basis: Basis, prefix: str, fields: Mapping[str, Any], arrays: Mapping[str, Array]
) -> Evidence:
    names = (*Evidence.ARRAYS, *Moments.ARRAYS, "centre")
    parts = {name: arrays[long] for name in names if (long := f"{prefix}.{name}") in arrays}
    return unpack_evidence(basis, dict(fields), parts)


def pack_parts(
    prefix: str, parts: Sequence[Evidence]
) -> tuple[list[dict[str, Any]], dict[str, Array]]:
    fields, arrays = list[dict[str, Any]](), dict[str, Array]()
    for index, part in enumerate(parts):
        numbers, more = pack_part(f"{prefix}.{index}", part)
        fields.append(numbers)
        arrays |= more
    return fields, arrays


def unpack_parts(
    basis: Basis, prefix: str, fields: Sequence[Mapping[str, Any]], arrays: Mapping[str, Array]
) -> tuple[Evidence, ...]:
    return tuple(
        unpack_part(basis, f"{prefix}.{index}", one, arrays) for index, one in enumerate(fields)
    )
