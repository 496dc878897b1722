"""A reply in Fed-ELMS: β and P after a client's rows."""

from dataclasses import dataclass

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.fed_elms import State, Update
from elmgrove.algebra.packing import Packed
from elmgrove.engines.arrays import pack_model, unpack_model
from elmgrove.federation.entries import require_epoch, require_origin
from elmgrove.federation.sealed import require_written_as, seal, unpacking, unseal

KIND = "elmgrove.update"


@dataclass(frozen=True)
class Reply:
    """An update with the name of the client that it comes from, and what it was learned with."""

    origin: str
    basis: Basis
    update: Update

    def __post_init__(self) -> None:
        require_origin(self.origin)
        require_epoch(int(self.update.rows))

    def to_bytes(self) -> bytes:
        """As it is sent: sealed and checksummed."""
        return seal(KIND, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "origin": self.origin,
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "rows": int(self.update.rows),
        }
        return fields, pack_model(State(self.update.beta, self.update.P))

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Reply":
        """The inverse of ``to_bytes``; ``BadFile`` for anything else."""
        fields, arrays = unseal(KIND, blob)
        with unpacking("an update"):
            basis = Basis.from_fields(fields["basis"])
            update = Update(*unpack_model(basis, arrays), fields["rows"])
            made = cls(fields["origin"], basis, update)
            require_written_as(made._packed(), fields, arrays)
        return made
