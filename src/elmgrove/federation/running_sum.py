"""A sum over many devices that is kept ready while they come, change and go."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from elmgrove.algebra import (
    STEP,
    Array,
    Basis,
    Evidence,
    Moments,
    Pairs,
    centre_near,
    epsilon,
    moved,
    pack_evidence,
    unpack_evidence,
    zero_evidence,
)

#: What may have been lost to rounding before everything is to be added up again.
TOLERANCE = 1e-12
# Sums of squares this many times as large as what may have been lost are more than rounding.
_SEEN = 16.0


class RunningSum:
    """Σ evidence over devices, each step in the time of one addition, however many there are.

    Values are held as pairs of float64 (a sum and what it rounded away, 106 bits together), so
    taking out what was put in leaves the rest as if it had never been there, to far less than
    the rounding of a single sum. ``worn`` tells when that no longer holds, after very many steps
    or after something huge came and went: then ``freshen`` adds up again what is held.

    Moments are added up about one centre: 0 where rows are scaled, else that of the first device.
    Each is moved there in pairs too, and the sum is given out about a centre near its own mean: so
    it does not show who came first, nor how far from the others that one was.
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
        self._sum = Pairs.of(np.zeros(size))
        self._peak = self._magnitude(self._sum.high)
        self._steps = 0
        self._coarse = 0
        self.devices = 0
        scaled = self.basis.scaling.kind != "none"
        self._centre: Array | None = np.zeros(self.basis.inputs) if scaled else None

    @property
    def _by_distance(self) -> bool:
        return self.basis.score == "distance"

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
            self._clear(len(self._sum.high))
            for evidence in held:
                self.add(evidence)

    @property
    def worn(self) -> bool:
        """Whether rounding may have become visible."""
        size = self._magnitude(self._sum.high)
        if self._by_distance:
            # Squares bound all other sums. What is given out is those about the mean.
            size[:-1] = self._about_mean(self._sum)[1]
        else:
            # V may cancel out where nothing is wrong: it is measured by what bounds it.
            U, _, energy, _ = size
            size[1] = np.sqrt(U) * np.sqrt(energy)
        return bool((self._lost > TOLERANCE * size).any())

    @property
    def _lost(self) -> Array:
        lost: Array = self._steps * STEP * self._peak
        return lost

    def evidence(self, without: Evidence | None = None) -> Evidence:
        """Gives the sum now, without one device that is in it."""
        total, devices, coarse = self._sum, self.devices, self._coarse
        if without is not None:
            total = total - self._vector(without)
            devices, coarse = devices - 1, coarse - _is_coarse(without)
        if devices == 0:
            return zero_evidence(self.basis)
        if self._by_distance:
            return self._moments(total, coarse)
        return self._unpacked(total.high, coarse, {})

    def _unpacked(self, sums: Array, coarse: int, more: dict[str, Array]) -> Evidence:
        flat = np.split(sums[: -len(self._numbers)], self._parts[1 : len(self._shapes)])
        arrays = {
            name: part.reshape(shape)
            for (name, shape), part in zip(self._shapes.items(), flat, strict=True)
        }
        values = sums[-len(self._numbers) :].tolist()
        fields: dict[str, Any] = {
            name: max(value, 0.0) for name, value in zip(self._numbers, values, strict=True)
        }
        if coarse:
            fields["resolution"] = epsilon(np.float32)
        return unpack_evidence(self.basis, fields, arrays | more)

    def _step(self, evidence: Evidence, sign: int) -> None:
        self.basis.require(evidence.basis)
        vector = self._vector(evidence)
        self._sum = self._sum + (vector if sign > 0 else -vector)
        for sums in (vector.high, self._sum.high):
            self._peak = np.maximum(self._peak, self._magnitude(sums))
        self._steps += 1
        self._coarse += sign * _is_coarse(evidence)
        self.devices += sign
        if self.devices == 0:
            self._clear(len(vector.high))

    def _vector(self, evidence: Evidence) -> Pairs:
        _, arrays = pack_evidence(evidence)
        numbers = [getattr(evidence, name) for name in self._numbers]
        flat = [arrays[name].ravel() for name in self._shapes]
        vector = Pairs.of(np.concatenate([*flat, numbers], dtype=np.float64))
        if not isinstance(evidence, Moments) or evidence.count <= 0.0:
            return vector
        if self._centre is None:
            self._centre = evidence.centre
        if np.array_equal(self._centre, evidence.centre):
            return vector
        return moved(self.basis, vector, Pairs.of(self._centre) - Pairs.of(evidence.centre))

    def _magnitude(self, sums: Array) -> Array:
        """What rounding is a share of: the largest of each array, or e, and each number."""
        if self._by_distance:
            return np.abs(sums[-1 - self.basis.inputs :])
        largest: Array = np.maximum.reduceat(np.abs(sums), self._parts)
        return largest

    # Moments about a centre near the rows, in whatever order devices came

    def _about_mean(self, total: Pairs) -> tuple[Array, Array]:
        """A centre near the mean of the rows, and Σ (x − mean)² of each column."""
        inputs = self.basis.inputs
        s, e, count = total[-1 - 2 * inputs : -1 - inputs], total[-1 - inputs : -1], total[-1]
        if self._centre is None or self.basis.scaling.kind != "none" or not count.high > 0.0:
            return np.zeros(inputs), np.maximum(e.high, 0.0)
        mean = s.high / count.high
        delta = Pairs.of(mean)
        squares = np.maximum((e - delta * (s + (s - count * delta))).high, 0.0)
        # However the sum came about, to the last bit the same.
        centre = centre_near(self._centre + mean, squares / count.high)
        return centre, squares

    def _moments(self, total: Pairs, coarse: int) -> Evidence:
        centre, squares = self._about_mean(total)
        held = centre if self._centre is None else self._centre
        made = moved(self.basis, total, Pairs.of(centre) - Pairs.of(held)).high
        given = self._unpacked(made, coarse, {"centre": centre})
        # Of columns that never moved only rounding is left.
        still = squares <= _SEEN * self._lost[:-1]
        return given.stilled(still) if isinstance(given, Moments) else given


def _is_coarse(evidence: Evidence) -> int:
    return int(evidence.resolution > epsilon(np.float64))
