"""A sum over many devices that is kept ready while they come, change and go."""

from typing import Any

import numpy as np

from elmgrove.algebra import (
    Array,
    Basis,
    Evidence,
    ExactSum,
    Moments,
    Parts,
    centre_near,
    epsilon,
    lifted_products,
    lifted_squares,
    pack_evidence,
    rows_at,
    unpack_evidence,
    zero_evidence,
)

Sums = dict[str, ExactSum]
# Beside the arrays, by name: the numbers that are added up as well.
_NUMBERS = "numbers"


class RunningSum:
    """Σ evidence over devices, each step in the time of one addition, however many there are.

    Nothing is rounded before the sum is given out (``ExactSum``): in whatever order devices come,
    change and go, and however large some are, taking one out leaves the rest as if it had never
    been there.

    Moments are added up about 0. Where rows are not scaled, each device's are lifted there from
    its own centre, and the sum is given out about a centre near its own mean: so
    it does not show who came first, nor how far from the others that one was.
    """

    def __init__(self, basis: Basis) -> None:
        self.basis = basis
        self.devices = 0
        zero = zero_evidence(basis)
        self._numbers = zero.NUMBERS
        self._shapes = {name: array.shape for name, array in pack_evidence(zero)[1].items()}
        self._sums = {name: ExactSum(int(np.prod(shape))) for name, shape in self._shapes.items()}
        self._sums[_NUMBERS] = ExactSum(len(self._numbers))
        self._coarse = 0

    @property
    def nbytes(self) -> int:
        """What it holds."""
        return sum(total.nbytes for total in self._sums.values())

    def add(self, evidence: Evidence) -> None:
        """Adds what a device contributed."""
        self._sums = self._with(evidence, 1.0)
        self._coarse += _is_coarse(evidence)
        self.devices += 1

    def remove(self, evidence: Evidence) -> None:
        """Takes out what a device contributed."""
        self._sums = self._with(evidence, -1.0)
        self._coarse -= _is_coarse(evidence)
        self.devices -= 1

    def change(self, before: Evidence | None, now: Evidence | None) -> None:
        """Replaces what a device contributed before, if anything, by what it contributes now."""
        if now is not None:
            self.add(now)
        if before is not None:
            self.remove(before)

    def evidence(self, without: Evidence | None = None) -> Evidence:
        """Gives the sum now, without one device that is in it."""
        sums, devices, coarse = self._sums, self.devices, self._coarse
        if without is not None:
            sums = self._with(without, -1.0)
            devices, coarse = devices - 1, coarse - _is_coarse(without)
        if devices == 0:
            return zero_evidence(self.basis)
        if self.basis.score == "distance":
            return self._moments(sums, coarse)
        return self._rounded(sums, coarse, {})

    def _with(self, evidence: Evidence, sign: float) -> Sums:
        self.basis.require(evidence.basis)
        arrays = pack_evidence(evidence)[1]
        arrays[_NUMBERS] = np.array([getattr(evidence, name) for name in self._numbers])
        values = {name: arrays[name].astype(np.float64).ravel() for name in self._sums}
        sums = {name: total.plus(values[name], sign) for name, total in self._sums.items()}
        if not isinstance(evidence, Moments) or not evidence.centre.any():
            return sums
        s, count = (ExactSum(len(values[name])).plus(values[name]) for name in ("s", _NUMBERS))
        level = rows_at(evidence.centre, count)
        return self._lifted(sums, evidence.centre, s, s.plus_products(level), level, sign)

    def _lifted(
        self, sums: Sums, c: Array, s: ExactSum, t: ExactSum, level: Parts, sign: float
    ) -> Sums:
        """Adds what moments about 0 are larger by than those about c, or subtracts it."""
        return sums | {
            "C": sums["C"].plus_products(lifted_products(self.basis, c, s, t), sign),
            "s": sums["s"].plus_products(level, sign),
            "e": sums["e"].plus_products(lifted_squares(c, s, t), sign),
        }

    def _moments(self, sums: Sums, coarse: int) -> Evidence:
        """The moments about 0 where rows are scaled, else about a centre near their mean."""
        centre = np.zeros(self.basis.inputs)
        if self.basis.scaling.kind == "none" and sums[_NUMBERS].rounded()[0] > 0.0:
            centre = _near_mean(sums["s"], sums["e"], sums[_NUMBERS])
            t, level = sums["s"], rows_at(centre, sums[_NUMBERS])
            sums = self._lifted(sums, centre, t.plus_products(level, -1.0), t, level, -1.0)
        given = self._rounded(sums, coarse, {"centre": centre})
        # Of what never moved, products with others may have kept some rounding.
        return given.stilled(given.e <= 0.0) if isinstance(given, Moments) else given

    def _rounded(self, sums: Sums, coarse: int, more: dict[str, Array]) -> Evidence:
        arrays = {name: sums[name].rounded().reshape(shape) for name, shape in self._shapes.items()}
        values = np.maximum(sums[_NUMBERS].rounded(), 0.0).tolist()
        fields: dict[str, Any] = dict(zip(self._numbers, values, strict=True))
        if coarse:
            fields["resolution"] = epsilon(np.float32)
        return unpack_evidence(self.basis, fields, arrays | more)


def _near_mean(t: ExactSum, squares: ExactSum, count: ExactSum) -> Array:
    """Finds a centre near the mean of the rows; however the sum came about, the same."""
    rows, mean = float(count.rounded()[0]), np.zeros(t.size)
    # Twice, so that the mean of equal numbers is that number.
    for _ in range(2):
        s = t.plus_products(rows_at(mean, count), -1.0)
        mean = mean + s.rounded() / rows
    s = t.plus_products(rows_at(mean, count), -1.0)
    left = squares.plus_products(lifted_squares(mean, s, t), -1.0).rounded()
    return centre_near(mean, np.maximum(left, 0.0) / rows)


def _is_coarse(evidence: Evidence) -> int:
    return int(evidence.resolution > epsilon(np.float64))
