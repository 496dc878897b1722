"""Messages of federations in rounds: the task that a server sends, and Fed-ELMS' reply to it.

Clients that sum evidence reply with a ``Contribution``, and in 8 bits β and P travel both ways as
a ``CompactModel``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra import (
    OWN,
    Array,
    Basis,
    Packed,
    RoundModel,
    RoundUpdate,
    mirrored,
    require_ridge,
)
from elmgrove.errors import BadInput
from elmgrove.federation import require_epoch, require_origin
from elmgrove.rounds.compact import COMPACT_FORMAT, CompactModel
from elmgrove.storage import format_of, require_written_as, seal, unpacking, unseal

TASK_FORMAT = "elmgrove.task"
UPDATE_FORMAT = "elmgrove.update"
#: Bits of a number in a message: as it is, and in a compact model.
PLAIN, COMPACT = 64, 8


@dataclass(frozen=True)
class Task:
    """What a server asks: to learn with this basis, and in Fed-ELMS from this β and P.

    A client needs no settings of its own. One that learned with another basis before refuses the
    task and names the difference.
    """

    federation: str
    basis: Basis
    ridge: float = 1e-3
    model: RoundModel | None = None

    def __post_init__(self) -> None:
        require_origin(self.federation)
        require_ridge(self.ridge)
        if self.basis.scaling.kind == OWN:
            raise BadInput("a federation in rounds has one scaling for all clients, no own units")

    def to_bytes(self) -> bytes:
        """Gives the message as it is sent: sealed, with a checksum."""
        return seal(TASK_FORMAT, *self._packed())

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
        """Makes a task of what ``to_bytes`` gave; ``BadFile`` for anything else."""
        fields, arrays = unseal(TASK_FORMAT, blob)
        with unpacking("a task"):
            basis = Basis.from_fields(fields["basis"])
            model = unpack_model(basis, arrays) if arrays else None
            made = cls(fields["federation"], basis, fields["ridge"], model)
            require_written_as(made._packed(), fields, arrays)
        return made


@dataclass(frozen=True)
class Reply:
    """What a client of Fed-ELMS answers: its update, its name, and the basis it learned with."""

    origin: str
    basis: Basis
    update: RoundUpdate

    def __post_init__(self) -> None:
        require_origin(self.origin)
        require_epoch(int(self.update.rows))

    def to_bytes(self) -> bytes:
        """Gives the message as it is sent: sealed, with a checksum."""
        return seal(UPDATE_FORMAT, *self._packed())

    def _packed(self) -> Packed:
        fields = {
            "origin": self.origin,
            "basis": self.basis.fields,
            "fingerprint": self.basis.fingerprint,
            "rows": int(self.update.rows),
        }
        return fields, pack_model(RoundModel(self.update.beta, self.update.P))

    @classmethod
    def from_bytes(cls, blob: bytes) -> "Reply":
        """Makes a reply of what ``to_bytes`` gave; ``BadFile`` for anything else."""
        fields, arrays = unseal(UPDATE_FORMAT, blob)
        with unpacking("an update"):
            basis = Basis.from_fields(fields["basis"])
            beta, P = unpack_model(basis, arrays)
            made = cls(fields["origin"], basis, RoundUpdate(beta, P, fields["rows"]))
            require_written_as(made._packed(), fields, arrays)
        return made


def pack_model(model: RoundModel) -> dict[str, Array]:
    """Gives β, and of P, which is symmetric, the upper triangle."""
    return {"beta": model.beta, "P": model.P[np.triu_indices(len(model.P))]}


def unpack_model(basis: Basis, arrays: Mapping[str, Array]) -> RoundModel:
    """Makes a model of what ``pack_model`` gave; ``BadInput`` unless finite and of this basis."""
    units = basis.layer.units
    beta, upper = arrays["beta"], arrays["P"]
    # Before anything of that size is made: the numbers may come from a stranger.
    if beta.shape != (units, basis.outputs) or upper.shape != (units * (units + 1) // 2,):
        raise BadInput(f"β {beta.shape} and P {upper.shape} do not fit {units} hidden units")
    if not all(part.dtype == np.float64 and np.isfinite(part).all() for part in (beta, upper)):
        raise BadInput("β and P must be finite numbers in float64")
    P = np.zeros((units, units))
    P[np.triu_indices(units)] = upper
    return RoundModel(beta, mirrored(P))


def require_bits(bits: int) -> None:
    """Raises ``BadInput`` unless messages can be of that width."""
    if bits not in (PLAIN, COMPACT):
        raise BadInput(f"bits must be {COMPACT} or {PLAIN}, not {bits}")


def model_of(request: bytes) -> tuple[Basis, RoundModel]:
    """Gives what a client of Fed-ELMS learns with and from: the basis, β and P of its request."""
    if format_of(request) == COMPACT_FORMAT:
        small = CompactModel.from_bytes(request)
        return small.basis, small.state
    task = Task.from_bytes(request)
    if task.model is None:
        raise BadInput("a task without β and P is not one of Fed-ELMS")
    return task.basis, task.model
