"""Classifiers in whole numbers, for small hardware."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array, Rows
from elmgrove.errors import BadInput
from elmgrove.rounds.compact import LARGEST, Quantized
from elmgrove.storage.sealed import require_written_as, seal, unpacking, unseal

Integers = NDArray[np.int32]
CLASSIFIER_FORMAT = "elmgrove.classifier"
_MOST = 2**31 - 1


@dataclass(frozen=True, eq=False)
class CompactClassifier:
    """A classifier with inputs and output weights of 8 bits, and sums of 32.

    It needs ``binary`` weights, whose ±1 make xα + b additions and subtractions, and ``relu``.
    Inputs are rounded to multiples of ``step`` and cut off at ±127 of them, so they should be of
    similar size. If sums could pass 32 bits, hidden values lose their last ``shift`` bits. For rows
    within the range, each output is that of the float model to within ``tolerance``, a bound for
    the worst case that is never near. ``deviation`` is what to expect.

    >>> from elmgrove import HiddenLayer
    >>> basis = Basis(HiddenLayer(2, 3, "relu", "binary", seed=1), outputs=2)
    >>> small = CompactClassifier.of(basis, np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), 1.0)
    >>> small.predict([[0.9, 0.1], [-0.5, 1.0]]).tolist()
    [0, 0]
    """

    #: Whether only its owner may read a new file of it.
    private: ClassVar[bool] = False

    basis: Basis
    beta: Quantized
    step: float

    def __post_init__(self) -> None:
        layer = self.basis.layer
        if (layer.weights, layer.activation) != ("binary", "relu"):
            raise BadInput(
                "a compact classifier needs a layer with binary weights and relu, not "
                f"{layer.weights} and {layer.activation}"
            )
        if self.basis.scaling.kind != "none":
            # Scaled in whole numbers they would be other inputs.
            raise BadInput("a compact classifier takes rows as they are: scale them before it")
        if self.beta.values.shape != (layer.units, self.basis.outputs) or self.beta.scale.size != 1:
            raise BadInput("β must have a row for each unit and a column for each output")
        if not 0.0 < self.step < np.inf or self._largest_hidden > _MOST:
            raise BadInput(f"inputs in steps of {self.step!r} do not fit the biases of ±1")

    @classmethod
    def of(cls, basis: Basis, beta: Array, largest: float) -> "CompactClassifier":
        """Makes a classifier of a model's β, for inputs from −``largest`` to ``largest``."""
        return cls(basis, Quantized.of(beta), float(largest) / LARGEST)

    def predict(self, X: Any) -> NDArray[np.intp]:
        """The number of the largest output for each row, computed without any float."""
        winners: NDArray[np.intp] = self.sums(X).argmax(axis=1)
        return winners

    def outputs(self, X: Any) -> Array:
        """The outputs as floats."""
        return self.sums(X) * self._unit

    def sums(self, X: Any) -> Integers:
        """The outputs in whole numbers."""
        made: Integers = self._hidden(X) @ self.beta.values.astype(np.int32)
        return made

    def tolerance(self, X: Any) -> Array:
        """Bounds how far each output is from the float model's, for rows within the range."""
        # Half a step for each input and the bias, and what the shift rounds away.
        hidden_off = self.step * ((self.basis.layer.inputs + 1) / 2 + ((1 << self.shift) >> 1))
        hidden = self._hidden(X).sum(axis=1, dtype=np.float64) * self.step * 2.0**self.shift
        weight_off = float(self.beta.scale[0, 0]) / 2
        total = hidden + self.basis.layer.units * hidden_off
        bound: Array = (
            hidden_off * np.abs(self.beta.matrix).sum(axis=0) + weight_off * total[:, np.newaxis]
        )
        return bound

    def deviation(self, X: Any) -> Array:
        """Estimates how far each output is from the float model's, for rows within the range.

        This is a standard deviation: rounding to multiples of s is off by s/√12 in the mean
        square, and roundings are taken to be independent. For measured numbers they are; if many
        inputs are alike their errors add up, and only ``tolerance`` holds. Otherwise 1 output in
        10,000 is off by more than 4 deviations.
        """
        layer, beta = self.basis.layer, self.beta.matrix
        Z = self._activations(X)
        active = (Z > 0).astype(np.float64)
        # An input's error reaches the output through all units that are active, at once.
        through = (np.square((active * column) @ layer.alpha.T).sum(axis=1) for column in beta.T)
        inputs = np.stack(list(through), axis=1)
        # Units that rounding may switch, within 4 deviations, and what the shift rounds away.
        near = np.abs(Z) <= 4.0 * np.sqrt((layer.inputs + 1) / 12)
        shifted = 4.0**self.shift if self.shift else 0.0
        units = ((layer.inputs + 1) * near + shifted * active) @ np.square(beta)
        hidden = self.step * 2.0**self.shift * self._shifted(Z)
        # A rounded weight multiplies the hidden value together with its error.
        own = self.step**2 * (layer.inputs + 1 + shifted) / 12 * (near | (Z > 0))
        weights = self.beta.scale[0, 0] ** 2 * (hidden**2 + own).sum(axis=1, keepdims=True)
        # All biases are ±1 and are off by the same amount: that is not chance.
        bias = active @ ((self.step * self._bias - layer.b)[:, np.newaxis] * beta)
        found: Array = np.sqrt((self.step**2 * (inputs + units) + weights) / 12 + np.square(bias))
        return found

    def _hidden(self, X: Any) -> Integers:
        return self._shifted(self._activations(X))

    def _activations(self, X: Any) -> Integers:
        X, _ = Rows(self.basis.layer.inputs).many(X)
        x = np.clip(np.rint(X / self.step), -LARGEST, LARGEST).astype(np.int32)
        # Equation (5) with α = ±1: nothing but additions and subtractions
        Z: Integers = x @ self.basis.layer.alpha.astype(np.int32) + self._bias
        return Z

    def _shifted(self, Z: Integers) -> Integers:
        H: Integers = (np.maximum(Z, 0) + ((1 << self.shift) >> 1)) >> self.shift
        return H

    @cached_property
    def shift(self) -> int:
        """The number of bits to drop from hidden values so that no sum can pass 32 bits."""
        weight = int(np.abs(self.beta.values.astype(np.int64)).sum(axis=0).max())
        shift = 0
        while ((self._largest_hidden >> shift) + 1) * weight > _MOST:
            shift += 1
        return shift

    @property
    def _bias(self) -> Integers:
        return np.rint(self.basis.layer.b / self.step).astype(np.int32)

    @property
    def _largest_hidden(self) -> int:
        return LARGEST * self.basis.layer.inputs + round(1.0 / self.step)

    @property
    def _unit(self) -> float:
        """The output that a sum of 1 stands for."""
        return self.step * 2.0**self.shift * float(self.beta.scale[0, 0])

    def to_bytes(self) -> bytes:
        return seal(CLASSIFIER_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "step": self.step,
        }
        return fields, {"beta": self.beta.values, "beta.scale": self.beta.scale}

    @classmethod
    def from_bytes(cls, blob: bytes) -> "CompactClassifier":
        """Makes a classifier of what ``to_bytes`` gave; ``BadFile`` for anything else."""
        fields, arrays = unseal(CLASSIFIER_FORMAT, blob)
        with unpacking("a compact classifier"):
            basis = Basis.from_fields(fields["basis"])
            made = cls(basis, Quantized(arrays["beta"], arrays["beta.scale"]), fields["step"])
            require_written_as(made._packed(), fields, arrays)
        return made
