"""Messages of federations in rounds: a server's task, and the reply of Fed-ELMS.

Where evidence is added up the reply is a ``Contribution``; in 8 bits β and P travel both ways as a
``CompactModel``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from elmgrove.algebra.basis import Basis
from elmgrove.algebra.fed_elms import RoundModel, RoundUpdate
from elmgrove.algebra.linalg import mirrored, require_ridge
from elmgrove.algebra.moments import Packed
from elmgrove.algebra.rows import Array
from elmgrove.algebra.scaling import OWN
from elmgrove.errors import BadInput
from elmgrove.federation.contribution import require_epoch, require_origin
from elmgrove.rounds.compact import COMPACT_FORMAT, CompactModel
from elmgrove.storage.sealed import format_of, require_written_as, seal, unpacking, unseal


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
        return seal("elmgrove.task", *self._packed())

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
        fields, arrays = unseal("elmgrove.task", blob)
        with unpacking("a task"):
            basis = Basis.from_fields(fields["basis"])
            model = unpack_model(basis, arrays) if arrays else None
            made = cls(fields["federation"], basis, fields["ridge"], model)
            require_written_as(made._packed(), fields, arrays)
        return made


@dataclass(frozen=True)
class Reply:
    """What a client of Fed-ELMS answers: its update, its name, the basis it learned with."""

    origin: str
    basis: Basis
    update: RoundUpdate

    def __post_init__(self) -> None:
        require_origin(self.origin)
        require_epoch(int(self.update.rows))

    def to_bytes(self) -> bytes:
        return seal("elmgrove.update", *self._packed())

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
        fields, arrays = unseal("elmgrove.update", blob)
        with unpacking("an update"):
            basis = Basis.from_fields(fields["basis"])
            beta, P = unpack_model(basis, arrays)
            update = RoundUpdate(beta, P, fields["rows"])
            made = cls(fields["origin"], basis, update)
            require_written_as(made._packed(), fields, arrays)
        return made


def model_of(request: bytes) -> tuple[Basis, RoundModel]:
    """Read the basis, β and P with which a client of Fed-ELMS is asked to learn."""
    if format_of(request) == COMPACT_FORMAT:
        small = CompactModel.from_bytes(request)
        return small.basis, small.state
    task = Task.from_bytes(request)
    if task.model is None:
        raise BadInput("a task without β and P is not one of Fed-ELMS")
    return task.basis, task.model


def pack_model(model: RoundModel) -> dict[str, Array]:
    """Pack β, and of P, which is symmetric, the upper triangle."""
    return {"beta": model.beta, "P": model.P[np.triu_indices(len(model.P))]}


def unpack_model(basis: Basis, arrays: Mapping[str, Array]) -> RoundModel:
    """Reverse ``pack_model``; ``BadInput`` unless all is finite and fits the basis."""
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
