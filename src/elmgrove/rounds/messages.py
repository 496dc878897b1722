"""What travels in a federation in rounds, beside evidence, which is a ``Contribution``."""

from dataclasses import dataclass
from typing import ClassVar

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.fed_elms import RoundModel
from elmgrove.algebra.moments import Packed
from elmgrove.algebra.scaling import OWN
from elmgrove.errors import BadInput
from elmgrove.federation.contribution import require_epoch, require_origin
from elmgrove.rounds.compact import CompactModel, pack_model, unpack_model
from elmgrove.storage.sealed import require_written_as, seal, unpacking, unseal

ROUND_FORMAT = "elmgrove.round"


@dataclass(frozen=True, eq=False)
class RoundMessage:
    """A server's request to learn with this basis, or a client's answer to it.

    In Fed-ELMS it has β and P, in float64 or in 8 bits: those to go on from, or those after the
    client's new ``rows``. A client needs no settings of its own.
    """

    #: Whether only its owner may read a new file of it.
    private: ClassVar[bool] = False

    sender: str
    basis: Basis
    model: RoundModel | CompactModel | None = None
    rows: int = 0

    def __post_init__(self) -> None:
        require_origin(self.sender)
        require_epoch(self.rows)
        if self.basis.scaling.kind == OWN:
            raise BadInput("a federation in rounds has one scaling for all clients, no own units")

    @property
    def state(self) -> RoundModel:
        """β and P in float64; ``BadInput`` where there are none."""
        if self.model is None:
            raise BadInput("a message without β and P is not one of Fed-ELMS")
        return self.model.state if isinstance(self.model, CompactModel) else self.model

    def to_bytes(self) -> bytes:
        return seal(ROUND_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "sender": self.sender,
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "rows": self.rows,
        }
        return fields, {} if self.model is None else pack_model(self.model)

    @classmethod
    def from_bytes(cls, blob: bytes) -> "RoundMessage":
        fields, arrays = unseal(ROUND_FORMAT, blob)
        with unpacking("a message of a round"):
            basis = Basis.from_fields(fields["basis"])
            model = unpack_model(basis, arrays) if arrays else None
            made = cls(fields["sender"], basis, model, fields["rows"])
            require_written_as(made._packed(), fields, arrays)
        return made
