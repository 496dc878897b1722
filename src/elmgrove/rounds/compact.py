"""Fed-ELMS in 8 bits: its messages, and a classifier in whole numbers for small hardware."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.fed_elms import RoundModel
from elmgrove.algebra.linalg import mirrored
from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array, Rows
from elmgrove.errors import BadInput, SingularSystem
from elmgrove.storage.sealed import require_written_as, seal, unpacking, unseal

Integers = NDArray[np.int32]
CLASSIFIER_FORMAT = "elmgrove.classifier"
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
        return self.values.astype(np.float64) * self.scale.astype(np.float64)


@dataclass(frozen=True, eq=False)
class CompactModel:
    """β and P of Fed-ELMS in 8 bits: β with one scale, and P's Cholesky factor, a scale a column.

    One scale for all of β costs no accuracy that could be measured, and lets whole numbers alone
    decide which output is the largest. P itself would take 16 bits: in 8, its small eigenvalues are
    lost in the error of the large ones and become negative (measured on MNIST from 500 units on).
    CCᵀ has none below 0, and the columns of C differ by orders of magnitude.

    Quantization adds an error that no row caused: a client with few rows may change β by less
    than half a scale, and then its rows are lost.
    """

    beta: Quantized
    C: Quantized

    @classmethod
    def of(cls, model: RoundModel) -> "CompactModel":
        """The nearest one; ``SingularSystem`` if P is not positive definite."""
        try:
            C = np.linalg.cholesky(model.P)
        except np.linalg.LinAlgError as error:
            raise SingularSystem(f"P is not positive definite: {error}") from error
        factor = Quantized.of(C, by_column=True)
        # A diagonal that is rounded to 0 would make P singular.
        places = np.diag_indices_from(C)
        factor.values[places] = np.maximum(factor.values[places], 1)
        return cls(Quantized.of(model.beta), factor)

    @property
    def state(self) -> RoundModel:
        """β and P as they are sent."""
        C = self.C.matrix
        return RoundModel(self.beta.matrix, C @ C.T)


def pack_model(model: RoundModel | CompactModel) -> dict[str, Array]:
    """Pack β, and of P, which is symmetric, a triangle."""
    if isinstance(model, RoundModel):
        return {"beta": model.beta, "P": model.P[np.triu_indices(len(model.P))]}
    lower = model.C.values[np.tril_indices(len(model.C.values))]
    scales = {"beta.scale": model.beta.scale, "C.scale": model.C.scale}
    return {"beta": model.beta.values, "C": lower, **scales}


def unpack_model(basis: Basis, arrays: Mapping[str, Array]) -> RoundModel | CompactModel:
    """Reverse ``pack_model``; ``BadInput`` unless all is finite and fits the basis."""
    units, beta, compact = basis.layer.units, arrays["beta"], "C" in arrays
    triangle = arrays["C" if compact else "P"]
    # Before anything of that size is made: the numbers may come from a stranger.
    if beta.shape != (units, basis.outputs) or triangle.shape != (units * (units + 1) // 2,):
        raise BadInput(f"β {beta.shape} and P {triangle.shape} do not fit {units} hidden units")
    square = np.zeros((units, units), triangle.dtype)
    if not compact:
        if not all(
            part.dtype == np.float64 and np.isfinite(part).all() for part in (beta, triangle)
        ):
            raise BadInput("β and P must be finite numbers in float64")
        square[np.triu_indices(units)] = triangle
        return RoundModel(beta, mirrored(square))
    square[np.tril_indices(units)] = triangle
    if not (square.diagonal() > 0).all():
        raise BadInput("the diagonal of a Cholesky factor is above 0")
    made = CompactModel(Quantized(beta, arrays["beta.scale"]), Quantized(square, arrays["C.scale"]))
    if made.beta.scale.size != 1 or made.C.scale.size != units:
        raise BadInput("β has one scale, and P's factor has one for each column")
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
        """The number of the largest output for each row, in whole numbers."""
        winners: NDArray[np.intp] = self.sums(X).argmax(axis=1)
        return winners

    def outputs(self, X: Any) -> Array:
        return self.sums(X) * (self.step * 2.0**self.shift * float(self.beta.scale[0, 0]))

    def sums(self, X: Any) -> Integers:
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
        fields, arrays = unseal(CLASSIFIER_FORMAT, blob)
        with unpacking("a compact classifier"):
            basis = Basis.from_fields(fields["basis"])
            made = cls(basis, Quantized(arrays["beta"], arrays["beta.scale"]), fields["step"])
            require_written_as(made._packed(), fields, arrays)
        return made
