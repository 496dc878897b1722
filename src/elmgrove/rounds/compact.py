"""Fed-ELMS in 8 bits: its messages, and a classifier in whole numbers for small hardware."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.fed_elms import RoundModel, RoundUpdate
from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array, Rows
from elmgrove.errors import BadInput, SingularSystem
from elmgrove.storage.sealed import require_written_as, seal, unpacking, unseal

Integers = NDArray[np.int32]
COMPACT_FORMAT, CLASSIFIER_FORMAT = "elmgrove.compact", "elmgrove.classifier"
#: The largest value; −128 is not used, so that a matrix and its negative are alike.
LARGEST = 127


@dataclass(frozen=True, eq=False)
class Quantized:
    """A matrix ``values`` · ``scale``: values are int8 from −127 to 127, and the scale is float32.

    The scale is 1 × 1, or 1 × columns if columns differ much in size. Each entry is off by half a
    scale at most, so entries that are small beside the largest under the same scale are lost.
    """

    values: NDArray[np.int8]
    scale: NDArray[np.float32]

    def __post_init__(self) -> None:
        columns = self.values.shape[1] if self.values.ndim == 2 else 0
        if self.values.dtype != np.int8 or self.scale.dtype != np.float32:
            raise BadInput("values must be int8 and their scale float32")
        if not columns or self.scale.shape not in ((1, 1), (1, columns)):
            raise BadInput("values must be a matrix, with one scale or one for each column")
        if not (np.isfinite(self.scale).all() and (self.scale > 0).all()):
            raise BadInput("a scale must be a finite number above 0")
        if (self.values == -128).any():
            raise BadInput("values must be from -127 to 127, and one is -128")

    @classmethod
    def of(cls, matrix: Array, *, by_column: bool = False) -> "Quantized":
        """Rounds a matrix to the nearest; ``BadInput`` if a number is not finite in float32."""
        with np.errstate(over="ignore"):
            largest = np.abs(matrix).max(axis=0 if by_column else None, keepdims=True)
            exact = (largest / LARGEST).astype(np.float32)
        # A little more, so that the largest entry stays within 127, and a matrix of 0 has a scale.
        scale = np.nextafter(exact, np.float32(np.inf))
        if not np.isfinite(scale).all():
            raise BadInput("can't quantize numbers that are not finite in float32")
        values = np.rint(matrix / scale.astype(np.float64)).astype(np.int8)
        return cls(values, scale)

    @property
    def matrix(self) -> NDArray[np.float64]:
        """The stored matrix in float64, exactly."""
        return self.values.astype(np.float64) * self.scale.astype(np.float64)


def _factored(P: Array) -> Quantized:
    """C of P = CCᵀ, a scale a column; ``SingularSystem`` if P is not positive definite.

    P itself would take 16 bits: in 8, its small eigenvalues are lost in the error of the large
    ones and become negative (measured on MNIST from 500 units on). CCᵀ has none below 0.
    """
    try:
        C = np.linalg.cholesky(P)
    except np.linalg.LinAlgError as error:
        raise SingularSystem(f"P is not positive definite: {error}") from error
    found = Quantized.of(C, by_column=True)
    # A diagonal that is rounded to 0 would make P singular.
    places = np.diag_indices_from(C)
    found.values[places] = np.maximum(found.values[places], 1)
    return found


def _unpacked(lower: Array, scale: Array, units: int) -> Quantized:
    """A factor of its lower triangle; ``BadInput`` for what ``_factored`` never makes."""
    # Before anything of that size is made: the numbers may come from a stranger.
    if lower.shape != (units * (units + 1) // 2,):
        raise BadInput(f"{lower.shape} is not the lower triangle of {units} × {units}")
    values = np.zeros((units, units), lower.dtype)
    values[np.tril_indices(units)] = lower
    if not (values.diagonal() > 0).all():
        raise BadInput("the diagonal of a Cholesky factor is above 0")
    return Quantized(values, scale)


@dataclass(frozen=True, eq=False)
class CompactModel:
    """A model of Fed-ELMS in 8 bits: β with one scale, and P's Cholesky factor, a scale a column.

    ``rows`` is N_k in a client's answer, and 0 in what the server sends. α and b are not in it:
    they follow from the layer's numbers, which are. One scale for all of β costs no accuracy that
    could be measured, and lets whole numbers alone decide which output is the largest.
    The columns of P's factor differ by orders of magnitude and have a scale each.

    Quantization adds an error that no row caused: a client with few rows may change β by less
    than half a scale, and then its rows are lost.
    """

    #: Whether only its owner may read a new file of it.
    private: ClassVar[bool] = False

    basis: Basis
    beta: Quantized
    C: Quantized
    rows: float = 0.0

    def __post_init__(self) -> None:
        units = self.basis.layer.units
        if self.beta.values.shape != (units, self.basis.outputs) or self.beta.scale.size != 1:
            raise BadInput("β must have a row for each unit and a column for each output")
        if self.C.values.shape != (units, units) or self.C.scale.size != units:
            raise BadInput("P's factor must have a row, a column and a scale for each unit")
        if not 0 <= self.rows < np.inf:
            raise BadInput(f"{self.rows!r} is not a number of rows")

    @classmethod
    def of(cls, basis: Basis, model: RoundModel | RoundUpdate) -> "CompactModel":
        """The nearest compact model; what is lost by that is in no later message."""
        rows = float(model.rows) if isinstance(model, RoundUpdate) else 0.0
        return cls(basis, Quantized.of(model.beta), _factored(model.P), rows)

    @property
    def state(self) -> RoundModel:
        """β and P as they are sent."""
        C = self.C.matrix
        return RoundModel(self.beta.matrix, C @ C.T)

    @property
    def update(self) -> RoundUpdate:
        """β and P as they are sent, and the number of rows."""
        beta, P = self.state
        return RoundUpdate(beta, P, self.rows)

    def to_bytes(self) -> bytes:
        """Ñ(Ñ + 1)/2 + Ñ·m bytes, 4 for each scale, and a header."""
        return seal(COMPACT_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "rows": self.rows,
        }
        arrays: dict[str, Array] = {
            "beta": self.beta.values,
            "beta.scale": self.beta.scale,
            "C": self.C.values[np.tril_indices(len(self.C.values))],
            "C.scale": self.C.scale,
        }
        return fields, arrays

    @classmethod
    def from_bytes(cls, blob: bytes) -> "CompactModel":
        fields, arrays = unseal(COMPACT_FORMAT, blob)
        with unpacking("a compact model"):
            basis = Basis.from_fields(fields["basis"])
            C = _unpacked(arrays["C"], arrays["C.scale"], basis.layer.units)
            made = cls(basis, Quantized(arrays["beta"], arrays["beta.scale"]), C, fields["rows"])
            require_written_as(made._packed(), fields, arrays)
        return made


@dataclass(frozen=True, eq=False)
class CompactClassifier:
    """A classifier with inputs and output weights of 8 bits, and sums of 32.

    It needs ``binary`` weights, whose ±1 make xα + b additions and subtractions, and ``relu``.
    Inputs are rounded to multiples of ``step`` and cut off at ±127 of them, so they should be of
    similar size. If sums could pass 32 bits, hidden values lose their last ``shift`` bits.

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
        if not 0.0 < self.step < np.inf or self._largest_hidden >= 2**31:
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
        while ((self._largest_hidden >> shift) + 1) * weight >= 2**31:
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
