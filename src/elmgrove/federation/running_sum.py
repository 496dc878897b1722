"""A sum over many devices that is kept ready while they come, change and go."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra import (
    Array,
    Basis,
    Evidence,
    Moments,
    epsilon,
    pack_evidence,
    unpack_evidence,
    zero_evidence,
)

Vector = NDArray[np.float64]

#: A sum in two float64 rounds by this share of the largest value that went in, at each step.
STEP = 2.0**-104
#: What may have been lost to rounding before everything is to be added up again.
TOLERANCE = 1e-12


class RunningSum:
    """Σ evidence over devices, each step in the time of one addition, however many there are.

    Values are held as pairs of float64 (a sum and what it rounded away, 106 bits together), so
    taking out what was put in leaves the rest as if it had never been there, to far less than
    the rounding of a single sum. ``worn`` tells when that no longer holds, after very many steps
    or after something huge came and went: then ``freshen`` adds up again what is held.
    """

    def __init__(self, basis: Basis) -> None:
        self.basis = basis
        zero = zero_evidence(basis)
        self._numbers = zero.NUMBERS
        self._shapes = {name: array.shape for name, array in pack_evidence(zero)[1].items()}
        sizes = [int(np.prod(shape)) for shape in self._shapes.values()]
        # All arrays, then the numbers: one vector, so that each step is a few passes over it.
        self._parts = np.cumsum([0, *sizes, *[1] * (len(self._numbers) - 1)])
        self._clear(sum(sizes) + len(self._numbers))

    def _clear(self, size: int) -> None:
        self._high, self._low = np.zeros(size), np.zeros(size)
        self._peak = np.zeros(len(self._parts))
        self._steps = 0
        self._coarse = 0
        self.devices = 0
        # What comes first decides about which centre moments are added up.
        self._centre: Array | None = None

    def add(self, evidence: Evidence) -> None:
        """Adds what a device contributed."""
        self._step(evidence, 1)

    def remove(self, evidence: Evidence) -> None:
        """Takes out what a device contributed."""
        self._step(evidence, -1)

    def change(self, before: Evidence | None, now: Evidence | None) -> None:
        """Replaces what a device contributed before, if anything, by what it contributes now."""
        # First what comes, so that a single device's replacement does not empty the sum.
        if now is not None:
            self.add(now)
        if before is not None:
            self.remove(before)

    def freshen(self, held: Iterable[Evidence]) -> None:
        """Adds up again everything that is in the sum, if it is worn; else nothing is read."""
        if self.worn:
            self._clear(len(self._high))
            for evidence in held:
                self.add(evidence)

    @property
    def worn(self) -> bool:
        """Whether rounding may have become visible."""
        lost = self._steps * STEP * self._peak
        largest = self._largest(self._high)
        # V and s may cancel out where nothing is wrong: they are measured by what bounds them,
        # √(U·energy) and √(count·e).
        first, _, third, count = largest
        other = first if len(self._numbers) > 1 else count
        size = np.array([first, np.sqrt(other) * np.sqrt(third), third, count])
        return bool((lost > TOLERANCE * size).any())

    def evidence(self, without: Evidence | None = None) -> Evidence:
        """Gives the sum now, without one device that is in it."""
        high, devices, coarse = self._high, self.devices, self._coarse
        if without is not None:
            high = _added(self._high, self._low, -self._vector(without))[0]
            devices, coarse = devices - 1, coarse - _is_coarse(without)
        if devices == 0:
            return zero_evidence(self.basis)
        edges = self._parts[1 : len(self._shapes)]
        flat = np.split(high[: -len(self._numbers)], edges)
        arrays = {
            name: part.reshape(shape)
            for (name, shape), part in zip(self._shapes.items(), flat, strict=True)
        }
        values = high[-len(self._numbers) :].tolist()
        fields: dict[str, Any] = {
            name: max(value, 0.0) for name, value in zip(self._numbers, values, strict=True)
        }
        if coarse:
            fields["resolution"] = epsilon(np.float32)
        if self._centre is not None:
            arrays["centre"] = self._centre
        return unpack_evidence(self.basis, fields, arrays)

    def _step(self, evidence: Evidence, sign: int) -> None:
        self.basis.require(evidence.basis)
        vector = self._vector(evidence)
        self._high, self._low = _added(self._high, self._low, sign * vector)
        self._peak = np.maximum(self._peak, self._largest(vector))
        self._peak = np.maximum(self._peak, self._largest(self._high))
        self._steps += 1
        self._coarse += sign * _is_coarse(evidence)
        self.devices += sign
        if self.devices == 0:
            self._clear(len(vector))

    def _vector(self, evidence: Evidence) -> Vector:
        if isinstance(evidence, Moments):
            if self._centre is None and evidence.count:
                self._centre = evidence.centre
            evidence = evidence if self._centre is None else evidence.about(self._centre)
        _, arrays = pack_evidence(evidence)
        numbers = [getattr(evidence, name) for name in self._numbers]
        flat = [arrays[name].ravel() for name in self._shapes]
        return np.concatenate([*flat, numbers], dtype=np.float64)

    def _largest(self, vector: Vector) -> Vector:
        """The largest entry of each array, and each number."""
        largest: Vector = np.maximum.reduceat(np.abs(vector), self._parts)
        return largest


def _is_coarse(evidence: Evidence) -> int:
    return int(evidence.resolution > epsilon(np.float64))


def _added(high: Vector, low: Vector, x: Vector) -> tuple[Vector, Vector]:
    """(high + low) + x, with what each addition rounds away (Knuth's TwoSum) carried along."""
    total = high + x
    moved = total - high
    lost = (high - (total - moved)) + (x - moved) + low
    rounded = total + lost
    return rounded, lost - (rounded - total)
