"""A task: what the server of a federation in rounds asks of its clients."""

from dataclasses import dataclass

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.cholesky import require_ridge
from elmgrove.algebra.fed_elms import State
from elmgrove.algebra.packing import Packed
from elmgrove.engines.arrays import pack_model, unpack_model
from elmgrove.federation.entries import require_origin
from elmgrove.federation.sealed import require_written_as, seal, unpacking, unseal

KIND = "elmgrove.task"


@dataclass(frozen=True)
class Task:
    """The basis to learn with, so that a client needs no settings; in Fed-ELMS also β and P.

    A client that learned with another basis before refuses it and names the difference.
    """

    federation: str
    basis: Basis
    ridge: float = 1e-3
    model: State | None = None

    def __post_init__(self) -> None:
        require_origin(self.federation)
        require_ridge(self.ridge)

    def to_bytes(self) -> bytes:
        """As it is sent: sealed and checksummed."""
        return seal(KIND, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "federation": self.federation,
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "ridge": self.ridge,
        }
        return fields, {} if self.model is None else pack_model(self.model)

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Task":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else."""
        fields, arrays = unseal(KIND, blob)
        with unpacking("a task"):
            basis = Basis.from_fields(fields["basis"])
            model = unpack_model(basis, arrays) if arrays else None
            made = cls(fields["federation"], basis, fields["ridge"], model)
            require_written_as(made._packed(), fields, arrays)
        return made
