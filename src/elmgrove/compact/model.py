"""A model of Fed-ELMS in 8 bits: what a server and its clients send each other."""

from dataclasses import dataclass

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.fed_elms import State, Update
from elmgrove.algebra.packing import Array, Packed
from elmgrove.compact.quantized import Quantized
from elmgrove.compact.triangle import factored, packed, product, unpacked
from elmgrove.errors import BadInput
from elmgrove.federation.sealed import require_written_as, seal, unpacking, unseal

KIND = "elmgrove.compact"


@dataclass(frozen=True, eq=False)
class CompactModel:
    """β in 8 bits with one scale, and P as its Cholesky factor in 8 bits, a scale for each column.

    ``rows`` is N_k in a client's answer, and 0 in what the server sends. α and b are not in it:
    they follow from the layer's numbers, which are. One scale for all of β costs no accuracy that
    could be measured, and lets whole numbers alone decide which output is the largest.
    The columns of P's factor differ by orders of magnitude and have a scale each.

    Quantization adds to a model what nobody learned: a client with few rows may change β by less
    than half a scale, and then its rows are lost.
    """

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
            raise BadInput(f"{self.rows!r} is no number of rows")

    @classmethod
    def of(cls, basis: Basis, model: State | Update) -> "CompactModel":
        """The nearest; what is lost by that is in no later message."""
        rows = float(model.rows) if isinstance(model, Update) else 0.0
        return cls(basis, Quantized.of(model.beta), factored(model.P), rows)

    @property
    def state(self) -> State:
        """β and P as they were sent."""
        return State(self.beta.matrix, product(self.C))

    @property
    def update(self) -> Update:
        """The same, with the number of rows."""
        return Update(*self.state, self.rows)

    def to_bytes(self) -> bytes:
        """The file format, and the message: Ñ(Ñ + 1)/2 + Ñ·m bytes, 4 for each scale, a header."""
        return seal(KIND, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "rows": self.rows,
        }
        arrays: dict[str, Array] = {
            "beta": self.beta.values,
            "beta.scale": self.beta.scale,
            "C": packed(self.C),
            "C.scale": self.C.scale,
        }
        return fields, arrays

    @classmethod
    def from_bytes(cls, blob: bytes) -> "CompactModel":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else."""
        fields, arrays = unseal(KIND, blob)
        with unpacking("a compact model"):
            basis = Basis.from_fields(fields["basis"])
            C = unpacked(arrays["C"], arrays["C.scale"], basis.layer.units)
            made = cls(basis, Quantized(arrays["beta"], arrays["beta.scale"]), C, fields["rows"])
            require_written_as(made._packed(), fields, arrays)
        return made
